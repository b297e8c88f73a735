using System.Diagnostics;
using System.Net;
using System.Net.Sockets;
using NetCoreServer;
using TcpClient = NetCoreServer.TcpClient;

namespace Whimbrel.Compat.Tests.Connections;

// Ends of connections as in the original: the caller's thread calls OnDisconnected, and does not wait for a callback of
// another thread.
public sealed class EndingTests
{
    // It was 6 s; on an idle machine it takes 1 ms, or 200 ms if bytes or callbacks are stuck.
    private static readonly TimeSpan s_most = TimeSpan.FromSeconds(4);

    public static TheoryData<EngineKind, Scheduling> Cases => OnEngine.Cases;

    private static TimeSpan Time(Func<bool> call)
    {
        long began = Stopwatch.GetTimestamp();
        Assert.True(call());
        return Stopwatch.GetElapsedTime(began);
    }

    private static bool Dispose(IDisposable what)
    {
        what.Dispose();
        return true;
    }

    [Theory]
    [MemberData(nameof(Cases))]
    public async Task Ends_under_a_lock_that_OnDisconnected_takes_do_not_wait(EngineKind kind, Scheduling callbacks)
    {
        await using OnEngine engine = await OnEngine.StartAsync(kind, callbacks);
        object gate = new();
        foreach (string how in (string[])["session", "all", "stop", "restart", "dispose session", "dispose server"])
        {
            Log log = new();
            RecordingSession? session = null;
            using RecordingServer server = new(log);
            server.Make = s => session = new RecordingSession(s)
            {
                AtDisconnected = _ =>
                {
                    lock (gate) log.Add("locked");
                },
            };
            Assert.True(server.Start());
            using Socket peer = Cost.Connect(server.Chosen);
            log.Until("server: connected");
            TimeSpan took;
            lock (gate)
            {
                took = Time(() => how switch
                {
                    "session" => session!.Disconnect(),
                    "all" => server.DisconnectAll(),
                    "stop" => server.Stop(),
                    "restart" => server.Restart(),
                    "dispose session" => Dispose(session!),
                    _ => Dispose(server),
                });
            }

            Assert.True(took < s_most, $"{how} took {took.TotalMilliseconds} ms");
            log.Until("server: disconnected");
            int begun = log.Lines.Count(static l => l.StartsWith("session: disconnecting", StringComparison.Ordinal));
            Assert.Equal((1, 1, 1), (begun, log.Count("session: disconnected False"), log.Count("locked")));
            Log.Until(() => server.ConnectedSessions == 0, "no session");
        }
    }

    [Theory]
    [MemberData(nameof(Cases))]
    public async Task A_client_ends_under_a_lock_that_OnDisconnected_takes_and_connects_again(EngineKind kind,
        Scheduling callbacks)
    {
        await using OnEngine engine = await OnEngine.StartAsync(kind, callbacks);
        object gate = new();
        Log log = new(), clientLog = new();
        using RecordingServer server = new(log);
        Assert.True(server.Start());
        RecordingClient client = new(clientLog, server.Chosen)
        {
            AtDisconnected = _ =>
            {
                lock (gate) clientLog.Add("locked");
            },
        };
        int ends = 0;
        foreach (string how in (string[])["disconnect", "async", "reconnect", "reconnect async", "dispose"])
        {
            if (!client.IsConnected) Assert.True(client.ConnectAsync());
            clientLog.Until("client: connected True", ++ends);
            log.Until("server: connected", ends);
            Thread.Sleep(50); // tidy: waits because OnConnected, which has logged, takes a moment to return
            TimeSpan took;
            lock (gate)
            {
                took = Time(() => how switch
                {
                    "disconnect" => client.Disconnect(),
                    "async" => client.DisconnectAsync(),
                    "reconnect" => client.Reconnect(),
                    "reconnect async" => client.ReconnectAsync(),
                    _ => Dispose(client),
                });
                Assert.Equal(ends, clientLog.Count("locked"));
            }

            Assert.True(took < s_most, $"{how} took {took.TotalMilliseconds} ms");
            log.Until("server: disconnected", ends);
            if (how.StartsWith("reconnect", StringComparison.Ordinal))
                Log.Until(() => client.IsConnected, "the new connection");
        }

        Assert.Equal(ends, clientLog.Count("client: disconnected False"));
    }

