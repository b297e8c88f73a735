using System.Net;
using System.Net.Sockets;
using Whimbrel.Connections;
using Whimbrel.Engines.Uring;
using Whimbrel.Linux;

namespace Whimbrel.Conformance;

/// <summary>The io_uring engine on a kernel that is interrupted, fails temporarily, accepts less than offered, or
/// breaks.</summary>
// Safe: arguments go through to the system call.
public sealed unsafe class UringFaultTests
{
    private const int Clients = 40;
    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(20);

    private static void NeedsUring() => Assert.SkipUnless(UringProbe.Here.IsOffered, UringProbe.Here.Reason);

    /// <summary>Replaces some enters according to a seeded plan, or the next one by an error.</summary>
    private sealed class Faulty(int seed) : RingCalls
    {
        private readonly Random _random = new(seed);
        private int _next;

        internal bool IsOn { get; set; } = true;

        internal int Faults { get; private set; }

        internal void FailNext(int error) => Volatile.Write(ref _next, error);

        internal override int Enter(int fd, uint submit, uint complete, uint flags, WaitArgument* argument)
        {
            int next = Interlocked.Exchange(ref _next, 0);
            if (next != 0) return -next;
            if (!IsOn) return base.Enter(fd, submit, complete, flags, argument);
            switch (_random.Next(8))
            {
                case 0:
                    Faults++;
                    return -Errno.EINTR;
                case 1:
                    Faults++;
                    return -Errno.EAGAIN;
                case 2:
                    Faults++;
                    return -Errno.EBUSY;
                case 3 when submit > 1:
                    Faults++;
                    return base.Enter(fd, submit / 2, 0, flags & ~UringAbi.IORING_ENTER_EXT_ARG, null);
                default:
                    return base.Enter(fd, submit, complete, flags, argument);
            }
        }
    }

    private sealed class RingEngine : Engine
    {
        internal RingEngine(RingCalls calls, EngineOptions options, uint entries = 1024, bool isOldKernel = false)
            : base("uring", "by the test", options)
        {
            Loops = [new UringLoop(this, 0, () => KernelRing.TryOpen(calls,
                UringProbe.Here.CanLimitReceive && !isOldKernel, out _, entries)!, SocketCalls.System)];
        }
    }

    private sealed class EchoSession : Session
    {
        protected override void OnReceived(ReadOnlySpan<byte> data) => Send(data);
    }

