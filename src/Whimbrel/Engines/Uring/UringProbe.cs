using System.Runtime.CompilerServices;
using Whimbrel.Diagnostics;
using Whimbrel.Linux;

namespace Whimbrel.Engines.Uring;

/// <summary>
/// Finds out whether io_uring can be used here, and if not, the reason and the remedy. The kernel reports its
/// operations. Sends and a multishot receive run on a small ring, because no query reports flags: that flag (Linux 6.0)
/// is newer than all others that the engine needs.
/// </summary>
// Safe: buffers of system calls are on the stack or of the ring, which is closed here with nothing running.
internal sealed unsafe class UringProbe
{
    private const uint TestEntries = 16;
    private const int TestBuffers = 4;
    private const int TestBufferBytes = 4096;
    private const int TestWaitMs = 1000;

    private static readonly Lazy<UringSupport> s_here = new(static () => Run(RingCalls.System));

    private readonly KernelRing _ring;
    // not a list, because its methods would be compiled for this alone
    private readonly CompletionEntry[] _seen = new CompletionEntry[4 * TestEntries];
    private int _seenCount;
    private ulong _receiveMark = 1;

    private UringProbe(KernelRing ring) => _ring = ring;

    /// <summary>Result for this process; found once, in about a millisecond.</summary>
    internal static UringSupport Here => s_here.Value;

    /// <summary>All operations of the engine.</summary>
    private static ReadOnlySpan<byte> Opcodes =>
    [
        UringAbi.IORING_OP_NOP, UringAbi.IORING_OP_POLL_ADD, UringAbi.IORING_OP_SENDMSG, UringAbi.IORING_OP_ACCEPT,
        UringAbi.IORING_OP_ASYNC_CANCEL,
        UringAbi.IORING_OP_CLOSE, UringAbi.IORING_OP_READ, UringAbi.IORING_OP_SEND, UringAbi.IORING_OP_RECV,
    ];

    internal static UringSupport Run(RingCalls calls)
    {
        if (!KernelProbe.HasEpoll) return UringSupport.No(0, "io_uring needs Linux on x64 or arm64");
        KernelRing? ring = KernelRing.TryOpen(calls, canLimitReceive: true, out RingFailure failure, TestEntries,
            TestBuffers, TestBufferBytes);
        if (ring is null) return UringRefusal.Of(failure, KernelFacts.Read());
        UringProbe probe = new(ring);
        bool canLimitReceive = false;
        string? trouble = ring.MissingOpcodes(Opcodes) is { } missing
            ? $"this kernel lacks the io_uring operations {missing}"
            : probe.Test(out canLimitReceive);
        ring.Close(isIdle: trouble is null);
        return trouble is null
            ? new UringSupport(true, canLimitReceive, 0, "")
            : UringRefusal.OfTest(trouble, KernelFacts.Read());
    }

    // ------------------------------------------------------------------ the self-test

    /// <summary>Returns null, or the operation that failed.</summary>
    private string? Test(out bool canLimitReceive)
    {
        canLimitReceive = false;
        int* pair = stackalloc int[2];
        if (Syscall.SocketPair(SocketAbi.AF_UNIX, SocketAbi.SOCK_STREAM | SocketAbi.SOCK_CLOEXEC, 0, pair) != 0)
            return $"a socket pair for the test of io_uring: {ErrorText.Of(Syscall.LastError)}";
        string? trouble = TestTraffic(pair[0], pair[1], out canLimitReceive);
        Syscall.Close(pair[1]);
        // Otherwise the ring would be closed with an operation that runs.
        if (trouble is null && (!TryWait(_receiveMark, out CompletionEntry end) || end.Result != 0))
            trouble = "a receive of io_uring did not end with its stream";
        Syscall.Close(pair[0]);
        return trouble;
    }

