using System.Net;
using System.Net.Sockets;
using Whimbrel.Connections;
using Whimbrel.Engines.Epoll;
using Whimbrel.Linux;

namespace Whimbrel.Conformance;

/// <summary>Pipe bytes that are moved without being copied to user space (docs/design/0028): when they are not, and
/// that every fallback loses none.</summary>
public abstract class SpliceTests
{
    private protected abstract Engine NewEngine(SocketCalls calls);

    private const long Much = 24 * 1024 * 1024;

    /// <summary>Results of the system calls that splice. Counts them.</summary>
    // Safe: arguments go through to the system call.
    private sealed unsafe class Ducts : SocketCalls
    {
        private long _spliced;
        private long _read;
        private int _opened;
        private int _closed;
        private int _duct = -1;
        private bool _isAtTarget;

        /// <summary>For a splice out of the kernel pipe: maximum length, or minus an error number.</summary>
        internal Func<int, int> Taken { get; init; } = static length => length;

        internal int RefusesOpen { get; init; }

        internal int RefusesSplice { get; init; }

        internal bool LosesRest { get; init; }

        /// <summary>The loop has spliced into the target.</summary>
        internal bool IsAtTarget => Volatile.Read(ref _isAtTarget);

        internal long Spliced => Volatile.Read(ref _spliced);

        internal long Read => Volatile.Read(ref _read);

        internal int Left => Volatile.Read(ref _opened) - Volatile.Read(ref _closed);

        internal override int OpenDuct(int bytes, out int entry, out int exit)
        {
            (entry, exit) = (-1, -1);
            if (RefusesOpen != 0) return -RefusesOpen;
            int result = base.OpenDuct(bytes, out entry, out exit);
            _duct = exit;
            Volatile.Write(ref _opened, _opened + 2);
            return result;
        }

        internal override int Splice(int from, int to, int length)
        {
            if (RefusesSplice != 0) return -RefusesSplice;
            if (from != _duct) return base.Splice(from, to, length);
            Volatile.Write(ref _isAtTarget, true);
            int most = Taken(length);
            if (most <= 0) return most == 0 ? -Errno.EAGAIN : most;
            int moved = base.Splice(from, to, most);
            if (moved > 0) Volatile.Write(ref _spliced, _spliced + moved);
            return moved;
        }

        internal override int ReadDuct(int exit, byte* buffer, int length)
        {
            if (LosesRest) return -Errno.EIO;
            int read = base.ReadDuct(exit, buffer, length);
            if (read > 0) Volatile.Write(ref _read, _read + read);
            return read;
        }

        internal override void Close(int fd)
        {
            base.Close(fd);
            if (fd == _duct) Volatile.Write(ref _closed, _closed + 2);
        }
    }

    /// <summary>The first of two sessions is piped to the second.</summary>
    private sealed class Half(Pair pair) : Session
    {
        internal Task<PipeResult>? Pipe { get; private set; }

        internal TaskCompletionSource<CloseReason> Ended { get; } = new();

        protected override void OnConnected()
        {
            if (pair.First is null) pair.First = this;
            else if (!pair.First.Post(static half => ((Half)half!).Begin(), pair.First)) Abort();
        }

        protected override void OnDisconnected(CloseReason reason) => Ended.SetResult(reason);

        internal Task<PipeResult> PipeToFirst() => PipeTo(pair.First!).AsTask();

        private void Begin()
        {
            Pipe = PipeTo(pair.Second!).AsTask();
            pair.Begun.SetResult();
        }
    }

    private sealed class Pair
    {
        internal Half? First { get; set; }

        internal Half? Second { get; set; }

        internal TaskCompletionSource Begun { get; } = new();
    }

    /// <summary>Two connections of a server, one piped to the other.</summary>
    private sealed class Rig : IAsyncDisposable
    {
        private readonly Engine _engine;
        private readonly Server _server;