    private static Socket ConnectPeer(Server server)
    {
        Socket socket = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp)
        {
            ReceiveTimeout = (int)s_patience.TotalMilliseconds,
            NoDelay = true
        };
        socket.Connect(server.EndPoint!);
        return socket;
    }

    private static void Echo(Socket socket, byte[] data)
    {
        byte[] back = new byte[data.Length];
        Task<int> write = Task.Run(() => socket.Send(data), TestContext.Current.CancellationToken);
        for (int got = 0; got < back.Length;)
        {
            int count = socket.Receive(back, got, back.Length - got, SocketFlags.None);
            Assert.NotEqual(0, count);
            got += count;
        }

        Assert.True(write.Wait(s_patience, TestContext.Current.CancellationToken));
        Assert.Equal(data, back);
    }

    private static byte[] Pattern(int length, int seed)
    {
        byte[] bytes = new byte[length];
        new Random(seed).NextBytes(bytes);
        return bytes;
    }

    private static void OnServer(RingCalls calls, Action<Server, List<DiagnosticEvent>> test, uint entries = 1024,
        Func<Session>? factory = null, bool isOldKernel = false)
    {
        List<DiagnosticEvent> notices = [];
        RingEngine engine = new(calls, new EngineOptions
        {
            Loops = 1,
            BlockedLoopMs = 60_000,
            OnDiagnosticEvent = n => { lock (notices) notices.Add(n); }
        }, entries, isOldKernel);
        Server server = new(new ServerOptions { Engine = engine, EndPoint = new IPEndPoint(IPAddress.Loopback, 0) },
            factory ?? (static () => new EchoSession()));
        Assert.True(server.StartAsync().AsTask().Wait(s_patience, TestContext.Current.CancellationToken));
        test(server, notices);
        Assert.True(server.StopAsync(TimeSpan.Zero).AsTask().Wait(s_patience, TestContext.Current.CancellationToken));
        Assert.True(engine.DisposeAsync().AsTask().Wait(s_patience, TestContext.Current.CancellationToken));
        Assert.Equal(0, engine.Loops[0].ResidentCount);
        Assert.Equal(0, engine.Loops[0].Blocks.Outstanding);
    }

    [Theory]
    [InlineData(1, 1024)]
    [InlineData(2, 1024)]
    [InlineData(3, 64)]
    [InlineData(4, 8)]
    public void Interrupted_refused_and_short_enters_lose_no_byte(int seed, int entries)
    {
        NeedsUring();
        Faulty calls = new(seed);
        OnServer(
            calls,
            (server, _) =>
            {
                Parallel.For(0, 8, i =>
                {
                    for (int round = 0; round < 5; round++)
                    {
                        using Socket socket = ConnectPeer(server);
                        Echo(socket, Pattern(1, i));
                        Echo(socket, Pattern(20_000, (i * 10) + round));
                        Echo(socket, Pattern(300_000, (i * 10) + round + 1));
                    }
                });
                calls.IsOn = false;
            },
            (uint)entries);
        Assert.True(calls.Faults > 0, $"seed {seed}: no fault was injected");
    }

    [Fact]
    public void A_ring_that_breaks_ends_its_connections_and_the_loop_continues_with_another()
    {
        NeedsUring();
        Faulty calls = new(0) { IsOn = false };
        OnServer(calls, (server, notices) =>
        {
            for (int round = 0; round < 3; round++)
            {
                Socket[] open = [ConnectPeer(server), ConnectPeer(server)];
                foreach (Socket socket in open) Echo(socket, Pattern(40_000, 1));
                const int EBADR = 53;
                calls.FailNext(EBADR);
                using Socket knock = ConnectPeer(server); // otherwise it may keep sleeping
                foreach (Socket socket in open)
                {
                    try
                    {
                        Assert.Equal(0, socket.Receive(new byte[1]));
                    }
                    catch (SocketException e)
                    {
                        Assert.Equal(SocketError.ConnectionReset, e.SocketErrorCode);
                    }

                    socket.Dispose();
                }
            }

            using Socket after = ConnectPeer(server);
            Echo(after, Pattern(300_000, 2));
            lock (notices)
                Assert.All(notices,
                    static n => Assert.Equal((DiagnosticEventKind.System, "no-io-uring.md"), (n.Kind, n.Page)));
            lock (notices) Assert.Equal(3, notices.Count);
        });
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Without_a_free_buffer_receives_wait_and_nothing_is_closed(bool isOldKernel)
    {
        NeedsUring();
        OnServer(RingCalls.System, isOldKernel: isOldKernel, test: (server, _) =>
        {
            Loop loop = server.Engine.GetLoop(0);
            Socket[] sockets = [.. Enumerable.Range(0, Clients).Select(_ => ConnectPeer(server))];
            // The second receive is multishot.
            foreach (Socket socket in sockets) Echo(socket, [1]);
            using ManualResetEventSlim written = new();
            using ManualResetEventSlim blocked = new();
            loop.Post(() =>
            {
                blocked.Set();
                written.Wait(s_patience);
            });
            Assert.True(blocked.Wait(s_patience, TestContext.Current.CancellationToken));
            byte[] data = Pattern(100_000, 3);
            foreach (Socket socket in sockets) Assert.Equal(data.Length, socket.Send(data));
            written.Set();
            byte[] back = new byte[data.Length];
            foreach (Socket socket in sockets)
            {
                for (int got = 0; got < back.Length;)
                {
                    int count = socket.Receive(back, got, back.Length - got, SocketFlags.None);
                    Assert.NotEqual(0, count);
                    got += count;
                }

                Assert.Equal(data, back);
                socket.Dispose();
            }

            Assert.True(loop.Counters.ReceivesParked > 0, "no receive found the buffers empty");
        });
    }

    [Fact]
    public void More_gathered_sends_in_a_turn_than_the_queue_takes_reach_the_right_peers()
    {
        NeedsUring();
        List<Session> sessions = [];
        OnServer(
            RingCalls.System,
            (server, _) =>
            {
                // First few blocks, later many: their descriptors differ in size.
                byte[][] data = [.. Enumerable.Range(0, 30).Select(static i => Pattern(i < 9 ? 40_000 : 600_000, i))];
                List<Socket> sockets = [];
                for (int i = 0; i < data.Length; i++)
                {
                    sockets.Add(ConnectPeer(server));
                    Assert.True(SpinWait.SpinUntil(() => server.SessionCount == sockets.Count, s_patience));
                }

                server.Engine.GetLoop(0).Post(() =>
                {
                    for (int i = 0; i < data.Length; i++) sessions[i].Send(data[i]);
                });
                for (int i = 0; i < data.Length; i++)
                {
                    byte[] got = new byte[data[i].Length];
                    for (int at = 0; at < got.Length;)
                    {
                        int count = sockets[i].Receive(got, at, got.Length - at, SocketFlags.None);
                        Assert.NotEqual(0, count);
                        at += count;
                    }

                    Assert.True(data[i].AsSpan().SequenceEqual(got), $"peer {i} got other bytes");
                    sockets[i].Dispose();
                }
            },
            entries: 8,
            () =>
            {
                EchoSession session = new();
                sessions.Add(session);
                return session;
            });
    }

    [Fact]
    public void Peers_that_never_read_do_not_hold_up_the_one_that_does()
    {
        NeedsUring();
        OnServer(RingCalls.System, (server, _) =>
        {
            byte[] piece = Pattern(64 * 1024, 4);
            Socket[] silent = [.. Enumerable.Range(0, 64).Select(_ => ConnectPeer(server))];
            foreach (Socket socket in silent)
            {
                socket.Blocking = false;
                for (int i = 0; i < 400; i++)
                {
                    socket.Send(piece, 0, piece.Length, SocketFlags.None, out SocketError error);
                    if (error == SocketError.WouldBlock) break;
                }
            }

            using Socket reading = ConnectPeer(server);
            for (int i = 0; i < 200; i++) Echo(reading, piece);
            foreach (Socket socket in silent) socket.Dispose();
        });
    }
}
