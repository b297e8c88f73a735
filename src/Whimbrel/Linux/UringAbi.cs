using System.Runtime.InteropServices;

namespace Whimbrel.Linux;

/// <summary>
/// Constants of io_uring for the engine, named as in linux/io_uring.h. The same on x64 and arm64; sizes and offsets are
/// asserted by a test.
/// </summary>
internal static class UringAbi
{
    // System call numbers, equal on every machine that .NET supports.
    internal const int SetupCall = 425;
    internal const int EnterCall = 426;
    internal const int RegisterCall = 427;

    internal const uint IORING_SETUP_CQSIZE = 1 << 3;
    internal const uint IORING_SETUP_CLAMP = 1 << 4;
    internal const uint IORING_SETUP_R_DISABLED = 1 << 6;
    internal const uint IORING_SETUP_SUBMIT_ALL = 1 << 7;
    internal const uint IORING_SETUP_SINGLE_ISSUER = 1 << 12;
    internal const uint IORING_SETUP_DEFER_TASKRUN = 1 << 13;
    internal const uint IORING_SETUP_NO_SQARRAY = 1 << 16;

    internal const uint IORING_FEAT_SINGLE_MMAP = 1 << 0;
    internal const uint IORING_FEAT_NODROP = 1 << 1;
    internal const uint IORING_FEAT_SUBMIT_STABLE = 1 << 2;
    internal const uint IORING_FEAT_FAST_POLL = 1 << 5;
    internal const uint IORING_FEAT_EXT_ARG = 1 << 8;

    internal const uint IORING_ENTER_GETEVENTS = 1 << 0;
    internal const uint IORING_ENTER_EXT_ARG = 1 << 3;
    internal const uint IORING_ENTER_REGISTERED_RING = 1 << 4;

    internal const uint IORING_REGISTER_PROBE = 8;
    internal const uint IORING_REGISTER_ENABLE_RINGS = 12;
    internal const uint IORING_REGISTER_RING_FDS = 20;
    internal const uint IORING_UNREGISTER_RING_FDS = 21;
    internal const uint IORING_REGISTER_PBUF_RING = 22;
    internal const uint IORING_REGISTER_SYNC_CANCEL = 24;

    internal const uint IORING_ASYNC_CANCEL_ALL = 1 << 0;
    internal const uint IORING_ASYNC_CANCEL_ANY = 1 << 2;

    internal const long IORING_OFF_SQ_RING = 0;
    internal const long IORING_OFF_SQES = 0x10000000;

    internal const byte IORING_OP_NOP = 0;
    internal const byte IORING_OP_POLL_ADD = 6;
    internal const byte IORING_OP_SENDMSG = 9;
    internal const byte IORING_OP_ACCEPT = 13;
    internal const byte IORING_OP_ASYNC_CANCEL = 14;
    internal const byte IORING_OP_CLOSE = 19;
    internal const byte IORING_OP_READ = 22;
    internal const byte IORING_OP_SEND = 26;
    internal const byte IORING_OP_RECV = 27;

    internal const byte IOSQE_BUFFER_SELECT = 1 << 5;

    internal const ushort IORING_ACCEPT_MULTISHOT = 1 << 0;
    internal const uint IORING_POLL_ADD_MULTI = 1 << 0;
    internal const ushort IORING_RECV_MULTISHOT = 1 << 1;

    internal const uint IORING_CQE_F_BUFFER = 1 << 0;
    internal const uint IORING_CQE_F_MORE = 1 << 1;
    internal const int IORING_CQE_BUFFER_SHIFT = 16;

    internal const ushort IO_URING_OP_SUPPORTED = 1 << 0;

    /// <summary>Offset of the tail of a provided-buffer ring: in the unused field of its first entry.</summary>
    internal const int BufferRingTailOffset = 14;
}

/// <summary>struct io_uring_sqe, 64 bytes: one operation for the kernel.</summary>
[StructLayout(LayoutKind.Sequential)]
internal struct SubmissionEntry
{
    internal byte Opcode;
    internal byte Flags;

    /// <summary>ioprio; accept and receive use it for their own flags.</summary>
    internal ushort Priority;
    internal int Descriptor;
    internal ulong Offset;
    internal ulong Address;
    internal uint Length;

    /// <summary>The union of msg_flags, accept_flags, poll32_events and the like.</summary>
    internal uint OperationFlags;
    internal ulong UserData;
    internal ushort BufferGroup;
    internal ushort Personality;

