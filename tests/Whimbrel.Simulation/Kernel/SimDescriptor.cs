using System.Net;
using Whimbrel.Linux;
using Whimbrel.Testing;

namespace Whimbrel.Simulation.Kernel;

// What a descriptor number stands for.
internal sealed class SimDescriptor
{
    internal int Number { get; set; }

    internal MemorySocket? Socket { get; init; }

    internal MemoryListening? Listening { get; init; }

    // Nobody of ours has it; somebody may have a duplicate.
    internal bool IsClosed { get; set; }

    // Of an eventfd.
    internal bool IsWake { get; init; }

    internal ulong WakeCount { get; set; }

    // Of a dial that is under way: when the answer comes (never: long.MaxValue), and which.
    internal long AnswerAtMs { get; set; }

    internal int DialError { get; init; }

    // A dial or a fast open whose answer is to come.
    internal bool IsAnsweredAt(long nowMs) => AnswerAtMs <= nowMs;

    // A fast open: the peer is asked with the first bytes.
    internal bool IsAsked { get; set; } = true;

    internal IPEndPoint? Local { get; init; }

    // Calls made on it, and how many there had been when epoll told of it last.
    internal int Calls { get; set; }

    internal int CallsWhenTold { get; set; } = -1;

    // So much that a kernel says so: a third, or a send that would fail.
    internal bool HasRoom => IsWriteShut || Socket!.IsReset || Socket.Other.IsClosed || Socket.Other.Room > 0 && 3 * Socket.Other.Room >= Socket.Other.Available;

    // A receive would give something: bytes, the end or an error.
    internal bool IsReadable => IsReadShut || Socket!.IsReadable;

    // What a receive would find now; and what the last event of a poll told of.
    internal (int Bytes, int Ends) Input => (Socket!.Available, (Socket.HasFinish ? 1 : 0) | (Socket.IsReset ? 2 : 0) | (IsReadShut ? 4 : 0));

    internal (int Bytes, int Ends) PollSaw { get; set; }

    internal bool HasNews => Input.Bytes > PollSaw.Bytes || Input.Ends != PollSaw.Ends;

    // Urgent bytes came: a receive may stop before them.
    internal bool IsUrgent { get; set; }

    internal bool IsNonBlocking { get; set; }

    internal bool ResetsOnClose { get; set; }

    internal bool IsReadShut { get; set; }

    internal bool IsWriteShut { get; set; }

    // The reset was told once: from then on a receive finds the end, as in Linux.
    internal bool ResetWasTold { get; set; }

    // Operations of any ring that refer to it; and those that send or receive.
    internal int InFlight { get; private set; }

    internal int Sends { get; private set; }

    internal int Receives { get; private set; }

    // Of an epoll set: what is in it.
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
