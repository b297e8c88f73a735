using System.Net;
using System.Net.Sockets;
using Whimbrel.Connections;
using Whimbrel.Engines;
using Whimbrel.Engines.Epoll;
using Whimbrel.Linux;

namespace Whimbrel.Conformance;

/// <summary>When a session receives more than 64 KiB at a time, and when that ends (docs/design/0002).</summary>
public sealed class LargeReceiveTests
{
    private const int BlockBytes = 64 * 1024;
    private const int SmallInARow = 16;

    /// <summary>Records the buffer size of each receive.</summary>
    // Safe: arguments go through to the system call.
    private sealed unsafe class Asking : SocketCalls
    {
        private int _last;
        private int _most;

        internal int Last => Volatile.Read(ref _last);

        internal int Most => Volatile.Read(ref _most);

        internal override int Receive(int fd, byte* buffer, int length)
        {
            int received = base.Receive(fd, buffer, length);
            Volatile.Write(ref _last, length);
            if (received > 0) Volatile.Write(ref _most, Math.Max(_most, length));
            return received;
        }
    }

    /// <summary>Runs <see cref="Before"/> once, before the receive that follows a large one.</summary>
    // Safe: arguments go through to the system call.
    private sealed unsafe class Interrupting : SocketCalls
    {
        private bool _wasLarge;

        internal Action? Before { get; set; }

        internal override int Receive(int fd, byte* buffer, int length)
        {
            if (_wasLarge)
            {
                Before?.Invoke();
                Before = null;
            }

            int received = base.Receive(fd, buffer, length);
            _wasLarge = received >= StrandBlock.ReceivedFromBytes;
            return received;
        }
    }

    /// <summary>Blocks in its callback, and closes there when the test wants it.</summary>
    private sealed class Closing : Session
    {
        internal ManualResetEventSlim Entered { get; } = new();

        internal ManualResetEventSlim Closes { get; } = new();

        internal ManualResetEventSlim Closed { get; } = new();

        protected override void OnReceived(ReadOnlySpan<byte> data)
        {
            Entered.Set();
            Closes.Wait(EpollOnCalls.Patience);
            Close();
            Closed.Set();
        }
    }

    /// <summary>Checks the data, and records the largest delivery.</summary>
    private sealed class Taking : Session
    {
        private long _taken;
        private int _most;
        private int _wrong;

        internal long Taken => Volatile.Read(ref _taken);

        internal int Most => Volatile.Read(ref _most);

        internal bool IsWrong => Volatile.Read(ref _wrong) != 0;

        protected override void OnReceived(ReadOnlySpan<byte> data)
        {
            if (data.Length > _most) Volatile.Write(ref _most, data.Length);
            long at = _taken;
            foreach (byte one in data)
            {
                if (one != ByteAt(at++)) Volatile.Write(ref _wrong, 1);
            }

            Volatile.Write(ref _taken, at);
        }
    }

    private sealed class Awaiting : Session
    {
        protected override async ValueTask OnReceivedAsync(ReadOnlyMemory<byte> data) => await Task.Yield();
    }

    private static byte ByteAt(long position) => (byte)(position % 251);

    private static Socket ConnectPeer(Server server)
    {
        Socket socket = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
        socket.Connect((IPEndPoint)server.EndPoint!);
        return socket;
    }

    /// <summary>Writes until the condition is true. Returns the number of bytes.</summary>
    private static async Task<long> WriteUntilAsync(Socket socket, Func<bool> isEnough)
    {
        byte[] data = new byte[251 * 4096];
        for (int i = 0; i < data.Length; i++) data[i] = ByteAt(i);
        using CancellationTokenSource patience =
            CancellationTokenSource.CreateLinkedTokenSource(TestContext.Current.CancellationToken);
        patience.CancelAfter(EpollOnCalls.Patience);
        long written = 0;
        for (; !isEnough(); written += data.Length)
        {
            for (int sent = 0; sent < data.Length;) sent += await socket.SendAsync(data.AsMemory(sent), patience.Token);
        }

        return written;
    }