    /// <summary>
    /// The union of file_index and optlen: for a multishot receive (Linux 6.16) the number of bytes after which it
    /// ends.
    /// </summary>
    internal uint TotalLength;
    internal ulong Address3;
    internal ulong Reserved;
}

/// <summary>struct io_uring_cqe, 16 bytes: result of an operation.</summary>
[StructLayout(LayoutKind.Sequential)]
internal struct CompletionEntry
{
    internal ulong UserData;

    /// <summary>Result of the system call, or minus the error number.</summary>
    internal int Result;
    internal uint Flags;
}

/// <summary>struct io_sqring_offsets, 40 bytes.</summary>
[StructLayout(LayoutKind.Sequential)]
internal struct SubmissionOffsets
{
    internal uint Head;
    internal uint Tail;
    internal uint RingMask;
    internal uint RingEntries;
    internal uint Flags;
    internal uint Dropped;
    internal uint Array;
    internal uint Reserved;
    internal ulong UserAddress;
}

/// <summary>struct io_cqring_offsets, 40 bytes.</summary>
[StructLayout(LayoutKind.Sequential)]
internal struct CompletionOffsets
{
    internal uint Head;
    internal uint Tail;
    internal uint RingMask;
    internal uint RingEntries;
    internal uint Overflow;
    internal uint Entries;
    internal uint Flags;
    internal uint Reserved;
    internal ulong UserAddress;
}

/// <summary>struct io_uring_params, 120 bytes.</summary>
[StructLayout(LayoutKind.Sequential)]
internal struct UringParameters
{
    internal uint SubmissionEntries;
    internal uint CompletionEntries;
    internal uint Flags;
    internal uint ThreadCpu;
    internal uint ThreadIdle;
    internal uint Features;
    internal uint WorkerDescriptor;
    internal uint Reserved0;
    internal uint Reserved1;
    internal uint Reserved2;
    internal SubmissionOffsets Submission;
    internal CompletionOffsets Completion;
}

/// <summary>struct io_uring_getevents_arg, 24 bytes.</summary>
[StructLayout(LayoutKind.Sequential)]
internal unsafe struct WaitArgument
{
    internal ulong SignalMask;
    internal uint SignalMaskSize;
    internal uint MinimumWaitMicroseconds;
    internal KernelTime* Timeout;
}

/// <summary>struct __kernel_timespec, 16 bytes.</summary>
[StructLayout(LayoutKind.Sequential)]
internal struct KernelTime
{
    internal long Seconds;
    internal long Nanoseconds;
}

/// <summary>struct io_uring_buf, 16 bytes: one buffer of a provided-buffer ring.</summary>
[StructLayout(LayoutKind.Sequential)]
internal struct ProvidedBuffer
{
    internal ulong Address;
    internal uint Length;
    internal ushort Id;
    internal ushort Reserved;
}

/// <summary>struct io_uring_buf_reg, 40 bytes.</summary>
[StructLayout(LayoutKind.Sequential)]
internal struct BufferRingRegistration
{
    internal ulong RingAddress;
    internal uint RingEntries;
    internal ushort Group;
    internal ushort Flags;
    internal ulong Reserved0;
    internal ulong Reserved1;
    internal ulong Reserved2;
}

/// <summary>struct io_uring_rsrc_update, 16 bytes: registers the descriptor of a ring.</summary>
[StructLayout(LayoutKind.Sequential)]
internal struct RingDescriptorUpdate
{
    internal uint Offset;
    internal uint Reserved;
    internal ulong Data;
}

/// <summary>struct io_uring_sync_cancel_reg, 64 bytes.</summary>
[StructLayout(LayoutKind.Sequential)]
internal struct CancelRegistration
{
    internal ulong Address;
    internal int Descriptor;
    internal uint Flags;
    internal KernelTime Timeout;
    internal ulong Reserved0;
    internal ulong Reserved1;
    internal ulong Reserved2;
    internal ulong Reserved3;
}

/// <summary>
/// struct io_uring_probe_op, 8 bytes; follows a header of 16 bytes that begins with the last known opcode.
/// </summary>
[StructLayout(LayoutKind.Sequential)]
internal struct ProbedOpcode
{
    internal byte Opcode;
    internal byte Reserved0;
    internal ushort Flags;
    internal uint Reserved1;
}