        private Rig(Engine engine, Action<NewSocket>? hook)
        {
            Pair = new Pair();
            _engine = engine;
            _server = new Server(
                new ServerOptions
                {
                    Engine = _engine,
                    Address = "tcp://127.0.0.1:0",
                    Socket = new() { OnCreated = hook }
                },
                () => Pair.Second = new Half(Pair));
        }

        internal Pair Pair { get; }

        internal Socket Source { get; private set; } = null!;

        internal Socket Target { get; private set; } = null!;

        internal static async Task<Rig> StartAsync(Engine engine, Action<NewSocket>? hook)
        {
            Rig rig = new(engine, hook);
            await rig._server.StartAsync(TestContext.Current.CancellationToken);
            rig.Source = await rig.ConnectAsync();
            await EpollOnCalls.UntilAsync(() => rig.Pair.First is not null);
            rig.Target = await rig.ConnectAsync();
            await rig.Pair.Begun.Task.WaitAsync(EpollOnCalls.Patience, TestContext.Current.CancellationToken);
            return rig;
        }

        public async ValueTask DisposeAsync()
        {
            Source?.Dispose();
            Target?.Dispose();
            await _server.DisposeAsync();
            await _engine.DisposeAsync();
        }

        /// <summary>Pipes the second session to the first as well.</summary>
        internal async Task<Task<PipeResult>> BackAsync()
        {
            TaskCompletionSource<Task<PipeResult>> begun = new();
            Assert.True(Pair.Second!.Post(_ => begun.SetResult(Pair.Second!.PipeToFirst()), null));
            return await begun.Task.WaitAsync(EpollOnCalls.Patience, TestContext.Current.CancellationToken);
        }

        private async Task<Socket> ConnectAsync()
        {
            Socket socket = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
            await socket.ConnectAsync((IPEndPoint)_server.EndPoint!, TestContext.Current.CancellationToken);
            return socket;
        }
    }

    [Theory]
    [InlineData("all of it")]
    [InlineData("a part now and then")]
    [InlineData("nothing at times")]
    [InlineData("nothing ever")]
    public async Task Every_byte_arrives_however_much_the_second_socket_accepts(string takes)
    {
        int call = 0;
        Ducts calls = new()
        {
            Taken = takes switch
            {
                "all of it" => static length => length,
                "a part now and then" =>
                    length => ++call % 3 == 0 ? Math.Min(length, 1 + (call * 7919 % 50_000)) : length,
                "nothing at times" => length => ++call % 4 == 0 ? 0 : length,
                _ => static _ => 0,
            },
        };
        await using (Rig rig = await StartAsync(calls))
        {
            PipeResult result = await PassAsync(rig, Much);
            Assert.Equal(new PipeResult(Much, PipeEnd.Finished, default), result);
        }

        if (takes == "all of it")
            Assert.True(calls.Spliced > Much / 2, $"{calls.Spliced} of {Much} bytes went without a copy.");
        if (takes.StartsWith("nothing", StringComparison.Ordinal)) Assert.True(calls.Read > 0);
        if (takes == "nothing ever") Assert.Equal(0, calls.Spliced);
        Assert.Equal(0, calls.Left);
    }

    [Theory]
    [InlineData("no descriptors")]
    [InlineData("not by this socket")]
    [InlineData("the user may have its Socket object")]
    [InlineData("the source has an object of it")]
    [InlineData("the target has an object of it")]
    public async Task If_the_kernel_cannot_splice_bytes_are_copied(string why)
    {
        Ducts calls = new()
        {
            RefusesOpen = why == "no descriptors" ? Errno.EMFILE : 0,
            RefusesSplice = why == "not by this socket" ? Errno.EINVAL : 0
        };
        await using Rig rig = await StartAsync(calls,
            why == "the user may have its Socket object" ? static _ => { } : null);
        if (why.StartsWith("the ", StringComparison.Ordinal))
            Assert.NotNull((why == "the source has an object of it" ? rig.Pair.First : rig.Pair.Second)!.Socket);
        Assert.Equal(new PipeResult(Much, PipeEnd.Finished, default), await PassAsync(rig, Much));
        Assert.Equal(0, calls.Spliced);
    }

