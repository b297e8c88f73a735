using System.Net;
using System.Net.Sockets;
using NetCoreServer;
using TcpServer = NetCoreServer.TcpServer;

namespace Whimbrel.Compat.Tests.Connections;

// OptionSendBufferLimit is 0 by default, which means "no limit" in the original: whatever SendAsync accepts arrives at
// a peer that reads.
public sealed class UnlimitedSendTests
{
    private const int Piece = 64 * 1024;

    public static TheoryData<EngineKind, Scheduling> Cases => OnEngine.Cases;

    [Theory]
    [MemberData(nameof(Cases))]
    public async Task SendAsync_of_eight_threads_in_a_loop_all_arrives(EngineKind kind, Scheduling callbacks)
    {
        const int Threads = 8, Sends = 5000, Size = 100;
        await using OnEngine engine = await OnEngine.StartAsync(kind, callbacks);
        Log log = new();
        RecordingSession? session = null;
        using RecordingServer server = new(log);
        server.Make = s => session = new RecordingSession(s);
        Assert.True(server.Start());
        using Socket peer = Cost.Connect(server.Chosen);
        log.Until("server: connected");
        int taken = 0;
        Thread[] threads = [.. Enumerable.Range(0, Threads).Select(_ => new Thread(() =>
        {
            byte[] message = new byte[Size];
            for (int i = 0; i < Sends; i++)
            {
                if (session!.SendAsync(message)) Interlocked.Increment(ref taken);
            }
        }))];
        foreach (Thread thread in threads) thread.Start();
        Cost.Read(peer, new byte[Threads * Sends * Size]);
        foreach (Thread thread in threads) Assert.True(thread.Join(Log.Patience));
        Assert.Equal(Threads * Sends, taken);
        Assert.True(session!.IsConnected);
    }

    [Theory]
    [MemberData(nameof(Cases))]
    public async Task SendAsync_of_20_MB_in_pieces_of_64_KiB_all_arrives(EngineKind kind, Scheduling callbacks)
    {
        const int Pieces = 320;
        await using OnEngine engine = await OnEngine.StartAsync(kind, callbacks);
        Log log = new();
        using RecordingServer server = new(log);
        bool isAll = true;
        server.Make = s => new RecordingSession(s)
        {
            AtReceived = (me, _) =>
            {
                byte[] piece = new byte[Piece];
                for (int i = 0; i < Pieces; i++) isAll &= me.SendAsync(piece);
                log.Add("sent");
            },
        };
        Assert.True(server.Start());
        using Socket peer = Cost.Connect(server.Chosen);
        peer.Send(new byte[1]);
        Cost.Read(peer, new byte[Pieces * Piece]);
        log.Until("sent");
        Assert.True(isAll);
        Assert.Equal(0, log.Count("session: disconnected False"));
    }

    [Theory]
    [MemberData(nameof(Cases))]
    public async Task A_client_that_writes_30_MB_before_it_reads_gets_its_echo(EngineKind kind, Scheduling callbacks)
    {
        const int Much = 30 * 1024 * 1024;
        await using OnEngine engine = await OnEngine.StartAsync(kind, callbacks);
        Log log = new();
        using RecordingServer server = new(log) { Make = static s => new Echo(s) };
        Assert.True(server.Start());
        using Socket peer = Cost.Connect(server.Chosen);
        peer.SendTimeout = (int)Log.Patience.TotalMilliseconds;
        byte[] bytes = new byte[Much], got = new byte[Much];
        new Random(1).NextBytes(bytes);
        for (int at = 0; at < Much;) at += peer.Send(bytes, at, Math.Min(Piece, Much - at), SocketFlags.None);
        Cost.Read(peer, got);
        Assert.True(got.AsSpan().SequenceEqual(bytes));
    }

    private sealed class Echo(RecordingServer server) : TcpSession(server)
    {
        protected override void OnReceived(byte[] buffer, long offset, long size) =>
            Assert.True(SendAsync(buffer, offset, size));
    }

    [Theory]
    [MemberData(nameof(Cases))]
    public async Task A_peer_that_reads_nothing_is_disconnected_after_StallTimeout_with_a_reason(EngineKind kind,
        Scheduling callbacks)
    {
        const int Budget = 8 * 1024 * 1024;
        using SendRules rules = new(TimeSpan.FromSeconds(1), Budget);
        await using OnEngine engine = await OnEngine.StartAsync(kind, callbacks);
        Log log = new();
        RecordingSession? session = null;
        using RecordingServer server = new(log);
        server.Make = s => session = new RecordingSession(s);
        Assert.True(server.Start());
        using Socket peer = Cost.Connect(server.Chosen);
        log.Until("server: connected");
        long most = 0, sent = 0;
        byte[] piece = new byte[Piece];
        long began = Environment.TickCount64;
        // This is no loop thread: above the budget its call blocks until the peer is disconnected.
        Log.Until(
            () =>
            {
                if (session!.SendAsync(piece)) sent += Piece;
                most = Math.Max(most, session.BytesPending);
                return !session.IsConnected;
            },
            "the end of the peer that takes nothing");
        Assert.InRange(Environment.TickCount64 - began, 900, 20_000);
        Assert.InRange(most, Budget / 2, Budget + 4 * Piece);
        Assert.InRange(sent, Budget / 2, Budget + 16 * 1024 * 1024); // including what the kernel has accepted
        log.Until("session: disconnected False");
        Assert.Equal(1, log.Count("session: error TimedOut"));
        Assert.Equal(0, log.Count("session: error NoBufferSpaceAvailable"));
    }

