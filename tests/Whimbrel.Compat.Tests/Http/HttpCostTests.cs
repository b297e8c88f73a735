using System.Net;
using System.Net.Security;
using System.Net.Sockets;
using System.Security.Authentication;
using System.Text;
using NetCoreServer;
using Whimbrel.Compat.Tests.Connections;
using HttpClient = NetCoreServer.HttpClient;
using HttpRequest = NetCoreServer.HttpRequest;
using HttpResponse = NetCoreServer.HttpResponse;

namespace Whimbrel.Compat.Tests.Http;

// Memory cost of a request and its response with the old classes. Values handed out as text are allocated for each
// request, as in the original; nothing else is.
public sealed class HttpCostTests
{
    private static readonly byte[] s_body = new byte[100];

    [Theory]
    [InlineData(Scheduling.Inline)]
    [InlineData(Scheduling.ThreadPool)]
    public void Requests_and_their_answers_cost_nothing(Scheduling callbacks)
    {
        using Setting setting = new(callbacks);
        using PlainServer server = new();
        Assert.True(server.Start());
        double cost = CostOfAsking(server, out byte[] answer);
        Assert.True(answer.AsSpan().StartsWith("HTTP/1.1 200 OK\r\n"u8) && answer.AsSpan().EndsWith(s_body));
        Assert.InRange(cost, 0, 1);
    }

    // Connections of a thread share a reader, but not in the middle of a message.
    [Fact]
    public async Task Requests_in_pieces_on_two_connections_of_a_loop_are_not_mixed()
    {
        await using Engine engine = new(new EngineOptions { Loops = 1 });
        await engine.StartAsync();
        CompatOptions.Engine = engine;
        try
        {
            using Setting setting = new(Scheduling.Inline);
            using WordServer server = new();
            Assert.True(server.Start());
            int port = ((IPEndPoint)server.Endpoint).Port;
            using Socket first = Cost.Connect(port), second = Cost.Connect(port);
            byte[] one = Encoding.ASCII.GetBytes($"GET /{new string('a', 90)} HTTP/1.1\r\nHost: localhost\r\n\r\n"),
                other = [.. "POST /b HTTP/1.1\r\nHost: localhost\r\nContent-Length: 40\r\n\r\n"u8, .. new byte[40]];
            byte[] answer = new byte[AnswerLength];
            long came = 0;
            for (int cut = 1; cut < Math.Min(one.Length, other.Length); cut++)
            {
                Part(first, one.AsSpan(0, cut));
                int ahead = Math.Min(cut + 25, other.Length - 1);
                Part(second, other.AsSpan(0, ahead));
                Part(first, one.AsSpan(cut));
                Cost.Read(first, answer);
                Assert.Equal(Encoding.ASCII.GetString(one, 0, one.Length - 21), server.Last);
                Part(second, other.AsSpan(ahead));
                Cost.Read(second, answer);
                Assert.Equal("POST /b HTTP/1.1", server.Last);
            }

            void Part(Socket socket, ReadOnlySpan<byte> bytes)
            {
                socket.Send(bytes);
                came += bytes.Length;
                Log.Until(() => server.BytesReceived == came, "the part to be received");
            }
        }
        finally
        {
            CompatOptions.Engine = null;
        }
    }

    [Fact]
    public void An_idle_connection_of_HTTP_costs_less_than_four_and_a_half_KiB()
    {
        using PlainServer server = new();
        Assert.True(server.Start());
        int port = ((IPEndPoint)server.Endpoint).Port;
        byte[] answer = new byte[2 * AnswerLength];
        Assert.InRange(
            Cost.OfIdleConnection(() => Cost.Connect(port), socket =>
            {
                socket.Send(Asking);
                Cost.Read(socket, answer);
            }),
            0,
            4608); // 4,204 measured: generations of requests and responses, and the send budget, added about 200 bytes
    }

    [Fact]
    public void An_idle_WebSocket_costs_less_than_four_KiB()
    {
        using SocketServer server = new();
        Assert.True(server.Start());
        int port = ((IPEndPoint)server.Endpoint).Port;
        byte[] frame = [0x82, 0x84, 0, 0, 0, 0, 1, 2, 3, 4];
        Assert.InRange(
            Cost.OfIdleConnection(() => Cost.Connect(port), socket =>
            {
                socket.Send(Encoding.ASCII.GetBytes(WebSocketConnectionTests.Asking));
                WebHost.Read(socket, "\r\n\r\n");
                socket.Send(frame);
                byte[] echo = new byte[6];
                Cost.Read(socket, echo);
                Assert.Equal([0x82, 4, 1, 2, 3, 4], echo);
            }),
            0,
            4096);
    }

    // A connection mostly repeats its requests: their texts are created once, and again only if they differ.
    [Fact]
    public void The_texts_of_requests_allocate_nothing_if_equal_to_those_of_the_previous_one()
    {
        using WordServer server = new();
        Assert.True(server.Start());
        Assert.InRange(CostOfAsking(server, out _), 0, 1);
        Assert.Equal("POST /echo HTTP/1.1", server.Last);
        foreach (string line in (string[])["GET /ech HTTP/1.1", "HEAD /echo HTTP/1.1", "GET /echp HTTP/1.1",
            "GET /echo HTTP/1.0", $"GET /{new string('x', 200)} HTTP/1.1"])
        {
            using Socket other = Cost.Connect(((IPEndPoint)server.Endpoint).Port);
            foreach (string asked in (string[])[line, "GET /echo HTTP/1.1", line, line])
            {
                int told = server.Told;
                other.Send(Encoding.ASCII.GetBytes($"{asked}\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n"));
                Log.Until(() => server.Told > told, "the callback");
                Assert.Equal(asked, server.Last);
            }
        }
    }