    [Theory]
    [MemberData(nameof(Cases))]
    public async Task A_callback_that_waits_for_a_lock_of_the_caller_is_not_waited_for_and_the_end_follows_it(
        EngineKind kind, Scheduling callbacks)
    {
        await using OnEngine engine = await OnEngine.StartAsync(kind, callbacks);
        object gate = new();
        foreach (string how in (string[])["session", "all", "stop", "restart", "dispose"])
        {
            Log log = new();
            RecordingSession? session = null;
            using RecordingServer server = new(log);
            server.Make = s => session = new RecordingSession(s)
            {
                AtReceived = (_, _) =>
                {
                    log.Add("waits");
                    lock (gate) log.Add("received");
                },
            };
            Assert.True(server.Start());
            using Socket peer = Cost.Connect(server.Chosen);
            log.Until("server: connected");
            TimeSpan took;
            lock (gate)
            {
                peer.Send(new byte[1]);
                log.Until("waits");
                took = Time(() => how switch
                {
                    "session" => session!.Disconnect(),
                    "all" => server.DisconnectAll(),
                    "stop" => server.Stop(),
                    "restart" => server.Restart(),
                    _ => Dispose(session!),
                });
                Assert.False(session!.IsConnected);
                Assert.DoesNotContain("session: disconnected False", log.Lines);
            }

            Assert.True(took < s_most, $"{how} took {took.TotalMilliseconds} ms");
            log.Until("server: disconnected");
            string[] lines = [.. log.Lines.Where(static l => l is "received"
                || l.StartsWith("session: disconnect", StringComparison.Ordinal))];
            Assert.Equal(["received", "session: disconnecting False", "session: disconnected False"], lines);
            Log.Until(() => server.ConnectedSessions == 0, "no session");
            if (how != "restart") continue;
            using Socket again = ConnectSoon(server.Chosen);
            log.Until("server: connected", 2);
        }
    }

    // Where callbacks run on the loops, the server listens again when the one of the callback is free.
    private static Socket ConnectSoon(int port)
    {
        Socket? peer = null;
        Log.Until(() => (peer = TryConnect()) is not null, "the port");
        return peer!;

        Socket? TryConnect()
        {
            try
            {
                return Cost.Connect(port);
            }
            catch (SocketException)
            {
                return null;
            }
        }
    }

    // Connect waits for the end of the previous connection, which waits for a callback, which waits for the caller.
    [Fact]
    public void A_Reconnect_blocked_by_its_own_callback_returns_false_at_the_timeout()
    {
        TimeSpan before = CompatOptions.DrainTimeout;
        object gate = new();
        Log log = new();
        using RecordingServer server = new(log) { AtConnected = static s => s.SendAsync("x") };
        Assert.True(server.Start());
        using Waiting client = new(log, gate, server.Chosen);
        try
        {
            CompatOptions.DrainTimeout = TimeSpan.FromMilliseconds(300);
            lock (gate)
            {
                Assert.True(client.ConnectAsync());
                log.Until("waits");
                Assert.False(client.Reconnect());
                Assert.False(client.IsConnected || client.IsConnecting);
            }
        }
        finally
        {
            CompatOptions.DrainTimeout = before;
        }

        log.Until("client: disconnected False");
        Assert.True(client.Connect());
    }

    private sealed class Waiting(Log log, object gate, int port) : RecordingClient(log, port)
    {
        private readonly Log _log = log;

        protected override void OnReceived(byte[] buffer, long offset, long size)
        {
            _log.Add("waits");
            lock (gate) _log.Add("received");
        }
    }

