using System.Net;
using System.Net.Sockets;
using NetCoreServer;
using TcpClient = NetCoreServer.TcpClient;
using TcpServer = NetCoreServer.TcpServer;

namespace Whimbrel.Compat.Tests.Connections;

// Defects of NetCoreServer over TCP that do not exist here; numbers as in docs/defects.md. Those that other classes
// show are named there.
public sealed class DefectTests
{
    // N1, N16: by default nothing was limited, and a multicast ignored a configured limit.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void N1_N16_a_peer_that_never_reads_is_disconnected_after_the_stall_timeout_and_memory_is_bounded(
        bool byMulticast)
    {
        using SendRules rules = new(TimeSpan.FromMilliseconds(500), 4 * 1024 * 1024);
        Log log = new();
        RecordingSession? session = null;
        using RecordingServer server = new(log);
        server.Make = s => session = new RecordingSession(s);
        server.Start();
        using Socket peer =
            new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { ReceiveBufferSize = 4096 };
        peer.Connect(IPAddress.Loopback, server.Chosen);
        log.Until("server: connected");
        byte[] piece = new byte[64 * 1024];
        long most = 0;
        Log.Until(
            () =>
            {
                if (byMulticast) server.Multicast(piece);
                else session!.SendAsync(piece);
                most = Math.Max(most, session!.BytesPending);
                return log.Count("server: disconnected") == 1;
            },
            "the end of the peer that never reads");
        Assert.InRange(most, 1, 6 * 1024 * 1024); // the budget, and what is sent between two checks of it
        Assert.Equal(1, log.Count("session: error TimedOut"));
    }

    // The opposite case: a member that lags by less than the budget and continues to read loses nothing. With a limit
    // set by the user, a member that exceeds it misses the excess messages, gets an error, and stays connected.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void N16_a_member_that_lags_for_a_moment_stays_and_the_others_do_not_wait(bool isLimited)
    {
        const int Piece = 16 * 1024;
        Log log = new();
        using RecordingServer server = new(log);
        List<RecordingSession> sessions = [];
        server.Make = s =>
        {
            RecordingSession made =
                new(s) { OptionSendBufferLimit = isLimited ? 8 * Piece : 0, OptionSendBufferSize = 4096 };
            lock (sessions) sessions.Add(made);
            return made;
        };
        server.Start();
        using Socket slow = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp)
        {
            ReceiveBufferSize = 4096,
            ReceiveTimeout = 30_000
        };
        slow.Connect(IPAddress.Loopback, server.Chosen);
        log.Until("session: connected True");
        using Socket quick =
            new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { ReceiveTimeout = 30_000 };
        quick.Connect(IPAddress.Loopback, server.Chosen);
        log.Until("session: connected True", 2);
        RecordingSession behind = sessions[0];

        // Each piece is filled with its number. Without a limit, sends until half of the default budget is pending;
        // with one, until it has rejected three pieces.
        byte[] piece = new byte[Piece], got = new byte[Piece];
        int sent = 0;
        while (isLimited ? log.Count("session: error NoBufferSpaceAvailable") < 3 : behind.BytesPending < 512 * 1024)
        {
            piece.AsSpan().Fill(checked((byte)++sent));
            server.Multicast(piece);
            ReadExactly(quick, got);
            Assert.Equal(piece, got);
        }

        // The peer reads again: its pieces are complete and in order, and the last one sent is among them.
        piece.AsSpan().Fill((byte)++sent);
        int last = 0, received = 0;
        Log.Until(() => behind.BytesPending == 0 || Drain(slow, got, ref last, ref received),
            "the queue of the lagging member");
        server.Multicast(piece);
        while (last != sent) Drain(slow, got, ref last, ref received);
        ReadExactly(quick, got);
        Assert.Equal(isLimited ? sent - log.Count("session: error NoBufferSpaceAvailable") : sent, received);
        Assert.Equal(0, log.Count("session: disconnecting True"));
    }

    // Reads one piece. Always returns false, because it is called as a condition.
    private static bool Drain(Socket peer, byte[] into, ref int last, ref int received)
    {
        ReadExactly(peer, into);
        Assert.True(into[0] > last && into.AsSpan().IndexOfAnyExcept(into[0]) < 0, $"piece {into[0]} after {last}");
        last = into[0];
        received++;
        return false;
    }

    private static void ReadExactly(Socket peer, byte[] into)
    {
        for (int at = 0, count; at < into.Length; at += count)
        {
            count = peer.Receive(into, at, into.Length - at, SocketFlags.None);
            Assert.True(count > 0, $"ended after {at} bytes");
        }
    }

    // N6: flags were checked and then set without synchronization. Callbacks came twice, or for sessions that never
    // connected.
    [Fact]
    public void N6_a_session_disconnected_by_many_threads_is_reported_once()
    {
        const int Rounds = 30;
        Log log = new(), clientLog = new();
        RecordingSession? session = null;
        using RecordingServer server = new(log);
        server.Make = s => session = new RecordingSession(s);
        server.Start();
        using RecordingClient client = new(clientLog, server.Chosen);
        for (int round = 1; round <= Rounds; round++)
        {
            Assert.True(client.ConnectAsync());
            clientLog.Until("client: connected True", round);
            log.Until("server: connected", round);
            client.SendAsync("x");
            Parallel.Invoke(() => session!.Disconnect(), () => client.Disconnect(), () => server.DisconnectAll(),
                () => session!.SendAsync("y"), () => session!.Disconnect());
            clientLog.Until("client: disconnected False", round);
            log.Until("server: disconnected", round);
        }

        server.Stop();
        foreach (string line in (string[])["session: connecting False", "session: connected True", "server: connected",
            "session: disconnected False", "server: disconnected"])
        {
            Assert.Equal((line, Rounds), (line, log.Count(line)));
        }

        // Not connected any more if it had to wait for another callback.
        int sessions = log.Lines.Count(static l => l.StartsWith("session: disconnecting", StringComparison.Ordinal));
        int told = clientLog.Lines.Count(static l => l.StartsWith("client: disconnecting", StringComparison.Ordinal));
        Assert.Equal((Rounds, Rounds), (sessions, told));
        Assert.Equal(Rounds, clientLog.Count("client: disconnected False"));
    }

    [Theory]
    [InlineData(Scheduling.Inline, false)]
    [InlineData(Scheduling.Inline, true)]
    [InlineData(Scheduling.ThreadPool, false)]
    [InlineData(Scheduling.ThreadPool, true)]
    public void N6_a_connection_that_ends_while_OnDisconnecting_runs_is_reported_after_it(Scheduling callbacks,
        bool byPeer)
    {
        using Setting setting = new(callbacks);
        using ManualResetEventSlim goOn = new();
        Log log = new();
        RecordingSession? session = null;
        using RecordingServer server = new(log);
        server.Make = s => session = new RecordingSession(s)
        {
            AtDisconnecting = x =>
            {
                goOn.Wait(Log.Patience);
                log.Add($"session: goes on {x.IsConnected}");
            },
        };
        server.Start();
        using Socket peer =
            new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { ReceiveTimeout = 30_000 };
        peer.Connect(IPAddress.Loopback, server.Chosen);
        log.Until("server: connected");
        Thread first = new(() => log.Add($"first: {session!.Disconnect()}"));
        first.Start();
        log.Until("session: disconnecting True");
        Thread second = new(() =>
        {
            session!.Disconnect();
            log.Add($"second: returned {session.IsConnected}");
        });
        if (byPeer) peer.Close(0);
        else
        {
            second.Start();
            Assert.Equal(0, peer.Receive(new byte[1])); // the peer has closed
        }

        // The loop and the pool had time for the end: they have served another connection.
        server.Make = null;
        using RecordingClient other = new(log, server.Chosen);
        for (int i = 1; i <= 10; i++)
        {
            other.ConnectAsync();
            log.Until("server: connected", i + 1);
            // A client that is disconnected while connecting, and connects again immediately, gets false because it is
            // still connecting.
            log.Until("client: connected True", i);
            other.Disconnect();
            log.Until("server: disconnected", i);
        }

        Assert.DoesNotContain("first: True", log.Lines);
        if (!byPeer) log.Until("second: returned False"); // the second thread does not wait for the first
        goOn.Set();
        log.Until("first: True");
        Assert.True(first.Join(Log.Patience) && (byPeer || second.Join(Log.Patience)));
        string[] lines = log.Lines;
        string goesOn = $"session: goes on {byPeer}"; // logged by the second thread
        int at = Array.IndexOf(lines, goesOn);
        Assert.True(at > 0, string.Join(", ", lines));
        IEnumerable<string> after = lines.Skip(at).Where(l => l.StartsWith("session: ", StringComparison.Ordinal));
        Assert.Equal("session: disconnected False", after.First(l => l != goesOn));
        Assert.Equal(11, log.Count("session: disconnected False"));
        Assert.Equal(11, log.Count("server: disconnected"));
        int last = Array.LastIndexOf(lines, "server: disconnected");
        Assert.True(last < Array.IndexOf(lines, "first: True"), string.Join(", ", lines));
    }

    [Fact]
    public void N6_a_connection_ends_also_when_OnDisconnecting_throws()
    {
        Log log = new();
        RecordingSession? session = null;
        using RecordingServer server = new(log);
        server.Make = s => session = new RecordingSession(s)
        {
            AtDisconnecting = static _ => throw new InvalidOperationException("of the user")
        };
        server.Start();
        using RecordingClient client = new(log, server.Chosen);
        client.ConnectAsync();
        log.Until("server: connected");
        Assert.Equal("of the user", Assert.Throws<InvalidOperationException>(() => session!.Disconnect()).Message);
        log.Until("client: disconnected False");
        log.Until("server: disconnected");
        Assert.Equal(1, log.Count("session: disconnecting True"));
        Assert.Equal(1, log.Count("session: disconnected False"));
    }

    // N7: callbacks were called inside SendAsync, with its lock held.
    [Theory]
    [InlineData(Scheduling.Inline)]
    [InlineData(Scheduling.ThreadPool)]
    public void N7_a_callback_that_takes_a_lock_may_meet_a_send_under_that_lock(Scheduling callbacks)
    {
        const int Sends = 500;
        using Setting setting = new(callbacks);
        Log log = new();
        object gate = new();
        Locking? session = null;
        using RecordingServer server = new(log);
        server.Make = s => session = new Locking(s, gate);
        server.Start();
        using RecordingClient client = new(new Log(), server.Chosen);
        client.ConnectAsync();
        log.Until("server: connected");
        for (int i = 0; i < Sends; i++)
        {
            lock (gate) Assert.True(session!.SendAsync(new byte[100]));
        }

        Log.Until(() => client.Received == Sends * 100, "what was sent");
        Log.Until(() => session!.Told == Sends * 100, "the reported bytes");
        Assert.False(session!.WasInside);
    }

    private sealed class Locking(RecordingServer server, object gate) : RecordingSession(server)
    {
        [ThreadStatic] private static bool t_sends;
        private long _told;

        internal long Told => Interlocked.Read(ref _told);

        internal bool WasInside { get; private set; }

        public override bool SendAsync(ReadOnlySpan<byte> buffer)
        {
            t_sends = true;
            bool isTaken = base.SendAsync(buffer);
            t_sends = false;
            return isTaken;
        }

        protected override void OnSent(long sent, long pending)
        {
            WasInside |= t_sends;
            lock (gate) Interlocked.Add(ref _told, sent);
        }
    }

    // N9: a server did not know its number of pending bytes.
    [Fact]
    public void N9_a_server_knows_its_pending_bytes()
    {
        const int Much = 16 * 1024 * 1024;
        Log log = new();
        RecordingSession? session = null;
        using RecordingServer server = new(log);
        server.Make = s => session = new RecordingSession(s);
        server.Start();
        using Socket peer = Cost.Connect(server.Chosen);
        log.Until("server: connected");
        Assert.True(session!.SendAsync(new byte[Much]));
        Assert.InRange(server.BytesPending, 1, Much);
        Cost.Read(peer, new byte[Much]);
        Log.Until(() => server.BytesPending == 0, "nothing to wait");
        Assert.Equal((Much, Much), (server.BytesSent, session.BytesSent));
    }

    // N14: a server could not be bound to a host name, and a client could not connect to one.
    [Fact]
    public void N14_a_host_name_can_be_listened_on_and_connected_to()
    {
        using TcpServer server = new(new DnsEndPoint("localhost", 0));
        Assert.True(server.Start());
        using TcpClient client = new(new DnsEndPoint("localhost", ((IPEndPoint)server.Endpoint).Port));
        Assert.True(client.Connect());
        Assert.Equal(server.Endpoint, client.Socket.RemoteEndPoint);
    }

    // N17: a connection accepted during a stop stayed open.
    [Fact]
    public void N17_connections_accepted_while_a_server_stops_are_closed()
    {
        const int Count = 40;
        Log log = new();
        using RecordingServer server = new(log);
        server.Start();
        RecordingClient[] clients = [.. Enumerable.Range(0, Count)
            .Select(_ => new RecordingClient(new Log(), server.Chosen))];
        foreach (RecordingClient client in clients) client.ConnectAsync();
        log.Until("server: connected", 5);
        Assert.True(server.Stop());
        Assert.Equal(0, server.ConnectedSessions);
        string[] lines = log.Lines;
        Assert.Equal("stopped False 0", lines[^1]);
        Assert.Equal(log.Count("server: connected"), log.Count("server: disconnected"));
        foreach (RecordingClient client in clients)
            Log.Until(() => !client.IsConnected && !client.IsConnecting, "the last callback of each client");
        Assert.Equal(lines, log.Lines);
        foreach (RecordingClient client in clients) client.Dispose();
    }
}