    [Fact]
    public void Requests_over_TLS_and_their_answers_cost_nothing()
    {
        using TlsServer server = new();
        Assert.True(server.Start());
        using Socket socket = Cost.Connect(((IPEndPoint)server.Endpoint).Port);
        using SslStream stream = new(new NetworkStream(socket), leaveInnerStreamOpen: false, SslTests.Own);
        stream.AuthenticateAsClient("localhost");
        byte[] answer = new byte[2 * AnswerLength];
        double cost = Settled(() =>
        {
            stream.Write(Asking);
            stream.ReadExactly(answer);
        });
        Assert.True(answer.AsSpan().StartsWith("HTTP/1.1 200 OK\r\n"u8) && answer.AsSpan().EndsWith(s_body));
        Assert.InRange(cost, 0, 1);
    }

    // A client that sends the next request in each callback, as the old performance programs do.
    [Theory]
    [InlineData(Scheduling.Inline)]
    [InlineData(Scheduling.ThreadPool)]
    public void Requests_of_a_client_cost_nothing(Scheduling callbacks)
    {
        using Setting setting = new(callbacks);
        using PlainServer server = new();
        Assert.True(server.Start());
        using Asker client = new(((IPEndPoint)server.Endpoint).Port);
        Assert.True(client.ConnectAsync());
        Assert.True(client.IsUp.Wait(Log.Patience));
        Assert.InRange(Settled(() => client.Ask(2)), 0, 1);
    }

    // An awaited request: a task, its completion source, its timer, and the response, which the caller keeps.
    [Fact]
    public void An_awaited_request_costs_its_task_its_timer_and_its_response()
    {
        using PlainServer server = new();
        Assert.True(server.Start());
        using HttpClientEx client = new(IPAddress.Loopback, ((IPEndPoint)server.Endpoint).Port);
        HttpRequest request = new HttpRequest().MakeGetRequest("/echo");
        int length = 0;
        double cost = Settled(() => length = client.SendRequest(request, Log.Patience).Result.BodyBytes.Length, 2500);
        Assert.Equal(s_body.Length, length);
        Assert.InRange(cost, 0, 2500);
    }

    private static byte[] Asking { get; } =
    [
        .. "GET /echo HTTP/1.1\r\nHost: localhost\r\n\r\n"u8, .. "POST /echo HTTP/1.1\r\nHost: localhost\r\n"u8,
        .. "Content-Type: text/plain\r\nContent-Length: 100\r\n\r\n"u8,
        .. s_body
    ];

    private static int AnswerLength { get; } = (int)new HttpResponse().MakeGetResponse(s_body, "text/plain").Cache.Size;

    private static double CostOfAsking(HttpServer server, out byte[] answers)
    {
        using Socket socket = Cost.Connect(((IPEndPoint)server.Endpoint).Port);
        byte[] both = answers = new byte[2 * AnswerLength];
        return Settled(() =>
        {
            socket.Send(Asking);
            Cost.Read(socket, both);
        });
    }

    private static double Settled(Action requests, double most = 1) => Cost.Settled(() => Cost.Of(requests), most);

    private sealed class Asker(int port) : HttpClient(IPAddress.Loopback, port)
    {
        private readonly SemaphoreSlim _done = new(0);
        private int _left;

        internal ManualResetEventSlim IsUp { get; } = new();

        internal void Ask(int count)
        {
            _left = count;
            SendRequestAsync();
            Assert.True(_done.Wait(Log.Patience));
        }

        protected override void OnConnected()
        {
            Request.MakeGetRequest("/echo");
            IsUp.Set();
        }

        protected override void OnReceivedResponse(HttpResponse response)
        {
            if (--_left > 0) SendRequestAsync();
            else _done.Release();
        }
    }

    private sealed class PlainServer() : HttpServer(IPAddress.Loopback, 0)
    {
        protected override TcpSession CreateSession() => new PlainSession(this);
    }

    private sealed class PlainSession(HttpServer server) : HttpSession(server)
    {
        protected override void OnReceivedRequest(HttpRequest request) =>
            SendResponseAsync(Response.MakeGetResponse(s_body, "text/plain"));
    }

    private sealed class SocketServer() : WsServer(IPAddress.Loopback, 0)
    {
        protected override TcpSession CreateSession() => new SocketSession(this);

        private sealed class SocketSession(WsServer server) : WsSession(server)
        {
            public override void OnWsReceived(byte[] buffer, long offset, long size) =>
                SendBinaryAsync(buffer, offset, size);
        }
    }

    private sealed class WordServer() : HttpServer(IPAddress.Loopback, 0)
    {
        private (string Method, string Url, string Protocol) _last;
        private int _told;

        internal string Last => $"{_last.Method} {_last.Url} {_last.Protocol}";

        internal int Told => Volatile.Read(ref _told);

        protected override TcpSession CreateSession() => new WordSession(this);

        private sealed class WordSession(WordServer server) : HttpSession(server)
        {
            protected override void OnReceivedRequest(HttpRequest request)
            {
                server._last = (request.Method, request.Url, request.Protocol);
                Interlocked.Increment(ref server._told);
                SendResponseAsync(Response.MakeGetResponse(s_body, "text/plain"));
            }
        }
    }

    private sealed class TlsServer()
        : HttpsServer(new SslContext(SslProtocols.Tls13, SslTests.Certificate), IPAddress.Loopback, 0)
    {
        protected override SslSession CreateSession() => new TlsSession(this);
    }

    private sealed class TlsSession(HttpsServer server) : HttpsSession(server)
    {
        protected override void OnReceivedRequest(HttpRequest request) =>
            SendResponseAsync(Response.MakeGetResponse(s_body, "text/plain"));
    }
}