    // A peer that reads a little now and then is slow, not stalled.
    [Fact]
    public void A_peer_that_reads_a_little_within_each_StallTimeout_stays()
    {
        using SendRules rules = new(TimeSpan.FromSeconds(1), 64 * 1024 * 1024);
        Log log = new();
        RecordingSession? session = null;
        using RecordingServer server = new(log);
        server.Make = s => session = new RecordingSession(s);
        Assert.True(server.Start());
        using Socket peer = Cost.Connect(server.Chosen);
        log.Until("server: connected");
        Assert.True(session!.SendAsync(new byte[16 * 1024 * 1024]));
        byte[] some = new byte[1024 * 1024];
        long until = Environment.TickCount64 + 3000;
        for (int left = 16; left > 1; left--)
        {
            Cost.Read(peer, some);
            // tidy: waits because the peer is slow
            while (Environment.TickCount64 < until - ((left - 1) * 200)) Thread.Sleep(10);
        }

        Cost.Read(peer, some);
        Assert.True(session.IsConnected);
        Assert.Equal(0, log.Count("session: error TimedOut"));
    }

    [Fact]
    public void On_a_loop_SendAsync_above_the_budget_returns_false_with_an_error_and_the_connection_stays()
    {
        const int Budget = 4 * 1024 * 1024;
        using SendRules rules = new(TimeSpan.FromMinutes(1), Budget);
        using Setting setting = new(Scheduling.Inline);
        Log log = new();
        long taken = 0;
        using RecordingServer server = new(log);
        server.Make = s => new RecordingSession(s)
        {
            AtReceived = (me, _) =>
            {
                byte[] piece = new byte[Piece];
                for (int i = 0; i < 1000; i++)
                {
                    if (me.SendAsync(piece)) taken += Piece;
                }

                log.Add($"pending {me.BytesPending <= Budget + (2 * Piece)}");
            },
        };
        Assert.True(server.Start());
        using Socket peer = Cost.Connect(server.Chosen);
        peer.Send(new byte[1]);
        log.Until("pending True");
        Assert.NotEqual(0, log.Count("session: error NoBufferSpaceAvailable"));
        Cost.Read(peer, new byte[taken]);
        Assert.Equal(0, log.Count("session: disconnected False"));
    }

    // The performance program of the original: each session decides by its pending bytes, and everything accepted must
    // arrive.
    [Theory]
    [MemberData(nameof(Cases))]
    public async Task A_multicast_arrives_when_SendAsync_returned_true_and_reports_no_error(EngineKind kind,
        Scheduling callbacks)
    {
        const int Clients = 20, Messages = 20_000, Size = 32;
        await using OnEngine engine = await OnEngine.StartAsync(kind, callbacks, mailboxLimitBytes: 64 * 1024);
        using MulticastServer server = new();
        Assert.True(server.Start());
        int port = ((IPEndPoint)server.Endpoint).Port;
        Socket[] peers = [.. Enumerable.Range(0, Clients).Select(_ => Cost.Connect(port))];
        Log.Until(() => server.Connected == Clients, "all clients");
        long[] received = new long[Clients];
        Thread[] readers = [.. peers.Select((peer, i) => new Thread(() =>
        {
            byte[] buffer = new byte[8192];
            try
            {
                for (int count; (count = peer.Receive(buffer)) > 0;) Interlocked.Add(ref received[i], count);
            }
            catch (SocketException)
            {
                // cancelled by the test
            }
        }))];
        foreach (Thread reader in readers) reader.Start();
        byte[] message = new byte[Size];
        for (int i = 0; i < Messages; i++) Assert.True(server.Multicast(message));
        long taken = server.Taken;
        Assert.True(taken > 0);
        Log.Until(() => Sum(received) >= taken, $"{taken} bytes; received {Sum(received)}, errors {server.Errors}");
        Assert.Equal((taken, 0), (Sum(received), server.Errors));
        foreach (Socket peer in peers) peer.Dispose();
        foreach (Thread reader in readers) Assert.True(reader.Join(Log.Patience));
    }

    private static long Sum(long[] values)
    {
        long sum = 0;
        for (int i = 0; i < values.Length; i++) sum += Interlocked.Read(ref values[i]);
        return sum;
    }

    private sealed class MulticastServer() : TcpServer(IPAddress.Loopback, 0)
    {
        private int _connected, _errors;
        private long _taken;

        internal int Connected => Volatile.Read(ref _connected);

        internal int Errors => Volatile.Read(ref _errors);

        internal long Taken => Interlocked.Read(ref _taken);

        protected override TcpSession CreateSession() => new Session(this);

        protected override void OnConnected(TcpSession session) => Interlocked.Increment(ref _connected);

        private sealed class Session(MulticastServer server) : TcpSession(server)
        {
            public override bool SendAsync(ReadOnlySpan<byte> buffer)
            {
                const long Limit = 1024 * 1024;
                long pending = BytesPending + BytesSending;
                if (pending + buffer.Length > Limit) return false;
                bool isTaken = base.SendAsync(buffer);
                if (isTaken) Interlocked.Add(ref server._taken, buffer.Length);
                return isTaken;
            }

            protected override void OnError(SocketError error) => Interlocked.Increment(ref server._errors);
        }
    }
}
