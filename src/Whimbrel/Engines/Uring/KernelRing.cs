using System.Net;
using System.Runtime.InteropServices;
using Whimbrel.Buffers;
using Whimbrel.Connections;
using Whimbrel.Linux;

namespace Whimbrel.Engines.Uring;

/// <summary>
/// An io_uring instance of the running kernel. Created disabled, on any thread, and enabled by the first
/// <see cref="Enter"/>. From then on only that thread may submit, so plain stores are sufficient.
/// </summary>
// Safe: the mapped regions have the sizes that were mapped and live until Close; arguments of system calls live during
// the call.
internal sealed unsafe class KernelRing : Ring
{
    private const uint SubmissionEntries = 1024;
    private const uint SmallestEntries = 64;
    private const uint CompletionFactor = 4;
    private const int MemoryRetries = 5;
    private const int MemoryRetryMs = 10;
    private const long CancelMs = 100;
    private const int LastEnters = 4;
    private const int ReadWrite = 3;
    private const int SharedPopulated = 0x8001;

    private const uint NeededFlags = UringAbi.IORING_SETUP_R_DISABLED | UringAbi.IORING_SETUP_SINGLE_ISSUER
        | UringAbi.IORING_SETUP_DEFER_TASKRUN
        | UringAbi.IORING_SETUP_CQSIZE | UringAbi.IORING_SETUP_CLAMP;

    private const uint NeededFeatures = UringAbi.IORING_FEAT_SINGLE_MMAP | UringAbi.IORING_FEAT_NODROP
        | UringAbi.IORING_FEAT_SUBMIT_STABLE
        | UringAbi.IORING_FEAT_FAST_POLL | UringAbi.IORING_FEAT_EXT_ARG;

    // Omitted one by one, in this order (newest first), while the kernel returns EINVAL.
    private static readonly uint[] s_optionalFlags = [UringAbi.IORING_SETUP_NO_SQARRAY,
        UringAbi.IORING_SETUP_SUBMIT_ALL];

    private readonly RingCalls _calls;
    private readonly int _fd;
    private readonly int _wakeFd;
    private readonly void* _queues;
    private readonly nuint _queueBytes;
    private readonly nuint _entryBytes;
    private readonly bool _canLimitReceive;
    private int _enterFd;
    private uint _enterFlags;
    private bool _isEnabled;
    private bool _isRegistered;

    private KernelRing(RingCalls calls, int fd, int wakeFd, void* queues, nuint queueBytes, SubmissionEntry* entries,
        in UringParameters p, int bufferCount, int bufferBytes, bool canLimitReceive)
        : base(bufferCount, bufferBytes)
    {
        _calls = calls;
        _fd = _enterFd = fd;
        _wakeFd = wakeFd;
        _queues = queues;
        _queueBytes = queueBytes;
        _entryBytes = p.SubmissionEntries * (nuint)sizeof(SubmissionEntry);
        _canLimitReceive = canLimitReceive;
        Flags = p.Flags;
        byte* start = (byte*)queues;
        _entries = entries;
        _submitHead = (uint*)(start + p.Submission.Head);
        _submitTailShared = (uint*)(start + p.Submission.Tail);
        _submitMask = p.SubmissionEntries - 1;
        _completions = (CompletionEntry*)(start + p.Completion.Entries);
        _completeHeadShared = (uint*)(start + p.Completion.Head);
        _completeTail = (uint*)(start + p.Completion.Tail);
        _completeMask = p.CompletionEntries - 1;
        if ((p.Flags & UringAbi.IORING_SETUP_NO_SQARRAY) == 0)
        {
            uint* array = (uint*)(start + p.Submission.Array);
            for (uint i = 0; i < p.SubmissionEntries; i++) array[i] = i;
        }
    }

    /// <summary>Set-up flags that the kernel accepted.</summary>
    internal uint Flags { get; }

    internal override long HeldBytes => base.HeldBytes + (long)_queueBytes + (long)_entryBytes;

    internal override bool CanLimitReceive => _canLimitReceive;

    internal override int WakeDescriptor => _wakeFd;

    // ------------------------------------------------------------------ making one

    /// <summary>
    /// More than twice the number of receives that the kernel delivers in one enter (20, and those that begin in it):
    /// docs/design/0014.
    /// </summary>
    internal const int UsualBufferCount = 64;

    internal const int UsualBufferBytes = 32 * 1024;