    [Theory]
    [InlineData(Scheduling.ThreadPool, "connected")]
    [InlineData(Scheduling.ThreadPool, "received")]
    [InlineData(Scheduling.ThreadPool, "empty")]
    [InlineData(Scheduling.ThreadPool, "sent")]
    [InlineData(Scheduling.ThreadPool, "error")]
    [InlineData(Scheduling.ThreadPool, "disconnecting")]
    [InlineData(Scheduling.ThreadPool, "disconnected")]
    [InlineData(Scheduling.Inline, "connected")]
    [InlineData(Scheduling.Inline, "received")]
    [InlineData(Scheduling.Inline, "empty")]
    [InlineData(Scheduling.Inline, "sent")]
    [InlineData(Scheduling.Inline, "error")]
    [InlineData(Scheduling.Inline, "disconnecting")]
    [InlineData(Scheduling.Inline, "disconnected")]
    public void A_session_that_disconnects_in_a_callback_of_its_own_ends_once_and_after_it(Scheduling callbacks,
        string where)
    {
        using Setting setting = new(callbacks);
        Log log = new();
        using TcpServer server = new Enders(log, where);
        Assert.True(server.Start());
        using Socket peer = Cost.Connect(((IPEndPoint)server.Endpoint).Port);
        peer.Send("hello"u8);
        if (where is not ("connected" or "empty")) log.Until("received");
        if (where.StartsWith("disconnect", StringComparison.Ordinal)) peer.Dispose();
        log.Until("disconnected");
        Log.Until(() => server.ConnectedSessions == 0, "no session");
        Assert.True(server.Stop());
        string[] lines = log.Lines;
        Assert.Equal((1, 1), (log.Count("disconnecting"), log.Count("disconnected")));
        Assert.Equal("disconnected", lines[^1] == where + " returns" ? lines[^2] : lines[^1]);
        if (where != "disconnected")
            Assert.True(Array.IndexOf(lines, where + " returns") < Array.IndexOf(lines, "disconnected"),
                string.Join(", ", lines));
    }

    private sealed class Enders(Log log, string where) : TcpServer(IPAddress.Loopback, 0)
    {
        protected override TcpSession CreateSession() => new Ender(this, log, where);
    }

    private sealed class Ender(TcpServer server, Log log, string where) : TcpSession(server)
    {
        private bool _isIn;

        private void In(string what)
        {
            log.Add(what);
            if (what != where || _isIn) return;
            _isIn = true;
            Disconnect();
            log.Add(what + " returns");
        }

        protected override void OnConnected() => In("connected");

        protected override void OnEmpty() => In("empty");

        protected override void OnSent(long sent, long pending) => In("sent");

        protected override void OnReceived(byte[] buffer, long offset, long size)
        {
            In("received");
            SendAsync(buffer, offset, size);
            if (where == "error") throw new InvalidOperationException("of the user");
        }

        protected override void OnError(SocketError error) => In("error");

        protected override void OnDisconnecting() => In("disconnecting");

        protected override void OnDisconnected() => In("disconnected");
    }

