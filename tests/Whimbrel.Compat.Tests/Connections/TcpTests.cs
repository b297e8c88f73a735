using System.Diagnostics;
using System.Net;
using System.Net.Sockets;
using System.Text;
using NetCoreServer;

namespace Whimbrel.Compat.Tests.Connections;

public sealed class TcpTests
{
    [Fact]
    public void Events_come_in_their_order()
    {
        Log log = new(), clientLog = new();
        using RecordingServer server = new(log);
        Assert.True(server.Start());
        Assert.False(server.Start());
        using RecordingClient client = new(clientLog, server.Chosen);
        Assert.True(client.ConnectAsync());
        Assert.False(client.ConnectAsync());
        clientLog.Until("client: connected True");
        Assert.False(client.Connect());
        Assert.True(client.SendAsync("hello"));
        clientLog.Until("client: received hello");
        Assert.True(client.Disconnect());
        Assert.False(client.Disconnect());
        Assert.Equal(
            ["client: connecting False", "client: connected True", "client: received hello",
                "client: disconnecting True", "client: disconnected False"],
            clientLog.Lines);
        log.Until("server: disconnected");
        Assert.True(server.Stop());
        Assert.False(server.Stop());
        Assert.Equal(
            [
                "starting False", "started True", "session: connecting False", "server: connecting",
                "session: connected True", "server: connected", "session: received hello",
                "session: disconnecting True", "server: disconnecting", "session: disconnected False",
                "server: disconnected", "stopping True", "stopped False 0",
            ],
            log.Lines);
        Assert.Equal((5, 5, 5, 5), (client.BytesSent, client.BytesReceived, server.BytesSent, server.BytesReceived));
    }