    // Not optimized, because it runs once, and optimizing takes the compiler longer than the whole test.
    /// <summary>
    /// Tests that a multishot receive gets two messages sent in two ways, and that a limit ends it if the kernel
    /// supports limits.
    /// </summary>
    [MethodImpl(MethodImplOptions.NoOptimization)]
    private string? TestTraffic(int reader, int writer, out bool canLimitReceive)
    {
        canLimitReceive = false;
        ReadOnlySpan<byte> text = "whimbrel"u8;
        byte* data = stackalloc byte[text.Length];
        text.CopyTo(new Span<byte>(data, text.Length));
        PushReceive(reader, mark: 1, totalLength: (uint)text.Length);
        PushSend(writer, mark: 2, data, text.Length);
        if (!TryWait(2, out CompletionEntry sent) || sent.Result != text.Length) return "io_uring does not send here";
        if (!TryWait(1, out CompletionEntry limited)) return "io_uring does not receive here";
        bool isUnknown = limited.Result == -Errno.EINVAL;
        if (!isUnknown && !GiveBack(limited, text)) return "a receive of io_uring brought the wrong bytes";
        canLimitReceive = !isUnknown && (limited.Flags & UringAbi.IORING_CQE_F_MORE) == 0;
        // If the limit is ignored without an error, the first receive continues.
        if (isUnknown || canLimitReceive) PushReceive(reader, _receiveMark = 3, totalLength: 0);
        if (isUnknown && (!TryWait(_receiveMark, out CompletionEntry first) || !GiveBack(first, text)))
            return "a receive of io_uring brought the wrong bytes";
        IoVector vector = new() { Base = data, Length = (nuint)text.Length };
        MessageHeader message = new() { Vectors = &vector, VectorCount = 1 };
        SubmissionEntry gather = new()
        {
            Opcode = UringAbi.IORING_OP_SENDMSG,
            Descriptor = writer,
            Address = (ulong)(&message),
            Length = 1,
            OperationFlags = SocketAbi.MSG_NOSIGNAL,
            UserData = 4
        };
        for (int i = 0; i < 2; i++)
        {
            _ring.Push(in gather);
            if (!TryWait(4, out CompletionEntry gathered) || gathered.Result != text.Length)
                return "io_uring does not send messages here";
            if (!TryWait(_receiveMark, out CompletionEntry received) || !GiveBack(received, text))
                return "a multishot receive of io_uring brought the wrong bytes";
            if ((received.Flags & UringAbi.IORING_CQE_F_MORE) == 0)
                return "a multishot receive of io_uring ended by itself";
        }

        return null;
    }

    private void PushReceive(int fd, ulong mark, uint totalLength)
    {
        _ring.Push(new SubmissionEntry
        {
            Opcode = UringAbi.IORING_OP_RECV,
            Flags = UringAbi.IOSQE_BUFFER_SELECT,
            Priority = UringAbi.IORING_RECV_MULTISHOT,
            Descriptor = fd,
            TotalLength = totalLength,
            UserData = mark,
        });
    }

    private void PushSend(int fd, ulong mark, byte* data, int length)
    {
        _ring.Push(new SubmissionEntry
        {
            Opcode = UringAbi.IORING_OP_SEND,
            Descriptor = fd,
            Address = (ulong)data,
            Length = (uint)length,
            OperationFlags = SocketAbi.MSG_NOSIGNAL,
            UserData = mark,
        });
    }

    /// <summary>Checks received data, and returns its buffer.</summary>
    private bool GiveBack(CompletionEntry received, ReadOnlySpan<byte> expected)
    {
        if ((received.Flags & UringAbi.IORING_CQE_F_BUFFER) == 0 || received.Result != expected.Length) return false;
        int buffer = (int)(received.Flags >> UringAbi.IORING_CQE_BUFFER_SHIFT);
        bool isRight = buffer < TestBuffers
            && new ReadOnlySpan<byte>(_ring.BufferAt(buffer), received.Result).SequenceEqual(expected);
        if (buffer < TestBuffers) _ring.ReturnBuffer(buffer);
        return isRight;
    }

    /// <summary>Waits for the next completion with this mark; others are kept.</summary>
    private bool TryWait(ulong mark, out CompletionEntry entry)
    {
        long deadline = Environment.TickCount64 + TestWaitMs;
        long left = TestWaitMs;
        for (bool isFirst = true; isFirst || left > 0; left = deadline - Environment.TickCount64)
        {
            while (_ring.Ready > 0 && _seenCount < _seen.Length) _ring.Take(out _seen[_seenCount++]);
            for (int i = 0; i < _seenCount; i++)
            {
                if (_seen[i].UserData != mark) continue;
                entry = _seen[i];
                Array.Copy(_seen, i + 1, _seen, i, --_seenCount - i);
                return true;
            }

            if (_ring.SubmitAndWait(left) != 0) break;
            isFirst = false;
        }

        entry = default;
        return false;
    }
}

/// <summary>Result of the probe.</summary>
/// <param name="IsOffered">True if the engine works here.</param>
/// <param name="CanLimitReceive">True if a multishot receive can have a limit of bytes after which it ends.</param>
/// <param name="Error">Error number of the system, if that was the reason.</param>
/// <param name="Reason">Reason why it does not work; empty if it does.</param>
/// <param name="Remedy">Change that would allow it; empty if none is known.</param>
internal readonly record struct UringSupport(bool IsOffered, bool CanLimitReceive, int Error, string Reason,
    string Remedy = "")
{
    /// <summary>Reason and remedy as one clause.</summary>
    internal string Advice => Remedy.Length == 0 ? Reason : $"{Reason}; to allow it: {Remedy}";

    internal static UringSupport No(int error, string reason, string remedy = "") =>
        new(false, false, error, reason, remedy);
}
