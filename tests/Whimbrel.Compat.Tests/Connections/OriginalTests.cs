using System.Net;
using System.Net.Sockets;
using NetCoreServer;
using TcpClient = NetCoreServer.TcpClient;

namespace Whimbrel.Compat.Tests.Connections;

// Rarely used behaviour of the original, with the values that it returns.
public sealed class OriginalTests
{
    // If a callback of the end throws, the original keeps the session in the server's list, and the process terminates.
    public static TheoryData<Scheduling, string> Throwing()
    {
        TheoryData<Scheduling, string> cases = [];
        foreach (Scheduling callbacks in (Scheduling[])[Scheduling.ThreadPool, Scheduling.Inline])
        {
            foreach (string where in (string[])["disconnected", "disconnecting", "received,disconnected",
                "received,error,disconnecting,disconnected", "server", "received,disconnected,server",
                "connecting,disconnected"])
                cases.Add(callbacks, where);
        }

        return cases;
    }

    [Theory]
    [MemberData(nameof(Throwing))]
    public void A_session_with_throwing_callbacks_leaves_the_list_of_its_server(Scheduling callbacks, string where)
    {
        using Setting setting = new(callbacks);
        string[] places = where.Split(',');
        using ThrowingServer server = new(places);
        Assert.True(server.Start());
        using TcpClient client = new(IPAddress.Loopback, ((IPEndPoint)server.Endpoint).Port);
        Assert.True(client.ConnectAsync());
        Log.Until(() => server.Made == 1, "the session");
        if (places.Contains("received"))
        {
            Log.Until(() => client.IsConnected, "the client");
            client.SendAsync("x");
        }
        else if (!places.Contains("connecting"))
        {
            Log.Until(() => server.Connected == 1 && client.IsConnected, "both");
            client.DisconnectAsync();
        }

        Log.Until(() => server.ConnectedSessions == 0 && server.Disconnected == 1,
            $"an empty list; sessions {server.ConnectedSessions}, reported {server.Disconnected}");
        Assert.True(server.Stop());
    }

    private sealed class ThrowingServer(string[] places) : TcpServer(IPAddress.Loopback, 0)
    {
        private int _made, _connected, _disconnected;

        internal int Made => Volatile.Read(ref _made);

        internal int Connected => Volatile.Read(ref _connected);

        internal int Disconnected => Volatile.Read(ref _disconnected);

        internal void At(string place)
        {
            if (places.Contains(place)) throw new FormatException(place);
        }

        protected override TcpSession CreateSession()
        {
            Interlocked.Increment(ref _made);
            return new ThrowingSession(this);
        }

        protected override void OnConnected(TcpSession session) => Interlocked.Increment(ref _connected);

        protected override void OnDisconnected(TcpSession session)
        {
            Interlocked.Increment(ref _disconnected);
            At("server");
        }
    }

    private sealed class ThrowingSession(ThrowingServer server) : TcpSession(server)
    {
        protected override void OnConnecting() => server.At("connecting");

        protected override void OnReceived(byte[] buffer, long offset, long size) => server.At("received");

        protected override void OnDisconnecting() => server.At("disconnecting");

        protected override void OnDisconnected() => server.At("disconnected");

        protected override void OnError(SocketError error) => server.At("error");
    }

    [Fact]
    public void A_session_has_the_buffer_sizes_of_its_server()
    {
        using TcpServer tcp =
            new(IPAddress.Loopback, 0) { OptionReceiveBufferSize = 1234, OptionSendBufferSize = 5678 };
        TcpSession session = new(tcp);
        Assert.Equal((1234, 5678), (session.OptionReceiveBufferSize, session.OptionSendBufferSize));
        using SslServer ssl =
            new(new SslContext(), IPAddress.Loopback, 0) { OptionReceiveBufferSize = 1, OptionSendBufferSize = 2 };
        SslSession secure = new(ssl);
        Assert.Equal((1, 2), (secure.OptionReceiveBufferSize, secure.OptionSendBufferSize));
        using UdsServer uds = new(Path.GetTempFileName()) { OptionReceiveBufferSize = 3, OptionSendBufferSize = 4 };
        UdsSession local = new(uds);
        Assert.Equal((3, 4), (local.OptionReceiveBufferSize, local.OptionSendBufferSize));
    }