    [Fact]
    public void A_failed_connect_is_reported_without_OnConnected()
    {
        int port = FreePort();
        Log log = new();
        using RecordingClient client = new(log, port);
        Assert.False(client.Connect());
        Assert.Equal(["client: connecting False", "client: disconnecting False", "client: disconnected False"],
            log.Lines);
        Assert.True(client.ConnectAsync());
        log.Until("client: disconnected False", 2);
        Assert.DoesNotContain("client: connected True", log.Lines);
        Assert.False(client.IsConnecting || client.IsConnected);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void A_disconnect_after_a_connect_or_inside_its_first_callback_cancels_it(bool inside)
    {
        using RecordingServer server = new(new Log());
        Assert.True(server.Start());
        Log log = new();
        using Hasty client = new(log, server.Chosen) { IsInside = inside };
        for (int i = 1; i <= 20; i++)
        {
            Assert.True(client.ConnectAsync());
            if (!inside) client.DisconnectAsync();
            log.Until("client: disconnected False", i);
            Assert.False(client.IsConnecting || client.IsConnected);
        }

        if (inside) Assert.Equal(0, log.Count("client: connected True"));
        client.IsInside = false;
        Assert.True(client.Connect());
    }

    private sealed class Hasty(Log log, int port) : RecordingClient(log, port)
    {
        internal bool IsInside { get; set; }

        protected override void OnConnecting()
        {
            base.OnConnecting();
            if (IsInside) DisconnectAsync();
        }
    }

    [Fact]
    public void Calls_in_the_wrong_state_do_nothing()
    {
        using RecordingServer server = new(new Log());
        using RecordingClient client = new(new Log(), 1);
        byte[] buffer = new byte[10];
        Assert.False(server.Stop() || server.Restart() || server.DisconnectAll() || server.Multicast("x"));
        Assert.False(client.Disconnect() || client.Reconnect() || client.SendAsync("x") || client.DisconnectAsync()
            || client.ReconnectAsync());
        Assert.Equal((0, 0), (client.Send("x"), client.Receive(buffer)));
        Assert.Equal("", client.Receive(10));
        client.ReceiveAsync();
        TcpSession session = new(server);
        Assert.False(session.IsConnected || session.Disconnect() || session.SendAsync("x"));
        Assert.Null(client.Socket);
        Assert.Null(server.FindSession(Guid.NewGuid()));
    }

    [Fact]
    public void Data_sent_in_OnConnected_is_sent_and_in_OnDisconnected_is_not()
    {
        Log log = new(), clientLog = new();
        bool? inEnd = null;
        using RecordingServer server = new(log)
        {
            Make =
                static s => new RecordingSession(s) { AtConnected = static x => Assert.True(x.SendAsync("welcome")) },
        };
        server.Start();
        using RecordingClient client =
            new(clientLog, server.Chosen) { AtDisconnected = c => inEnd = c.SendAsync("late") };
        client.ConnectAsync();
        clientLog.Until("client: received welcome");
        server.Stop();
        Log.Until(() => inEnd is not null, "OnDisconnected");
        Assert.False(inEnd);
        Assert.Equal(1, log.Count("session: disconnected False"));
    }

    [Fact]
    public void A_client_that_connects_in_OnDisconnected_reconnects()
    {
        Log log = new(), clientLog = new();
        using RecordingServer server = new(log);
        server.Start();
        int left = 3;
        using RecordingClient client = new(clientLog, server.Chosen);
        client.AtDisconnected = c =>
        {
            if (--left > 0) Assert.True(c.ConnectAsync());
        };
        client.ConnectAsync();
        for (int i = 1; i <= 3; i++)
        {
            clientLog.Until("client: connected True", i);
            log.Until("server: connected", i);
            server.DisconnectAll();
            clientLog.Until("client: disconnected False", i);
        }

        Assert.Equal(0, left);
    }

    [Fact]
    public void A_connect_that_waits_leaves_the_bytes_to_Receive()
    {
        using RecordingServer server = new(new Log())
        {
            Make = static s => new RecordingSession(s) { AtConnected = static x => x.SendAsync("one two") }
        };
        server.Start();
        Log log = new();
        using RecordingClient client = new(log, server.Chosen);
        Assert.True(client.Connect());
        Assert.True(client.IsConnected);
        byte[] buffer = new byte[3];
        Assert.Equal(3, client.Receive(buffer));
        Assert.Equal("one", Encoding.ASCII.GetString(buffer));
        Assert.Equal(" ", client.Receive(1));
        Assert.Equal(["client: connecting False", "client: connected True", "client: received one",
            "client: received  "], log.Lines);
        client.ReceiveAsync();
        log.Until("client: received two");
        Assert.Equal(4, client.Send("echo"));
        Assert.True(client.Reconnect());
        Assert.Equal("one", client.Receive(3));
    }

    [Fact]
    public void Large_data_is_sent_whole_by_a_blocking_send()
    {
        using RecordingServer server = new(new Log());
        server.Start();
        Log log = new();
        using RecordingClient client = new(log, server.Chosen);
        client.ConnectAsync();
        log.Until("client: connected True");
        byte[] much = new byte[8 * 1024 * 1024];
        server.Make = null;
        Log.Until(() => server.ConnectedSessions == 1, "the session");
        long sent = 0;
        foreach (byte[] piece in much.Chunk(1024 * 1024)) sent += client.Send(piece);
        Assert.Equal(much.Length, sent);
        Log.Until(() => server.BytesReceived == much.Length, "the server to have all of it");
        Log.Until(() => client.Received == much.Length, "the echo of all of it");
    }

    // Its queue has a limit here. Before the limit is reached, the server stops receiving from a peer that does not
    // read its responses.
    [Theory]
    [InlineData(Scheduling.Inline)]
    [InlineData(Scheduling.ThreadPool)]
    public void A_peer_that_reads_its_echo_slowly_is_throttled_and_not_disconnected(Scheduling callbacks)
    {
        const int Much = 32 * 1024 * 1024;
        using Setting setting = new(callbacks);
        Log log = new();
        RecordingSession? session = null;
        using RecordingServer server = new(log);
        server.Make = s => session = new RecordingSession(s) { AtReceived = static (me, text) => me.SendAsync(text) };
        server.Start();
        using Socket peer = Cost.Connect(server.Chosen);
        Task sending = Task.Run(() => peer.Send(new byte[Much]));
        Log.Until(() => session is { BytesPending: > 256 * 1024 }, "the queue to fill");
        Cost.Read(peer, new byte[Much]);
        Log.Until(() => sending.IsCompletedSuccessfully, "all to be sent");
        Assert.Equal(0, log.Count("server: disconnected"));
    }

    [Fact]
    public void Multicast_reaches_all_from_any_thread_and_DisconnectAll_ends_all()
    {
        Log log = new();
        using RecordingServer server = new(log);
        server.Start();
        Log[] logs = [.. Enumerable.Range(0, 5).Select(static _ => new Log())];
        RecordingClient[] clients = [.. logs.Select(l => new RecordingClient(l, server.Chosen))];
        foreach (RecordingClient client in clients) client.ConnectAsync();
        log.Until("server: connected", 5);
        Parallel.For(0, 4, i => Assert.True(server.Multicast(new byte[1000 + i])));
        foreach (RecordingClient client in clients) Log.Until(() => client.Received == 4006, "all four");
        Assert.True(server.DisconnectAll());
        log.Until("server: disconnected", 5);
        Log.Until(() => server.ConnectedSessions == 0, "no session");
        foreach (Log each in logs) each.Until("client: disconnected False");
        foreach (RecordingClient client in clients) client.Dispose();
    }

    // As in the original: sequentially, on the calling thread.
    [Fact]
    public void DisconnectAll_calls_each_OnDisconnected_itself()
    {
        const int Sessions = 3;
        Log log = new();
        int self = Environment.CurrentManagedThreadId;
        using RecordingServer server = new(log);
        server.Make = s => new RecordingSession(s)
        {
            AtDisconnected = _ => log.Add($"mine {Environment.CurrentManagedThreadId == self}"),
        };
        server.Start();
        Socket[] peers = [.. Enumerable.Range(0, Sessions).Select(_ => Cost.Connect(server.Chosen))];
        // A response shows that OnConnected has returned.
        foreach (Socket peer in peers)
        {
            peer.Send(new byte[1]);
            Cost.Read(peer, new byte[1]);
        }

        Thread.Sleep(50); // tidy: waits because a callback that has responded takes a moment to return
        Assert.True(server.DisconnectAll());
        Assert.Equal(Sessions, log.Count("mine True"));
        Assert.Equal(Sessions, log.Count("server: disconnected"));
        foreach (Socket peer in peers) peer.Dispose();
    }

    [Fact]
    public void A_class_with_its_own_SendAsync_gets_every_multicast_by_it()
    {
        Log log = new();
        using RecordingServer server = new(log) { Make = static s => new Stamping(s) };
        server.Start();
        Log clientLog = new();
        using RecordingClient client = new(clientLog, server.Chosen);
        client.ConnectAsync();
        log.Until("server: connected");
        server.Multicast("news");
        clientLog.Until("client: received [news]");
    }

    // Independent of the order of connecting, and of the classes of the other sessions.
    [Fact]
    public void Where_one_class_of_two_has_its_own_SendAsync_it_gets_every_multicast_by_it()
    {
        int made = 0;
        Log log = new(), stamped = new(), plain = new();
        using RecordingServer server =
            new(log) { Make = s => Interlocked.Increment(ref made) == 1 ? new Stamping(s) : new RecordingSession(s) };
        server.Start();
        using RecordingClient first = new(stamped, server.Chosen), second = new(plain, server.Chosen);
        first.ConnectAsync();
        log.Until("server: connected");
        second.ConnectAsync();
        log.Until("server: connected", 2);
        server.Multicast("news");
        stamped.Until("client: received [news]");
        plain.Until("client: received news");
    }

    private sealed class Stamping(RecordingServer server) : RecordingSession(server)
    {
        public override bool SendAsync(ReadOnlySpan<byte> buffer) =>
            base.SendAsync(Encoding.ASCII.GetBytes($"[{Encoding.ASCII.GetString(buffer)}]").AsSpan());
    }

    [Fact]
    public void A_restart_keeps_the_port_also_with_sessions_open()
    {
        Log log = new(), clientLog = new();
        using RecordingServer server = new(log);
        server.Start();
        int port = server.Chosen;
        using RecordingClient client = new(clientLog, port);
        client.ConnectAsync();
        log.Until("server: connected");
        Assert.True(server.Restart());
        Assert.Equal((port, 0L), (server.Chosen, server.BytesReceived));
        Assert.Equal(1, log.Count("server: disconnected"));
        clientLog.Until("client: disconnected False");
        client.ConnectAsync();
        log.Until("server: connected", 2);
    }

    [Fact]
    public void Callbacks_may_block_and_the_others_continue()
    {
        using ManualResetEventSlim gate = new();
        int made = 0;
        using RecordingServer server = new(new Log());
        server.Make = s => Interlocked.Increment(ref made) == 1
            ? new RecordingSession(s) { AtReceived = (_, _) => gate.Wait() } : new RecordingSession(s);
        server.Start();
        Log log = new();
        using RecordingClient first = new(new Log(), server.Chosen), second = new(log, server.Chosen);
        first.ConnectAsync();
        Log.Until(() => server.ConnectedSessions == 1 && first.IsConnected, "the first");
        first.SendAsync("x");
        second.ConnectAsync();
        Log.Until(() => second.IsConnected, "the second");
        second.SendAsync("hello");
        log.Until("client: received hello");
        gate.Set();
    }

    [Fact]
    public void A_limit_refuses_with_an_error_and_the_connection_stays_open()
    {
        RecordingSession? session = null;
        Log log = new();
        using RecordingServer server = new(log);
        server.Make = s => session = new RecordingSession(s) { OptionSendBufferLimit = 1000 };
        server.Start();
        using RecordingClient client = new(new Log(), server.Chosen);
        client.ConnectAsync();
        log.Until("server: connected");
        Assert.False(session!.SendAsync(new byte[1001]));
        Assert.Equal(1, log.Count("session: error NoBufferSpaceAvailable"));
        Assert.True(session.SendAsync(new byte[1000]));
        Log.Until(() => client.Received == 1000, "what was within the limit");
        Assert.True(session.IsConnected);
        Assert.True(server.Multicast(new byte[1001]));
        Assert.Equal(2, log.Count("session: error NoBufferSpaceAvailable"));
    }

    [Fact]
    public void A_callback_that_throws_ends_its_session_and_nothing_else()
    {
        Log log = new(), clientLog = new();
        using RecordingServer server = new(log)
        {
            Make =
                static s => new RecordingSession(s) { AtReceived = static (_, text) => throw new FormatException(text) }
        };
        server.Start();
        using RecordingClient client = new(clientLog, server.Chosen), other = new(new Log(), server.Chosen);
        Assert.True(client.Connect());
        Assert.True(other.Connect());
        log.Until("server: connected", 2);
        Assert.True(client.SendAsync("x"));
        clientLog.Until("client: disconnected False");
        log.Until("session: error SocketError");
        log.Until("server: disconnected");
        Assert.True(other.IsConnected);
        Assert.Equal(1, server.ConnectedSessions);
    }

    [Fact]
    public void The_sockets_of_the_user_are_used_and_Socket_is_alive()
    {
        Log log = new();
        using OwnSockets server = new(log);
        server.Start();
        Assert.NotNull(server.Made);
        EndPoint? seen = null;
        server.AtConnected = s => seen = s.Socket.RemoteEndPoint;
        using RecordingClient client = new(new Log(), server.Chosen);
        Assert.True(client.Connect());
        Log.Until(() => seen is not null, "the session");
        Assert.Equal(client.Socket.LocalEndPoint, seen);
        Assert.False(client.IsSocketDisposed);
        client.Disconnect();
        Assert.True(client.IsSocketDisposed);
    }

    private sealed class OwnSockets(Log log) : RecordingServer(log)
    {
        internal Socket? Made { get; private set; }

        protected override Socket CreateSocket() => Made = base.CreateSocket();
    }

    [Fact]
    public void A_taken_port_throws_the_original_exception()
    {
        using RecordingServer first = new(new Log());
        first.Start();
        using RecordingServer second = new(new Log(), first.Chosen);
        SocketException e = Assert.Throws<SocketException>(() => second.Start());
        Assert.Equal(SocketError.AddressAlreadyInUse, e.SocketErrorCode);
        Assert.False(second.IsStarted);
    }

    [Fact]
    public void An_end_does_not_wait_for_a_peer_that_keeps_its_side_open()
    {
        Log log = new();
        RecordingSession? session = null;
        using RecordingServer server = new(log);
        server.Make = s => session = new RecordingSession(s);
        server.Start();
        using Socket peer = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        peer.Connect(IPAddress.Loopback, server.Chosen);
        log.Until("server: connected");
        long start = Stopwatch.GetTimestamp();
        Assert.True(session!.SendAsync("bye"));
        Assert.True(session.Disconnect());
        Assert.True(Stopwatch.GetElapsedTime(start) < TimeSpan.FromSeconds(4), "it waited for the peer's FIN");
        Assert.Equal(1, log.Count("server: disconnected"));
        byte[] buffer = new byte[10];
        Assert.Equal((3, 0), (peer.Receive(buffer), peer.Receive(buffer)));
    }

    [Fact]
    public void A_server_may_stop_in_its_own_callback()
    {
        Log log = new();
        using RecordingServer server = new(log);
        server.AtConnected = _ => server.Stop();
        server.Start();
        Log clientLog = new();
        using RecordingClient client = new(clientLog, server.Chosen);
        long start = Stopwatch.GetTimestamp();
        client.ConnectAsync();
        clientLog.Until("client: disconnected False");
        log.Until("session: disconnected False");
        Assert.False(server.IsStarted);
        Assert.True(Stopwatch.GetElapsedTime(start) < TimeSpan.FromSeconds(4),
            "a stop in a callback of a session must not wait for that session");
    }

    [Fact]
    public void Two_sessions_that_end_each_other_do_not_wait_for_each_other()
    {
        List<RecordingSession> sessions = [];
        using Barrier both = new(2);
        Log log = new();
        using RecordingServer server = new(log);
        server.Make = s =>
        {
            RecordingSession session = new(s);
            lock (sessions) sessions.Add(session);
            session.AtReceived = (me, _) =>
            {
                both.SignalAndWait(Log.Patience);
                sessions.First(x => x != me).Disconnect();
            };
            return session;
        };
        server.Start();
        using RecordingClient one = new(new Log(), server.Chosen), two = new(new Log(), server.Chosen);
        Assert.True(one.Connect());
        Assert.True(two.Connect());
        log.Until("server: connected", 2);
        long start = Stopwatch.GetTimestamp();
        Assert.True(one.SendAsync("x"));
        Assert.True(two.SendAsync("x"));
        log.Until("session: disconnected False", 2);
        Assert.True(Stopwatch.GetElapsedTime(start) < TimeSpan.FromSeconds(4),
            "each waited for the other up to the time limit");
    }

    [Fact]
    public void OnSent_and_OnEmpty_are_called_for_a_class_that_overrides_them()
    {
        Log log = new();
        using RecordingServer server = new(log) { Make = static s => new Telling(s) };
        server.Start();
        Log clientLog = new();
        using RecordingClient client = new(clientLog, server.Chosen);
        Assert.True(client.Connect());
        log.Until("session: empty");
        Assert.True(client.SendAsync("hello"));
        log.Until("session: sent 5 0");
        log.Until("session: empty", 2);
    }

    [Theory]
    [InlineData(Scheduling.Inline)]
    [InlineData(Scheduling.ThreadPool)]
    public void Of_two_classes_on_one_server_each_gets_the_callbacks_it_overrides(Scheduling callbacks)
    {
        using Setting setting = new(callbacks);
        Log log = new();
        int made = 0;
        using RecordingServer server = new(log)
        {
            Make = s => Interlocked.Increment(ref made) % 2 == 1 ? new RecordingSession(s) : new Telling(s)
        };
        server.Start();
        for (int i = 1; i <= 4; i++)
        {
            Log clientLog = new();
            using RecordingClient client = new(clientLog, server.Chosen);
            Assert.True(client.ConnectAsync());
            clientLog.Until("client: connected True");
            log.Until("server: connected", i);
            log.Until("session: empty", i / 2); // before the echo, which empties the queue once more
            Assert.True(client.SendAsync("hello"));
            Log.Until(() => client.Received == 5, "the echo");
            log.Until("session: sent 5 0", i / 2);
            Assert.True(client.Disconnect());
            log.Until("server: disconnected", i);
        }

        Assert.Equal(2, log.Count("session: sent 5 0"));
        // One session object per connection, even if one native session replaced another.
        Assert.Equal((4, 4, 4),
            (made, log.Count("session: connecting False"), log.Count("session: disconnected False")));
        Assert.Equal(0, server.ConnectedSessions);
    }

    [Theory]
    [InlineData(Scheduling.Inline)]
    [InlineData(Scheduling.ThreadPool)]
    public void A_server_that_creates_no_session_gets_an_error_and_continues(Scheduling callbacks)
    {
        using Setting setting = new(callbacks);
        Log log = new(), refusedLog = new();
        int made = 0;
        using RecordingServer server = new(log)
        {
            Make = s =>
                Interlocked.Increment(ref made) == 1 ? throw new FormatException("no session") : new RecordingSession(s)
        };
        server.Start();
        using RecordingClient refused = new(refusedLog, server.Chosen), next = new(new Log(), server.Chosen);
        Assert.True(refused.ConnectAsync());
        log.Until("server: error SocketError");
        refusedLog.Until("client: disconnected False");
        Assert.True(next.Connect());
        log.Until("server: connected");
        Assert.Equal(1, log.Count("server: error SocketError"));
    }

    [Theory]
    [InlineData(Scheduling.Inline)]
    [InlineData(Scheduling.ThreadPool)]
    public void A_server_gets_an_error_when_its_socket_is_shut_down(Scheduling callbacks)
    {
        using Setting setting = new(callbacks);
        Log log = new();
        using OwnSockets server = new(log);
        server.Start();
        server.Made!.Shutdown(SocketShutdown.Both);
        log.Until("server: error InvalidArgument");
        Assert.True(server.IsStarted);
        Assert.True(server.Stop());
    }

    private sealed class Telling(RecordingServer server) : RecordingSession(server)
    {
        protected override void OnSent(long sent, long pending) => Log.Add($"session: sent {sent} {pending}");

        protected override void OnEmpty() => Log.Add("session: empty");
    }

    [Fact]
    public void Counters_of_the_users_need_no_lock()
    {
        const int Count = 200;
        int plain = 0;
        Log log = new();
        using RecordingServer server = new(log) { AtConnected = _ => plain++ };
        server.Start();
        RecordingClient[] clients = [.. Enumerable.Range(0, Count)
            .Select(_ => new RecordingClient(new Log(), server.Chosen))];
        foreach (RecordingClient client in clients) client.ConnectAsync();
        log.Until("server: connected", Count);
        Log.Until(() => Volatile.Read(ref plain) == Count, "each to be counted");
        server.Stop();
        Assert.Equal(Count, log.Count("server: disconnected"));
        foreach (RecordingClient client in clients) client.Dispose();
    }

    private static int FreePort()
    {
        TcpListener listener = new(IPAddress.Loopback, 0);
        listener.Start();
        int port = ((IPEndPoint)listener.LocalEndpoint).Port;
        listener.Stop();
        return port;
    }
}