    // Peers that flood, and threads that disconnect concurrently: callbacks of a session never overlap, and each end is
    // reported once.
    [Theory]
    [MemberData(nameof(Cases))]
    public async Task Threads_that_end_one_session_at_once_cause_one_report_and_no_two_callbacks_overlap(
        EngineKind kind, Scheduling callbacks)
    {
        await using OnEngine engine = await OnEngine.StartAsync(kind, callbacks);
        const int Rounds = 100, Threads = 3;
        using Alone server = new();
        Assert.True(server.Start());
        int port = ((IPEndPoint)server.Endpoint).Port;
        using Barrier start = new(Threads + 1);
        for (int round = 1; round <= Rounds; round++)
        {
            using Socket peer = Cost.Connect(port);
            peer.Send(new byte[5000]);
            Log.Until(() => server.Last is { Received: > 0 }, "the first bytes");
            Alone.One session = server.Last!;
            Thread[] threads = [.. Enumerable.Range(0, Threads).Select(i => new Thread(() =>
            {
                start.SignalAndWait();
                if (i == 0) session.Server.DisconnectAll();
                else session.Disconnect();
                session.IsStillConnected |= session.IsConnected;
            }))];
            foreach (Thread thread in threads) thread.Start();
            start.SignalAndWait();
            try
            {
                if (round % 2 == 0) peer.Send(new byte[20_000]);
                else peer.Close(0);
            }
            catch (SocketException)
            {
                // The session has ended.
            }

            foreach (Thread thread in threads) Assert.True(thread.Join(Log.Patience));
            int all = round;
            Log.Until(() => server.Ended == all && server.ConnectedSessions == 0, "the end");
            Assert.Equal((1, 1, false, false),
                (session.Disconnecting, session.Disconnected, session.HasOverlapped, session.IsStillConnected));
            server.Last = null;
        }
    }

    private sealed class Alone() : TcpServer(IPAddress.Loopback, 0)
    {
        private int _ended;

        internal volatile One? Last;

        internal int Ended => Volatile.Read(ref _ended);

        protected override TcpSession CreateSession() => new One(this);

        protected override void OnDisconnected(TcpSession session) => Interlocked.Increment(ref _ended);

        internal sealed class One(Alone server) : TcpSession(server)
        {
            private int _inside;

            internal volatile int Received, Disconnecting, Disconnected;
            internal volatile bool HasOverlapped, IsStillConnected;

            private void In()
            {
                if (Interlocked.Increment(ref _inside) != 1) HasOverlapped = true;
                Thread.SpinWait(200);
                Interlocked.Decrement(ref _inside);
            }

            protected override void OnReceived(byte[] buffer, long offset, long size)
            {
                server.Last = this;
                In();
                Received += (int)size;
                if (Disconnecting > 0) HasOverlapped = true;
            }

            protected override void OnDisconnecting()
            {
                In();
                Disconnecting++;
            }

            protected override void OnDisconnected()
            {
                In();
                Disconnected++;
            }
        }
    }

    // The original needs about a second, because each session closes a socket.
    [Fact]
    public void Eight_thousand_DisconnectAsync_take_less_than_half_a_millisecond_each()
    {
        const int Rounds = 8, Clients = 1000;
        using TcpServer server = new(IPAddress.Loopback, 0);
        Assert.True(server.Start());
        int port = ((IPEndPoint)server.Endpoint).Port, told = 0, foreign = 0, self = Environment.CurrentManagedThreadId;
        TimeSpan took = TimeSpan.Zero;
        Counting[] clients = [.. Enumerable.Range(0, Clients).Select(_ => new Counting(port, () =>
        {
            Interlocked.Increment(ref told);
            if (Environment.CurrentManagedThreadId != self) Interlocked.Increment(ref foreign);
        }))];
        for (int round = 1; round <= Rounds; round++)
        {
            foreach (Counting client in clients) Assert.True(client.ConnectAsync());
            Log.Until(() => clients.All(static c => c.IsConnected) && server.ConnectedSessions == Clients,
                "all clients");
            long began = Stopwatch.GetTimestamp();
            foreach (Counting client in clients) Assert.True(client.DisconnectAsync());
            took += Stopwatch.GetElapsedTime(began);
            int all = round * Clients;
            Log.Until(() => server.ConnectedSessions == 0 && Volatile.Read(ref told) == all, "all ends");
        }

        TestContext.Current.TestOutputHelper?.WriteLine(
            $"8,000 DisconnectAsync: {took.TotalMilliseconds:F0} ms, {foreign} reported on other threads");
        Assert.True(took < TimeSpan.FromSeconds(4), $"{took.TotalMilliseconds} ms");
        // their OnConnected had not returned
        Assert.True(foreign < Clients / 2, $"{foreign} reported on other threads");
        foreach (Counting client in clients) client.Dispose();
    }