    /// <summary>
    /// Creates a ring, with fewer entries where the kernel refuses more. Returns null with the failed step and its
    /// error number.
    /// </summary>
    internal static KernelRing? TryOpen(RingCalls calls, bool canLimitReceive, out RingFailure failure,
        uint entries = SubmissionEntries, int bufferCount = UsualBufferCount, int bufferBytes = UsualBufferBytes)
    {
        int fd = SetUp(calls, ref entries, out UringParameters p);
        failure = new RingFailure("io_uring_setup", -fd);
        if (fd < 0) return null;
        if ((p.Features & NeededFeatures) != NeededFeatures)
        {
            Syscall.Close(fd);
            failure = new RingFailure($"features 0x{p.Features:x} without 0x{NeededFeatures & ~p.Features:x}", 0);
            return null;
        }

        KernelRing? ring = TryMap(calls, fd, p, bufferCount, bufferBytes, canLimitReceive, out failure);
        if (ring is null)
        {
            Syscall.Close(fd);
            return null;
        }

        int error = ring.RegisterBuffers(bufferCount);
        if (error == 0) return ring;
        ring.Close(isIdle: true);
        failure = new RingFailure("registering a ring of buffers", error);
        return null;
    }

    private static int SetUp(RingCalls calls, ref uint entries, out UringParameters p)
    {
        uint flags = NeededFlags;
        foreach (uint optional in s_optionalFlags) flags |= optional;
        int dropped = 0;
        int retries = 0;
        while (true)
        {
            UringParameters parameters = new() { Flags = flags, CompletionEntries = entries * CompletionFactor };
            int fd = calls.Setup(entries, &parameters);
            p = parameters;
            if (fd >= 0) return fd;
            if (fd == -Errno.EINVAL && dropped < s_optionalFlags.Length)
            {
                flags &= ~s_optionalFlags[dropped++];
                continue;
            }

            if (fd != -Errno.ENOMEM) return fd;
            if (entries > SmallestEntries)
            {
                entries /= 2;
                continue;
            }

            // The kernel releases the memory of a recently closed ring late.
            if (retries++ == MemoryRetries) return fd;
            Thread.Sleep(MemoryRetryMs);
        }
    }

    private static KernelRing? TryMap(RingCalls calls, int fd, in UringParameters p, int bufferCount, int bufferBytes,
        bool canLimitReceive, out RingFailure failure)
    {
        failure = default;
        nuint submission = (p.Flags & UringAbi.IORING_SETUP_NO_SQARRAY) == 0
            ? p.Submission.Array + (p.SubmissionEntries * sizeof(uint))
            : 0;
        nuint completion = p.Completion.Entries + (p.CompletionEntries * (nuint)sizeof(CompletionEntry));
        nuint queueBytes = Math.Max(submission, completion);
        nuint entryBytes = p.SubmissionEntries * (nuint)sizeof(SubmissionEntry);
        void* queues = Syscall.Map(null, queueBytes, ReadWrite, SharedPopulated, fd, UringAbi.IORING_OFF_SQ_RING);
        if ((nint)queues == -1)
        {
            failure = new RingFailure("mapping the queues", Syscall.LastError);
            return null;
        }

        void* entries = Syscall.Map(null, entryBytes, ReadWrite, SharedPopulated, fd, UringAbi.IORING_OFF_SQES);
        // Without EFD_NONBLOCK, because otherwise the ring's read of it would not wait.
        int wakeFd = (nint)entries == -1 ? -1 : Syscall.EventFd(0, EpollAbi.EFD_CLOEXEC);
        if (wakeFd >= 0)
            return new KernelRing(calls, fd, wakeFd, queues, queueBytes, (SubmissionEntry*)entries, p, bufferCount,
                bufferBytes, canLimitReceive);
        failure = new RingFailure("mapping the queues and opening an eventfd", Syscall.LastError);
        if ((nint)entries != -1) Syscall.Unmap(entries, entryBytes);
        Syscall.Unmap(queues, queueBytes);
        return null;
    }

    private int RegisterBuffers(int bufferCount)
    {
        BufferRingRegistration registration =
            new() { RingAddress = (ulong)_bufferRing, RingEntries = (uint)bufferCount };
        return Math.Max(0, -_calls.Register(_fd, UringAbi.IORING_REGISTER_PBUF_RING, &registration, 1));
    }

