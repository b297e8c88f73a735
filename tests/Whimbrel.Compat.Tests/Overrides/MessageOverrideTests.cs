using System.Net;
using System.Net.Sockets;
using NetCoreServer;
using Whimbrel.Compat.Tests.Connections;
using Whimbrel.Compat.Tests.Http;
using HttpClient = NetCoreServer.HttpClient;
using HttpRequest = NetCoreServer.HttpRequest;

namespace Whimbrel.Compat.Tests.Overrides;

// HTTP messages pass overrides of Send and SendAsync, WebSocket frames do not: as in the original.
public sealed class MessageOverrideTests
{
    [Fact]
    public void Responses_and_parts_of_bodies_pass_the_overrides_of_a_session()
    {
        using Serving host = new();
        using Socket peer = Cost.Connect(host.Chosen);
        peer.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n"u8);
        WebHost.Read(peer, "abcdefghi");
        WebHost.Until(() => host.Passed.Length > 0);
        Assert.Equal("slice async | text async > array async | array async | slice", host.Passed);
    }

    [Fact]
    public void Requests_and_parts_of_bodies_pass_the_overrides_of_a_client()
    {
        using Asking client = new();
        client.Request.MakePostRequest("/", "x");
        Assert.Equal("slice async", CallTrace.Of(() => client.SendRequestAsync()));
        Assert.Equal("slice", CallTrace.Of(() => client.SendRequest()));
        Assert.Equal("text async > array async", CallTrace.Of(() => client.SendRequestBodyAsync("text")));
    }

    [Fact]
    public void A_WebSocket_session_whose_SendAsync_sends_a_message_does_not_call_itself()
    {
        using Wrapping host = new();
        using Talking client = new(host.Chosen);
        Assert.True(client.ConnectAsync());
        WebHost.Until(() => client.Told.Contains("message wrapped"));
        Assert.Equal(1, host.Calls);
    }

    [Fact]
    public void DisconnectAll_that_closes_all_WebSockets_does_not_call_itself()
    {
        using Closing host = new();
        using Talking client = new(host.Chosen);
        Assert.True(client.ConnectAsync());
        WebHost.Until(() => client.Told.Any(static l => l.StartsWith("connected", StringComparison.Ordinal)));
        Assert.True(host.DisconnectAll());
        WebHost.Until(() => client.Told.Any(static l => l.StartsWith("close 1001", StringComparison.Ordinal)));
    }

    [Fact]
    public void A_handshake_whose_answer_an_override_does_not_send_ends()
    {
        using Wrapping host = new() { WrapsAll = true };
        using Talking client = new(host.Chosen);
        Assert.True(client.ConnectAsync());
        WebHost.Until(() => client.Told.Contains("gone"));
        Assert.DoesNotContain(client.Told, static l => l.StartsWith("connected", StringComparison.Ordinal));
    }

    [Fact]
    public void A_WebSocket_client_that_composes_no_request_gets_an_error_and_the_end()
    {
        using WsHost host = new();
        using Silent client = new(host.PortNumber);
        Assert.True(client.ConnectAsync());
        WebHost.Until(() => client.Ended);
        Assert.StartsWith("OnWsConnecting composed no request", client.Error, StringComparison.Ordinal);
    }

    private sealed class Silent(int port) : WsClient(IPAddress.Loopback, port)
    {
        private volatile bool _ended;

        internal string? Error { get; private set; }

        internal bool Ended => _ended;

        public override void OnWsError(string error) => Error = error;

        protected override void OnDisconnected()
        {
            base.OnDisconnected();
            _ended = true;
        }
    }

    private sealed class Serving : HttpServer
    {
        private volatile string _passed = "";

        internal Serving()
            : base(IPAddress.Loopback, 0) => Assert.True(Start());

        internal int Chosen => ((IPEndPoint)Endpoint).Port;

        internal string Passed => _passed;

        protected override TcpSession CreateSession() => new Answering(this);

        private sealed class Answering(Serving host) : HttpSession(host)
        {
            public override bool SendAsync(byte[] buffer)
            {
                CallTrace.Add("array async");
                return base.SendAsync(buffer);
            }

            public override bool SendAsync(byte[] buffer, long offset, long size)
            {
                CallTrace.Add("slice async");
                return base.SendAsync(buffer, offset, size);
            }

            public override bool SendAsync(string text)
            {
                CallTrace.Add("text async");
                return base.SendAsync(text);
            }

            public override long Send(byte[] buffer, long offset, long size)
            {
                CallTrace.Add("slice");
                return base.Send(buffer, offset, size);
            }

            protected override void OnReceivedRequest(HttpRequest request) => host._passed = string.Join(" | ",
                CallTrace.Of(() => SendResponseAsync(Response.Clear().SetBegin(200).SetBodyLength(9))),
                CallTrace.Of(() => SendResponseBodyAsync("abc")),
                CallTrace.Of(() => SendResponseBodyAsync("def"u8.ToArray())),
                CallTrace.Of(() => SendResponseBody("ghij"u8.ToArray(), 0, 3)));
        }
    }

    private sealed class Asking() : HttpClient(IPAddress.Loopback, 1)
    {
        public override bool SendAsync(byte[] buffer)
        {
            CallTrace.Add("array async");
            return base.SendAsync(buffer);
        }

        public override bool SendAsync(string text)
        {
            CallTrace.Add("text async");
            return base.SendAsync(text);
        }

        public override bool SendAsync(byte[] buffer, long offset, long size)
        {
            CallTrace.Add("slice async");
            return base.SendAsync(buffer, offset, size);
        }

        public override long Send(byte[] buffer, long offset, long size)
        {
            CallTrace.Add("slice");
            return base.Send(buffer, offset, size);
        }
    }

    private sealed class Wrapping : WsServer
    {
        private int _calls;

        internal Wrapping()
            : base(IPAddress.Loopback, 0) => Assert.True(Start());

        internal int Chosen => ((IPEndPoint)Endpoint).Port;

        internal int Calls => Volatile.Read(ref _calls);

        internal bool WrapsAll { get; init; }

        protected override TcpSession CreateSession() => new Session(this);

        private sealed class Session(Wrapping host) : WsSession(host)
        {
            private bool _isOpen;

            // The answer to the handshake passes it, too.
            public override bool SendAsync(ReadOnlySpan<byte> buffer)
            {
                if (!_isOpen && !host.WrapsAll) return base.SendAsync(buffer);
                Interlocked.Increment(ref host._calls);
                return SendTextAsync(buffer);
            }

            public override void OnWsConnected(HttpRequest request)
            {
                _isOpen = true;
                SendAsync("wrapped"u8);
            }
        }
    }

    private sealed class Closing : WsServer
    {
        internal Closing()
            : base(IPAddress.Loopback, 0) => Assert.True(Start());

        internal int Chosen => ((IPEndPoint)Endpoint).Port;

        public override bool DisconnectAll() => CloseAll(1001);
    }
}
