using System.Net;
using System.Net.Sockets;
using Whimbrel.Connections;
using Whimbrel.Engines;
using Whimbrel.Engines.Uring;
using Whimbrel.Linux;

namespace Whimbrel.Conformance;

/// <summary>One receive request yields many completions, both for callbacks and for reads into the caller's
/// memory.</summary>
public sealed class UringMultishotTests
{
    private const int Messages = 500;
    private const int MessageBytes = 32;

    /// <summary>Permitted number of other operations: none is expected, and a re-arm per message would be
    /// 500.</summary>
    private const int SpareOperations = 3;

    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(30);

    /// <summary>Counts the operations accepted by the kernel.</summary>
    // Safe: arguments go through to the system call.
    private sealed unsafe class Counting : RingCalls
    {
        private long _taken;

        internal long Taken => Interlocked.Read(ref _taken);

        internal override int Enter(int fd, uint submit, uint complete, uint flags, WaitArgument* argument)
        {
            int result = base.Enter(fd, submit, complete, flags, argument);
            if (result > 0) Interlocked.Add(ref _taken, result);
            return result;
        }
    }

    private sealed class CountedEngine : Engine
    {
        internal CountedEngine(RingCalls calls, bool isOldKernel = false)
            : base("uring", "by the test", new EngineOptions { Loops = 1, BlockedLoopMs = 60_000 })
        {
            Loops = [new UringLoop(this, 0, () => KernelRing.TryOpen(calls,
                UringProbe.Here.CanLimitReceive && !isOldKernel, out _)!, SocketCalls.System)];
        }
    }

    /// <summary>The received data, and a signal for each arrival.</summary>
    private sealed class Arrived
    {
        private readonly SemaphoreSlim _signal = new(0);
        private readonly List<byte> _bytes = [];

        internal byte[] Bytes
        {
            get { lock (_bytes) return [.. _bytes]; }
        }

        internal int Calls { get; private set; }

        internal int Largest { get; private set; }

        internal void Add(ReadOnlySpan<byte> data)
        {
            lock (_bytes)
            {
                _bytes.AddRange(data);
                Calls++;
                Largest = Math.Max(Largest, data.Length);
            }

            _signal.Release();
        }

        internal void WaitFor(int count)
        {
            while (Bytes.Length < count)
                Assert.True(_signal.Wait(s_patience, TestContext.Current.CancellationToken), "The bytes did not come.");
        }
    }

    private sealed class TakingSession(Arrived arrived) : Session
    {
        protected override int OnData(ReadOnlySpan<byte> unread)
        {
            arrived.Add(unread);
            return unread.Length;
        }
    }

    private static Func<SessionContext, Session> Reading(Arrived arrived) =>
        ConnectionStream.Serve(async (stream, stop) =>
        {
            byte[] mine = new byte[4096];
            for (int count; (count = await stream.ReadAsync(mine, stop)) > 0;) arrived.Add(mine.AsSpan(0, count));
        });

    private static async ValueTask Stop(Server server) => await server.StopAsync(TimeSpan.Zero);

    private static void Finish(ValueTask task) =>
        Assert.True(task.AsTask().Wait(s_patience, TestContext.Current.CancellationToken), "It did not end.");

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Five_hundred_messages_take_no_receive_of_their_own(bool overStream)
    {
        Assert.SkipUnless(UringProbe.Here.IsOffered, UringProbe.Here.Reason);
        Counting calls = new();
        Arrived arrived = new();
        CountedEngine engine = new(calls);
        ServerOptions options = new() { Engine = engine, EndPoint = new IPEndPoint(IPAddress.Loopback, 0) };
        Server server =
            overStream ? new Server(options, Reading(arrived)) : new Server(options, () => new TakingSession(arrived));
        Finish(server.StartAsync());
        byte[] sent = new byte[(Messages + 1) * MessageBytes];
        new Random(1).NextBytes(sent);
        using (Socket socket = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true })
        {
            socket.Connect(server.EndPoint!);
            // The first message also submits the accept and the receive.
            socket.Send(sent, 0, MessageBytes, SocketFlags.None);
            arrived.WaitFor(MessageBytes);
            long before = calls.Taken;
            int callsBefore = arrived.Calls;
            for (int i = 1; i <= Messages; i++)
            {
                socket.Send(sent, i * MessageBytes, MessageBytes, SocketFlags.None);
                arrived.WaitFor((i + 1) * MessageBytes);
            }

            Assert.Equal(Messages, arrived.Calls - callsBefore);
            Assert.InRange(calls.Taken - before, 0, SpareOperations);
        }