    /// <summary>
    /// Returns the opcodes among <paramref name="needed"/> that this kernel lacks, or null. Called once, by the probe.
    /// </summary>
    internal string? MissingOpcodes(ReadOnlySpan<byte> needed)
    {
        const int headBytes = 16;
        const int count = 64;
        byte* memory = stackalloc byte[headBytes + (count * sizeof(ProbedOpcode))];
        NativeMemory.Clear(memory, (nuint)(headBytes + (count * sizeof(ProbedOpcode))));
        int error = _calls.Register(_fd, UringAbi.IORING_REGISTER_PROBE, memory, count);
        if (error < 0) return $"the probe itself (error {-error})";
        ProbedOpcode* operations = (ProbedOpcode*)(memory + headBytes);
        string missing = "";
        foreach (byte opcode in needed)
        {
            if ((operations[opcode].Flags & UringAbi.IO_URING_OP_SUPPORTED) == 0) missing += $" {opcode}";
        }

        return missing.Length == 0 ? null : missing[1..];
    }

    // ------------------------------------------------------------------ the kernel's part

    private protected override int Enter(uint submit, uint complete, bool takesEvents, long timeoutMs)
    {
        if (!_isEnabled)
        {
            int error = Enable();
            if (error != 0) return -error;
        }

        uint flags = _enterFlags;
        if (takesEvents) flags |= UringAbi.IORING_ENTER_GETEVENTS;
        if (timeoutMs <= 0) return _calls.Enter(_enterFd, submit, complete, flags, null);
        KernelTime time = new() { Seconds = timeoutMs / 1000, Nanoseconds = timeoutMs % 1000 * 1_000_000 };
        WaitArgument argument = new() { Timeout = &time };
        return _calls.Enter(_enterFd, submit, complete, flags | UringAbi.IORING_ENTER_EXT_ARG, &argument);
    }

    private int Enable()
    {
        int result = _calls.Register(_fd, UringAbi.IORING_REGISTER_ENABLE_RINGS, null, 0);
        if (result < 0) return -result;
        _isEnabled = true;
        // Optional: saves the lookup of the descriptor at every enter.
        RingDescriptorUpdate update = new() { Offset = uint.MaxValue, Data = (ulong)_fd };
        _isRegistered = _calls.Register(_fd, UringAbi.IORING_REGISTER_RING_FDS, &update, 1) == 1;
        if (!_isRegistered) return 0;
        _enterFd = (int)update.Offset;
        _enterFlags = UringAbi.IORING_ENTER_REGISTERED_RING;
        return 0;
    }

    internal override void Wake()
    {
        ulong one = 1;
        _ = Syscall.Write(_wakeFd, &one, sizeof(ulong));
    }

    internal override void Close(bool isIdle)
    {
        if (!isIdle && _isEnabled)
        {
            // The kernel destroys a closed ring late. Until then its accept would take connections instead of the new
            // ring's.
            CancelRegistration all =
                new() { Descriptor = -1, Flags = UringAbi.IORING_ASYNC_CANCEL_ANY | UringAbi.IORING_ASYNC_CANCEL_ALL };
            all.Timeout.Nanoseconds = CancelMs * 1_000_000;
            _ = _calls.Register(_fd, UringAbi.IORING_REGISTER_SYNC_CANCEL, &all, 1);
            // Cancelled operations leave the sockets' wait queues only inside an enter.
            for (int i = 0; i < LastEnters; i++)
                _ = _calls.Enter(_enterFd, 0, 0, _enterFlags | UringAbi.IORING_ENTER_GETEVENTS, null);
        }

        if (_isRegistered)
        {
            // Otherwise the thread would keep the ring until it ends.
            RingDescriptorUpdate update = new() { Offset = (uint)_enterFd };
            _ = _calls.Register(_fd, UringAbi.IORING_UNREGISTER_RING_FDS, &update, 1);
        }

        Syscall.Unmap(_queues, _queueBytes);
        Syscall.Unmap(_entries, _entryBytes);
        Syscall.Close(_fd);
        if (!isIdle) return;
        FreeMemory();
        // Last, because the number must not be reused while another thread may still wake this loop.
        Syscall.Close(_wakeFd);
    }
}

/// <summary>Reason why a ring could not be created: the step, and the system's error number (0: none).</summary>
internal readonly record struct RingFailure(string Step, int Error);