    [Fact]
    public void The_receive_buffer_size_of_the_server_is_what_OnReceived_gets_at_most_at_first()
    {
        Log log = new();
        using RecordingServer server = new(log) { OptionReceiveBufferSize = 16 };
        server.Make = s => new RecordingSession(s) { AtReceived = (_, text) => log.Add(text) };
        Assert.True(server.Start());
        using Socket peer = Cost.Connect(server.Chosen);
        log.Until("server: connected");
        peer.Send("0123456789abcdefghij"u8);
        log.Until("0123456789abcdef");
        log.Until("ghij");
    }

    [Fact]
    public void A_client_can_connect_after_its_OnConnecting_threw()
    {
        using RecordingServer server = new(new Log());
        Assert.True(server.Start());
        using Stubborn client = new(server.Chosen);
        Assert.Throws<FormatException>(() => client.ConnectAsync());
        Assert.False(client.IsConnecting || client.IsConnected);
        Assert.Throws<FormatException>(() => client.Connect());
        Assert.False(client.IsConnecting || client.IsConnected);
        client.Throws = false;
        Assert.True(client.Connect());
        Assert.True(client.Disconnect());
        client.Throws = true;
        Assert.Throws<FormatException>(() => client.ConnectAsync());
        client.Throws = false;
        Assert.True(client.ConnectAsync());
        Log.Until(() => client.IsConnected, "the connection");
    }

    private sealed class Stubborn(int port) : TcpClient(IPAddress.Loopback, port)
    {
        internal bool Throws { get; set; } = true;

        protected override void OnConnecting()
        {
            if (Throws) throw new FormatException("connecting");
        }
    }

    [Theory]
    [InlineData(Scheduling.ThreadPool)]
    [InlineData(Scheduling.Inline)]
    public void Stop_in_OnStarted_stops_and_Start_returns_true(Scheduling callbacks)
    {
        using Setting setting = new(callbacks);
        Log log = new();
        using Brief server = new(log);
        Assert.True(server.Start());
        Assert.False(server.IsStarted || server.IsAccepting);
        Assert.True(server.IsSocketDisposed);
        Assert.Equal(["starting", "started", "stopped", "stop True"], log.Lines);
        server.Stops = false;
        Assert.True(server.Start());
        Assert.True(server.IsStarted);
    }

    private sealed class Brief(Log log) : TcpServer(IPAddress.Loopback, 0)
    {
        internal bool Stops { get; set; } = true;

        protected override void OnStarting() => log.Add("starting");

        protected override void OnStarted()
        {
            log.Add("started");
            if (Stops) log.Add($"stop {Stop()}");
        }

        protected override void OnStopped() => log.Add("stopped");
    }

    // The original binds first: OnStarting sees the real port, and is not called if binding fails.
    [Fact]
    public void OnStarting_comes_after_the_bind_with_the_real_end_point_and_not_when_it_fails()
    {
        Log log = new();
        using Binding first = new(log, 0);
        Assert.True(first.Start());
        int port = ((IPEndPoint)first.Endpoint).Port;
        Assert.Equal([$"starting {port} False", $"started {port} True"], log.Lines);
        Log second = new();
        using Binding taken = new(second, port);
        Assert.Throws<SocketException>(() => taken.Start());
        Assert.Empty(second.Lines);
        Assert.False(taken.IsStarted);
        first.Stop();
        Assert.True(taken.Start());
    }

    [Fact]
    public void After_an_OnStarting_that_throws_the_port_is_free_and_the_server_can_start()
    {
        Log log = new();
        using Binding server = new(log, 0) { Throws = true };
        Assert.Throws<FormatException>(() => server.Start());
        Assert.False(server.IsStarted);
        int port = ((IPEndPoint)server.Endpoint).Port;
        using Binding other = new(new Log(), port);
        Assert.True(other.Start());
        other.Stop();
        server.Throws = false;
        Assert.True(server.Start());
    }

    private sealed class Binding(Log log, int port) : TcpServer(IPAddress.Loopback, port)
    {
        internal bool Throws { get; set; }

        protected override void OnStarting()
        {
            log.Add($"starting {((IPEndPoint)Endpoint).Port} {IsStarted}");
            if (Throws) throw new FormatException("starting");
        }

        protected override void OnStarted() => log.Add($"started {((IPEndPoint)Endpoint).Port} {IsStarted}");
    }
}