    private sealed class Counting(int port, Action told) : TcpClient(IPAddress.Loopback, port)
    {
        protected override void OnDisconnected() => told();
    }

    [Theory]
    [MemberData(nameof(Cases))]
    public async Task Disconnect_returns_when_the_kernel_has_accepted_queued_data(EngineKind kind, Scheduling callbacks)
    {
        await using OnEngine engine = await OnEngine.StartAsync(kind, callbacks);
        const int Size = 4 * 1024 * 1024;
        foreach (bool all in (bool[])[false, true])
        {
            Log log = new();
            using RecordingServer server = new(log);
            RecordingSession? session = null;
            server.Make = s => session = new RecordingSession(s);
            Assert.True(server.Start());
            using Socket peer = Cost.Connect(server.Chosen);
            log.Until("server: connected");
            Task reading = Task.Run(() => Cost.Read(peer, new byte[Size]), TestContext.Current.CancellationToken);
            Assert.True(session!.SendAsync(new byte[Size]));
            Assert.True(all ? server.DisconnectAll() : session.Disconnect());
            await reading.WaitAsync(Log.Patience, TestContext.Current.CancellationToken);
            Log.Until(() => session.BytesSent == Size, "all bytes to be counted");
            Assert.Equal(0, peer.Receive(new byte[1]));
        }
    }

    [Fact]
    public void Disconnect_does_not_wait_for_a_peer_that_does_not_read()
    {
        Log log = new();
        using RecordingServer server = new(log);
        List<RecordingSession> sessions = [];
        server.Make = s =>
        {
            sessions.Add(new RecordingSession(s));
            return sessions[^1];
        };
        Assert.True(server.Start());
        Socket[] peers = [Cost.Connect(server.Chosen), Cost.Connect(server.Chosen), Cost.Connect(server.Chosen)];
        log.Until("server: connected", peers.Length);
        foreach (RecordingSession session in sessions) Assert.True(session.SendAsync(new byte[32 * 1024 * 1024]));
        Log.Until(() => sessions.TrueForAll(static s => s.BytesSent > 0), "what the system takes");
        TimeSpan one = Time(() => sessions[0].Disconnect()), all = Time(() => server.DisconnectAll());
        Assert.True(one < s_most && all < s_most, $"{one.TotalMilliseconds} ms, {all.TotalMilliseconds} ms");
        log.Until("server: disconnected", peers.Length);
        foreach (Socket peer in peers) peer.Close(0);
    }

    [Fact]
    public void An_exception_of_OnDisconnected_is_thrown_by_Disconnect_and_all_other_sessions_end()
    {
        const int Sessions = 3;
        Log log = new();
        using RecordingServer server = new(log)
        {
            Make = static s =>
                new RecordingSession(s) { AtDisconnected = static _ => throw new FormatException("of the user") }
        };
        foreach (bool stops in (bool[])[false, true])
        {
            Assert.True(server.Start());
            Socket[] peers = [.. Enumerable.Range(0, Sessions).Select(_ => Cost.Connect(server.Chosen))];
            Log.Until(() => server.ConnectedSessions == Sessions, "all sessions");
            foreach (Socket peer in peers)
            {
                peer.Send(new byte[1]);
                Cost.Read(peer, new byte[1]); // OnConnected has returned
            }

            Assert.Equal("of the user",
                Assert.Throws<FormatException>(() => stops ? server.Stop() : server.DisconnectAll()).Message);
            log.Until("server: disconnected", stops ? 2 * Sessions : Sessions);
            Assert.Equal((0, !stops), (server.ConnectedSessions, server.IsStarted));
            foreach (Socket peer in peers) Assert.Equal(0, peer.Receive(new byte[1]));
            if (!stops) Assert.True(server.Stop());
            foreach (Socket peer in peers) peer.Dispose();
        }
    }
}
