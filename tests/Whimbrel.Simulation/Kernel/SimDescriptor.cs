using System.Net;
using Whimbrel.Linux;
using Whimbrel.Testing;

namespace Whimbrel.Simulation.Kernel;

// The object of a descriptor number.
internal sealed class SimDescriptor
{
    internal int Number { get; set; }

    internal MemorySocket? Socket { get; init; }

    internal MemoryListening? Listening { get; init; }

    // Closed by the engine; another process may have a duplicate.
    internal bool IsClosed { get; set; }

    // Of an eventfd.
    internal bool IsWake { get; init; }

    internal ulong WakeCount { get; set; }

    // Of a pending connect: when its result arrives (never: long.MaxValue), and the result.
    internal long AnswerAtMs { get; set; }

    internal int ConnectError { get; init; }

    // The result of a connect or fast open has arrived.
    internal bool IsAnsweredAt(long nowMs) => AnswerAtMs <= nowMs;

    // A fast open: the first bytes are sent with the connect.
    internal bool IsAsked { get; set; } = true;

    internal IPEndPoint? Local { get; init; }

    // Number of calls on it, and the number at the time of the last report by epoll.
    internal int Calls { get; set; }

    internal int CallsWhenTold { get; set; } = -1;

    // Writable as a kernel defines it: a third of the buffer is free, or a send would fail.
    internal bool HasRoom => IsWriteShut || Socket!.IsReset || Socket.Other.IsClosed
        || Socket.Other.Room > 0 && 3 * Socket.Other.Room >= Socket.Other.Available;

    // A receive would return something: bytes, the end or an error.
    internal bool IsReadable => IsReadShut || Socket!.IsReadable;

    // What a receive would find now; and what the last poll event reported.
    internal (int Bytes, int Ends) Input =>
        (Socket!.Available, (Socket.HasFinish ? 1 : 0) | (Socket.IsReset ? 2 : 0) | (IsReadShut ? 4 : 0));

    internal (int Bytes, int Ends) PollSaw { get; set; }

    internal bool HasNews => Input.Bytes > PollSaw.Bytes || Input.Ends != PollSaw.Ends;

    // Urgent bytes arrived: a receive may stop before them.
    internal bool IsUrgent { get; set; }

    internal bool IsNonBlocking { get; set; }

    internal bool ResetsOnClose { get; set; }

    internal bool IsReadShut { get; set; }

    internal bool IsWriteShut { get; set; }

    // The reset was reported once: from then on a receive finds the end of the stream, as in Linux.
    internal bool ResetWasTold { get; set; }

    // Number of operations of any ring that refer to it; and of those that send or receive.
    internal int InFlight { get; private set; }

    internal int Sends { get; private set; }

    internal int Receives { get; private set; }

    // Members of an epoll set.
    internal List<SimInterest>? Set { get; init; }

    internal void Begin(byte opcode) => Count(opcode, 1);

    internal void End(byte opcode) => Count(opcode, -1);

    private void Count(byte opcode, int one)
    {
        InFlight += one;
        if (opcode is UringAbi.IORING_OP_SEND or UringAbi.IORING_OP_SENDMSG) Sends += one;
        if (opcode == UringAbi.IORING_OP_RECV) Receives += one;
    }
}