    [Fact]
    public async Task Small_amounts_are_copied_because_that_costs_less()
    {
        Ducts calls = new();
        await using Rig rig = await StartAsync(calls);
        byte[] message = new byte[100];
        for (int i = 0; i < 200; i++)
        {
            rig.Source.Send(message);
            for (int got = 0; got < message.Length;)
                got += await rig.Target.ReceiveAsync(message.AsMemory(got), TestContext.Current.CancellationToken)
                    .AsTask().WaitAsync(EpollOnCalls.Patience);
        }

        Assert.Equal(0, calls.Left);
    }

    [Fact]
    public async Task A_target_abandoned_by_the_kernel_ends_the_pipe_as_always()
    {
        int broken = 0;
        Ducts calls = new() { Taken = length => Volatile.Read(ref broken) != 0 ? -Errno.ETIMEDOUT : length };
        await using Rig rig = await StartAsync(calls);
        Task reading = ReadAsync(rig.Target, long.MaxValue, CancellationToken.None);
        Task writing = WriteAsync(rig.Source, long.MaxValue);
        await EpollOnCalls.UntilAsync(() => calls.Spliced > 0);
        Volatile.Write(ref broken, 1);
        PipeResult result = await rig.Pair.First!.Pipe!.WaitAsync(EpollOnCalls.Patience,
            TestContext.Current.CancellationToken);
        Assert.Equal((PipeEnd.TargetEnded, CloseCause.TimedOut), (result.End, result.Reason.Cause));
        await Assert.ThrowsAsync<SocketException>(() => writing.WaitAsync(EpollOnCalls.Patience));
        await Assert.ThrowsAsync<SocketException>(() => reading.WaitAsync(EpollOnCalls.Patience));
    }

    [Fact]
    public async Task Bytes_lost_in_the_pipe_end_both_sides_so_that_no_stream_looks_complete()
    {
        int call = 0;
        Ducts calls = new() { LosesRest = true, Taken = length => ++call == 20 ? length / 2 : call > 20 ? 0 : length };
        await using (Rig rig = await StartAsync(calls))
        {
            Task reading = ReadAsync(rig.Target, long.MaxValue, CancellationToken.None);
            Task writing = WriteAsync(rig.Source, long.MaxValue);
            PipeResult result = await rig.Pair.First!.Pipe!.WaitAsync(EpollOnCalls.Patience,
                TestContext.Current.CancellationToken);
            Assert.Equal(PipeEnd.SourceEnded, result.End);
            Assert.Equal(CloseCause.LocalAbort,
                (await rig.Pair.Second!.Ended.Task.WaitAsync(EpollOnCalls.Patience)).Cause);
            // A reset, not an orderly end of stream.
            Assert.Equal(SocketError.ConnectionReset, (await Assert.ThrowsAsync<SocketException>(
                () => reading.WaitAsync(EpollOnCalls.Patience))).SocketErrorCode);
            await Assert.ThrowsAsync<SocketException>(() => writing.WaitAsync(EpollOnCalls.Patience));
        }

        Assert.Equal(0, calls.Left);
    }

    [Fact]
    public async Task A_source_that_is_reset_in_the_middle_resets_the_target()
    {
        Ducts calls = new();
        await using Rig rig = await StartAsync(calls);
        Task reading = ReadAsync(rig.Target, long.MaxValue, CancellationToken.None);
        Task writing = WriteAsync(rig.Source, Much);
        await EpollOnCalls.UntilAsync(() => calls.Spliced > 0);
        rig.Source.LingerState = new System.Net.Sockets.LingerOption(true, 0);
        rig.Source.Dispose();
        PipeResult result = await rig.Pair.First!.Pipe!.WaitAsync(EpollOnCalls.Patience,
            TestContext.Current.CancellationToken);
        Assert.Equal((PipeEnd.SourceEnded, CloseCause.PeerReset), (result.End, result.Reason.Cause));
        Assert.Equal(SocketError.ConnectionReset, (await Assert.ThrowsAsync<SocketException>(
            () => reading.WaitAsync(EpollOnCalls.Patience))).SocketErrorCode);
        await Record.ExceptionAsync(() => writing.WaitAsync(EpollOnCalls.Patience));
    }