        Assert.Equal(sent, arrived.Bytes);
        Finish(Stop(server));
        Finish(engine.DisposeAsync());
    }

    /// <summary> Receives that found no buffer start again in the submit, and consume available data. If they could
    /// take all buffers, receives that complete in the same enter would find none, and every message of many busy
    /// connections would permanently cost a receive of its own. </summary>
    [Fact]
    public void Many_connections_that_all_have_something_do_not_keep_each_other_parked()
    {
        const int connections = 300;
        const int rounds = 40;
        Assert.SkipUnless(UringProbe.Here.IsOffered, UringProbe.Here.Reason);
        Counting calls = new();
        Arrived arrived = new();
        CountedEngine engine = new(calls);
        Server server = new(new ServerOptions { Engine = engine, EndPoint = new IPEndPoint(IPAddress.Loopback, 0) },
            () => new TakingSession(arrived));
        Finish(server.StartAsync());
        byte[] message = new byte[MessageBytes];
        List<Socket> sockets = [];
        try
        {
            // All at once, so that the first receives start with data available: more of them than there are buffers.
            OnHeldLoop(() =>
            {
                for (int i = 0; i < connections; i++)
                {
                    Socket socket =
                        new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
                    sockets.Add(socket);
                    socket.Connect(server.EndPoint!);
                    socket.Send(message);
                }
            });
            arrived.WaitFor(connections * MessageBytes);
            long before = calls.Taken;
            for (int round = 2; round <= rounds; round++)
            {
                OnHeldLoop(() => sockets.ForEach(socket => socket.Send(message)));
                arrived.WaitFor(round * connections * MessageBytes);
            }

            Assert.InRange(calls.Taken - before, 0, connections * rounds / 10);
        }
        finally
        {
            sockets.ForEach(static socket => socket.Dispose());
        }

        Finish(Stop(server));
        Finish(engine.DisposeAsync());

        void OnHeldLoop(Action act)
        {
            using ManualResetEventSlim isHeld = new();
            using ManualResetEventSlim goesOn = new();
            engine.Loops[0].Post(() =>
            {
                isHeld.Set();
                goesOn.Wait(s_patience);
            });
            Assert.True(isHeld.Wait(s_patience, TestContext.Current.CancellationToken), "The loop did not come.");
            act();
            goesOn.Set();
        }
    }

    /// <summary> Large amounts are received by calls, more at once than a buffer of the ring holds; after a while with
    /// little data, the ring's multishot receive takes over again. No byte is lost or reordered by the changes.
    /// </summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Large_amounts_are_received_by_calls_and_small_ones_by_the_ring(bool isOldKernel)
    {
        const int muchBytes = 4 * 1024 * 1024;
        const int little = 40;
        Assert.SkipUnless(UringProbe.Here.IsOffered, UringProbe.Here.Reason);
        Counting calls = new();
        Arrived arrived = new();
        CountedEngine engine = new(calls, isOldKernel);
        Server server = new(new ServerOptions { Engine = engine, EndPoint = new IPEndPoint(IPAddress.Loopback, 0) },
            () => new TakingSession(arrived));
        Finish(server.StartAsync());
        byte[] sent = new byte[2 * (muchBytes + (little * MessageBytes))];
        new Random(2).NextBytes(sent);
        int at = 0;
        using (Socket socket = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true })
        {
            socket.Connect(server.EndPoint!);
            for (int round = 0; round < 2; round++)
            {
                SendAndWait(socket, muchBytes);
                Assert.InRange(arrived.Largest, KernelRing.UsualBufferBytes + 1, LargeBlock.Bytes);
                for (int i = 0; i < little / 2; i++) SendAndWait(socket, MessageBytes);
                long before = calls.Taken;
                for (int i = 0; i < little / 2; i++) SendAndWait(socket, MessageBytes);
                Assert.InRange(calls.Taken - before, 0, SpareOperations);
            }
        }

        Assert.Equal(sent, arrived.Bytes);
        Finish(Stop(server));
        Finish(engine.DisposeAsync());

        void SendAndWait(Socket socket, int count)
        {
            for (int end = at + count; at < end;) at += socket.Send(sent, at, end - at, SocketFlags.None);
            arrived.WaitFor(at);
        }
    }
}