    [Theory]
    [InlineData(EngineKind.Epoll)]
    [InlineData(EngineKind.Uring)]
    [InlineData(EngineKind.Portable)]
    public async Task After_a_full_block_more_is_received_at_a_time_and_nothing_is_lost(EngineKind kind)
    {
        EngineSupport support = Engine.SupportFor(kind);
        Assert.SkipUnless(support.IsAvailable, support.Reason);
        await using Engine engine = new(new EngineOptions { Kind = kind, Loops = 1 });
        Taking session = new();
        await using Server server = new(new ServerOptions { Engine = engine, Address = "tcp://127.0.0.1:0" },
            () => session);
        await server.StartAsync(TestContext.Current.CancellationToken);
        using Socket socket = ConnectPeer(server);
        long written = await WriteUntilAsync(socket, () => session.Most > BlockBytes || session.IsWrong);
        await EpollOnCalls.UntilAsync(() => session.Taken == written);
        Assert.False(session.IsWrong);
        Assert.InRange(session.Most, BlockBytes + 1, LargeBlock.Bytes);
    }

    [Fact]
    public async Task Small_receives_bring_the_small_block_back()
    {
        EpollOnCalls.NeedsEpoll();
        Asking calls = new();
        await using EpollOnCalls engine = new(calls);
        Taking session = new();
        await using Server server = new(new ServerOptions { Engine = engine, Address = "tcp://127.0.0.1:0" },
            () => session);
        await server.StartAsync(TestContext.Current.CancellationToken);
        using Socket socket = ConnectPeer(server);
        long written = await WriteUntilAsync(socket, () => calls.Most == LargeBlock.Bytes);
        for (int i = 0; i <= SmallInARow; i++)
        {
            await EpollOnCalls.UntilAsync(() => session.Taken == written);
            socket.Send([ByteAt(written++)]);
        }

        await EpollOnCalls.UntilAsync(() => session.Taken == written);
        Assert.Equal(BlockBytes, calls.Last);
        Assert.False(session.IsWrong);
    }

    [Fact]
    public async Task Memory_that_was_received_into_is_free_again_though_the_session_ended_meanwhile()
    {
        EpollOnCalls.NeedsEpoll();
        Closing session = new();
        bool wasReached = false;
        Interrupting calls = new()
        {
            Before = () =>
            {
                session.Closes.Set();
                wasReached = session.Closed.Wait(EpollOnCalls.Patience);
            }
        };
        await using EpollOnCalls engine = new(calls);
        await using Server server = new(new ServerOptions
        {
            Engine = engine,
            Address = "tcp://127.0.0.1:0",
            Scheduling = Scheduling.ThreadPool
        }, () => session);
        await server.StartAsync(TestContext.Current.CancellationToken);
        using Socket socket = ConnectPeer(server);
        socket.Send("x"u8);
        Assert.True(session.Entered.Wait(EpollOnCalls.Patience, TestContext.Current.CancellationToken));
        socket.Send(new byte[200_000]);
        await EpollOnCalls.UntilAsync(() => wasReached);
        socket.Shutdown(SocketShutdown.Send);
        await EpollOnCalls.UntilAsync(() => server.SessionCount == 0);
        await EpollOnCalls.UntilAsync(() => engine.GetLoop(0).StrandBlocks.Outstanding == 0);
    }

    [Theory]
    [InlineData("a stream")]
    [InlineData("the pool")]
    [InlineData("a callback that awaits")]
    public async Task Copied_data_arrives_64_KiB_at_a_time(string reader)
    {
        EpollOnCalls.NeedsEpoll();
        const long enough = 16 * 1024 * 1024;
        Asking calls = new();
        await using EpollOnCalls engine = new(calls);
        ServerOptions options = new()
        {
            Engine = engine,
            Address = "tcp://127.0.0.1:0",
            Scheduling = reader == "the pool" ? Scheduling.ThreadPool : default
        };
        Func<SessionContext, Session> factory = reader switch
        {
            "a stream" => ConnectionStream.Serve(ReadOnAsync),
            "the pool" => static _ => new Taking(),
            _ => static _ => new Awaiting(),
        };
        await using Server server = new(options, factory);
        await server.StartAsync(TestContext.Current.CancellationToken);
        using Socket socket = ConnectPeer(server);
        long written = 0;
        await WriteUntilAsync(socket, () => (written += 251 * 4096) > enough);
        Assert.Equal(BlockBytes, calls.Most);

        static async Task ReadOnAsync(ConnectionStream stream, CancellationToken stop)
        {
            byte[] memory = new byte[BlockBytes];
            while (await stream.ReadAsync(memory, stop) > 0)
            {
                // More of it.
            }
        }
    }
}