    private Task<Rig> StartAsync(Ducts calls, Action<NewSocket>? hook = null) => Rig.StartAsync(NewEngine(calls), hook);

    [Fact]
    public async Task An_urgent_byte_is_not_taken_for_the_end_of_the_stream()
    {
        using ManualResetEventSlim isSent = new();
        bool waited = true;
        Ducts calls = new()
        {
            // The first bytes wait until everything has arrived, including the peer's FIN: then the kernel returns 0 at
            // the urgent mark.
            Taken = length =>
            {
                waited &= isSent.Wait(EpollOnCalls.Patience);
                return length;
            },
        };
        await using Rig rig = await StartAsync(calls);
        // Each piece is a multiple of the pattern's period, and is read before the next one: there is space for data
        // that is sent while the loop waits.
        byte[] piece = new byte[251 * 200];
        for (int i = 0; i < piece.Length; i++) piece[i] = ByteAt(i);
        int sent = 0;
        int got = 0;
        while (!calls.IsAtTarget)
        {
            sent += await rig.Source.SendAsync(piece, TestContext.Current.CancellationToken);
            await EpollOnCalls.UntilAsync(() => calls.IsAtTarget || (got += ReadSome(rig.Target)) == sent);
        }

        rig.Source.Send([0xFF], SocketFlags.OutOfBand);
        sent += await rig.Source.SendAsync(piece, TestContext.Current.CancellationToken).AsTask()
            .WaitAsync(EpollOnCalls.Patience);
        rig.Source.Shutdown(SocketShutdown.Send);
        isSent.Set();
        await ReadAsync(rig.Target, sent, TestContext.Current.CancellationToken, got)
            .WaitAsync(EpollOnCalls.Patience, TestContext.Current.CancellationToken);
        Assert.Equal(new PipeResult(sent, PipeEnd.Finished, default),
            await rig.Pair.First!.Pipe!.WaitAsync(EpollOnCalls.Patience, TestContext.Current.CancellationToken));
        Assert.True(waited);
        Assert.True(calls.Spliced > 0);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task A_loop_never_blocks_on_a_full_socket(bool hasSentMuch)
    {
        Ducts calls = new();
        await using Rig rig = await StartAsync(calls);
        if (hasSentMuch)
        {
            // Data from the target is spliced from now on, and no wait operation is pending for it.
            await rig.BackAsync();
            Task[] back = [WriteAsync(rig.Target, Much), ReadAsync(rig.Source, Much, default)];
            await Task.WhenAll(back).WaitAsync(EpollOnCalls.Patience, TestContext.Current.CancellationToken);
        }

        Task writing = WriteAsync(rig.Source, long.MaxValue);
        const long part = 8 * 1024 * 1024;
        // More than once: what waits for space is sent in another way, and after it bytes are spliced again.
        for (int round = 0; round < 5; round++)
        {
            await EpollOnCalls.UntilAsync(() => rig.Pair.Second!.PendingBytes > 0);
            // The target's peer does not read, and the loop still runs posts.
            TaskCompletionSource ran = new(TaskCreationOptions.RunContinuationsAsynchronously);
            Assert.True(rig.Pair.First!.Post(static source => ((TaskCompletionSource)source!).SetResult(), ran));
            await ran.Task.WaitAsync(EpollOnCalls.Patience, TestContext.Current.CancellationToken);
            long spliced = calls.Spliced;
            await ReadAsync(rig.Target, (round + 1) * part, TestContext.Current.CancellationToken, round * part)
                .WaitAsync(EpollOnCalls.Patience, TestContext.Current.CancellationToken);
            await EpollOnCalls.UntilAsync(() => calls.Spliced > spliced);
        }

        Assert.False(writing.IsCompleted);
        rig.Source.Dispose();
        await Record.ExceptionAsync(() => writing.WaitAsync(EpollOnCalls.Patience));
    }

    [Fact]
    public async Task Bytes_go_both_ways_at_once()
    {
        Ducts calls = new();
        await using Rig rig = await StartAsync(calls);
        Task<PipeResult> back = await rig.BackAsync();
        Task[] all = [WriteAsync(rig.Source, Much), ReadAsync(rig.Target, Much, default), WriteAsync(rig.Target, Much),
            ReadAsync(rig.Source, Much, default)];
        await Task.WhenAll(all).WaitAsync(EpollOnCalls.Patience, TestContext.Current.CancellationToken);
        rig.Source.Shutdown(SocketShutdown.Send);
        rig.Target.Shutdown(SocketShutdown.Send);
        PipeResult whole = new(Much, PipeEnd.Finished, default);
        Assert.Equal(whole,
            await rig.Pair.First!.Pipe!.WaitAsync(EpollOnCalls.Patience, TestContext.Current.CancellationToken));
        Assert.Equal(whole, await back.WaitAsync(EpollOnCalls.Patience, TestContext.Current.CancellationToken));
        Assert.True(calls.Spliced > 0);
    }

    /// <summary>Through the pipe, followed by the end.</summary>
    private static async Task<PipeResult> PassAsync(Rig rig, long length)
    {
        Task writing = WriteAsync(rig.Source, length);
        await ReadAsync(rig.Target, length, TestContext.Current.CancellationToken)
            .WaitAsync(EpollOnCalls.Patience, TestContext.Current.CancellationToken);
        await writing.WaitAsync(EpollOnCalls.Patience, TestContext.Current.CancellationToken);
        rig.Source.Shutdown(SocketShutdown.Send);
        Assert.Equal(0, await rig.Target.ReceiveAsync(new byte[1], TestContext.Current.CancellationToken).AsTask()
            .WaitAsync(EpollOnCalls.Patience));
        return await rig.Pair.First!.Pipe!.WaitAsync(EpollOnCalls.Patience, TestContext.Current.CancellationToken);
    }

    private static byte ByteAt(long position) => (byte)(position % 251);

    private static async Task WriteAsync(Socket socket, long length)
    {
        byte[] data = new byte[251 * 4096];
        for (int i = 0; i < data.Length; i++) data[i] = ByteAt(i);
        long written = 0;
        while (written < length)
        {
            int at = (int)(written % data.Length);
            written += await socket.SendAsync(data.AsMemory(at, (int)Math.Min(data.Length - at, length - written)));
        }
    }

    /// <summary>Discards available data. Returns the number of bytes.</summary>
    private static int ReadSome(Socket socket) => socket.Available == 0 ? 0 : socket.Receive(new byte[256 * 1024]);

    private static async Task ReadAsync(Socket socket, long length, CancellationToken cancellation, long read = 0)
    {
        byte[] memory = new byte[256 * 1024];
        while (read < length)
        {
            int got = await socket.ReceiveAsync(memory.AsMemory(0, (int)Math.Min(memory.Length, length - read)),
                cancellation);
            if (got == 0) throw new EndOfStreamException($"The end after {read} bytes.");
            for (int i = 0; i < got; i++, read++)
            {
                if (memory[i] != ByteAt(read)) throw new InvalidDataException($"Another byte at {read}.");
            }
        }
    }
}

public sealed class EpollSpliceTests : SpliceTests
{
    private protected override Engine NewEngine(SocketCalls calls)
    {
        EpollOnCalls.NeedsEpoll();
        return new EpollOnCalls(calls);
    }
}

public sealed class UringSpliceTests : SpliceTests
{
    private protected override Engine NewEngine(SocketCalls calls)
    {
        UringOnCalls.NeedsUring();
        return new UringOnCalls(calls);
    }
}
