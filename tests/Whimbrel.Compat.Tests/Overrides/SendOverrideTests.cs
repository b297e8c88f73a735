using System.Net;
using NetCoreServer;
using Whimbrel.Compat.Tests.Connections;
using TcpClient = NetCoreServer.TcpClient;
using UdpClient = NetCoreServer.UdpClient;

namespace Whimbrel.Compat.Tests.Overrides;

// Programs override one overload of a send, to frame, encrypt or log what they send by another one. So each overload
// must call the one that the original calls: text the one with an array, an array or a slice the one with a span.
public sealed class SendOverrideTests
{
    private static readonly byte[] s_bytes = "bytes"u8.ToArray();

    [Fact]
    public void Each_send_of_a_session_passes_the_overloads_that_the_original_calls()
    {
        using Tracing server = new();
        using RecordingClient client = new(new Log(), server.Chosen);
        client.ConnectAsync();
        Log.Until(() => server.Session is { IsConnected: true }, "the session");
        TcpSession x = server.Session!;
        Assert.Equal("array > span", CallTrace.Of(() => x.Send(s_bytes)));
        Assert.Equal("slice > span", CallTrace.Of(() => x.Send(s_bytes, 1, 2)));
        Assert.Equal("text > array > span", CallTrace.Of(() => x.Send("text")));
        Assert.Equal("chars > array > span", CallTrace.Of(() => x.Send("text".AsSpan())));
        Assert.Equal("array async > span async", CallTrace.Of(() => x.SendAsync(s_bytes)));
        Assert.Equal("slice async > span async", CallTrace.Of(() => x.SendAsync(s_bytes, 1, 2)));
        Assert.Equal("text async > array async > span async", CallTrace.Of(() => x.SendAsync("text")));
        Assert.Equal("chars async > array async > span async", CallTrace.Of(() => x.SendAsync("text".AsSpan())));
        Assert.Equal("text multicast > array multicast > span async", CallTrace.Of(() => server.Multicast("text")));
        Assert.Equal("array multicast > span async", CallTrace.Of(() => server.Multicast("text".AsSpan())));
        Log.Until(() => client.Received == 38, "all bytes");
    }

    [Fact]
    public void A_session_that_frames_in_its_override_frames_text_too()
    {
        using RecordingServer server = new(new Log()) { Make = static own => new Framing(own) };
        server.Start();
        Log log = new();
        using RecordingClient client = new(log, server.Chosen);
        client.ConnectAsync();
        log.Until("client: received <hello>");
    }

    [Fact]
    public void Each_send_of_a_client_passes_the_overloads_that_the_original_calls()
    {
        using TracingClient x = new();
        Assert.Equal("text > array", CallTrace.Of(() => x.Send("text")));
        Assert.Equal("array", CallTrace.Of(() => x.Send("text".AsSpan())));
        Assert.Equal("text async > array async", CallTrace.Of(() => x.SendAsync("text")));
        Assert.Equal("array async", CallTrace.Of(() => x.SendAsync("text".AsSpan())));
    }

    [Fact]
    public void Each_send_of_a_UDP_object_passes_the_overloads_that_the_original_calls()
    {
        using TracingUdp x = new();
        EndPoint peer = x.Endpoint;
        Assert.Equal("text > array", CallTrace.Of(() => x.Send("text")));
        Assert.Equal("array", CallTrace.Of(() => x.Send("text".AsSpan())));
        Assert.Equal("text to > array to", CallTrace.Of(() => x.SendAsync(peer, "text")));
        Assert.Equal("array to", CallTrace.Of(() => x.SendAsync(peer, "text".AsSpan())));
    }

    private sealed class Tracing : RecordingServer
    {
        private volatile TcpSession? _session;

        internal Tracing()
            : base(new Log())
        {
            Make = own => new TracingSession(own);
            AtConnected = s => _session = s;
            Assert.True(Start());
        }

        internal TcpSession? Session => _session;

        public override bool Multicast(byte[] buffer) => Noted("array multicast", () => base.Multicast(buffer));

        public override bool Multicast(string text) => Noted("text multicast", () => base.Multicast(text));
    }

    private static T Noted<T>(string name, Func<T> call)
    {
        CallTrace.Add(name);
        return call();
    }

    private sealed class TracingSession(RecordingServer server) : RecordingSession(server)
    {
        public override long Send(byte[] buffer) => Noted("array", () => base.Send(buffer));

        public override long Send(byte[] buffer, long offset, long size) =>
            Noted("slice", () => base.Send(buffer, offset, size));

        public override long Send(string text) => Noted("text", () => base.Send(text));

        public override long Send(ReadOnlySpan<char> text)
        {
            CallTrace.Add("chars");
            return base.Send(text);
        }

        public override long Send(ReadOnlySpan<byte> buffer)
        {
            CallTrace.Add("span");
            return base.Send(buffer);
        }

        public override bool SendAsync(byte[] buffer) => Noted("array async", () => base.SendAsync(buffer));

        public override bool SendAsync(byte[] buffer, long offset, long size) =>
            Noted("slice async", () => base.SendAsync(buffer, offset, size));

        public override bool SendAsync(string text) => Noted("text async", () => base.SendAsync(text));

        public override bool SendAsync(ReadOnlySpan<char> text)
        {
            CallTrace.Add("chars async");
            return base.SendAsync(text);
        }

        public override bool SendAsync(ReadOnlySpan<byte> buffer)
        {
            CallTrace.Add("span async");
            return base.SendAsync(buffer);
        }
    }

    private sealed class Framing(RecordingServer server) : RecordingSession(server)
    {
        public override bool SendAsync(byte[] buffer) => base.SendAsync(["<"u8[0], .. buffer, ">"u8[0]]);

        protected override void OnConnected() => SendAsync("hello");
    }

    private sealed class TracingClient() : TcpClient(IPAddress.Loopback, 1)
    {
        public override long Send(byte[] buffer) => Noted("array", () => base.Send(buffer));

        public override long Send(string text) => Noted("text", () => base.Send(text));

        public override bool SendAsync(byte[] buffer) => Noted("array async", () => base.SendAsync(buffer));

        public override bool SendAsync(string text) => Noted("text async", () => base.SendAsync(text));
    }

    private sealed class TracingUdp() : UdpClient(IPAddress.Loopback, 1)
    {
        public override long Send(byte[] buffer) => Noted("array", () => base.Send(buffer));

        public override long Send(string text) => Noted("text", () => base.Send(text));

        public override bool SendAsync(EndPoint endpoint, byte[] buffer) =>
            Noted("array to", () => base.SendAsync(endpoint, buffer));

        public override bool SendAsync(EndPoint endpoint, string text) =>
            Noted("text to", () => base.SendAsync(endpoint, text));
    }
}
