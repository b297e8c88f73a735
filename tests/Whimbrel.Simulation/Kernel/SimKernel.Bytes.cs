using Whimbrel.Linux;
using Whimbrel.Testing;

namespace Whimbrel.Simulation.Kernel;

// Receive and send, as an operation of a ring or as a call. Safe: pieces are the engine's memory, which it keeps valid
// for the call or until the last completion.
internal sealed unsafe partial class SimKernel
{
    // A reset of the connection, the error of a receive that fails by itself, or out of memory; otherwise 0.
    internal int FailReceive(MemorySocket socket)
    {
        if (HasNoMemory)
        {
            Refusals++;
            return Errno.ENOMEM;
        }

        if (!Chance(Faults.Fatal, "receive that fails")) return 0;
        if (!Dice.Chance(700)) return Dice.Pick(Errno.EIO, Errno.ETIMEDOUT, Errno.EPROTO);
        socket.Reset();
        return 0;
    }

    // As in Linux: the next call finds the end of the stream, even before this completion is reported.
    internal static int TellReset(SimDescriptor descriptor)
    {
        descriptor.ResetWasTold = true;
        return -Errno.ECONNRESET;
    }

    // By a call: number of bytes, 0 for the end, or minus the error number.
    internal int Receive(SimDescriptor descriptor, Span<byte> into)
    {
        if (descriptor.Socket is not { } socket) return -Errno.ECONNREFUSED;
        if (FailReceive(socket) is not 0 and int error) return -error;
        if (!descriptor.IsReadable)
        {
            descriptor.IsUrgent = false;
            return -Errno.EAGAIN;
        }

        if (socket.Available == 0)
        {
            return socket.IsReset && !descriptor.ResetWasTold ? TellReset(descriptor) : 0;
        }

        // All available bytes before urgent bytes, where a receive stops.
        int most = into.Length;
        if (descriptor.IsUrgent && Dice.Chance(500)) most = Dice.Next(1, most);
        int count = socket.Read(into[..most]);
        descriptor.PollSaw = descriptor.PollSaw with { Bytes = Math.Min(descriptor.PollSaw.Bytes, socket.Available) };
        Trace.Add("receive-now", descriptor.Number, count);
        return count;
    }

    // Number of accepted bytes, or minus the error number: EAGAIN without space.
    internal int Send(SimDescriptor descriptor, ReadOnlySpan<(nint Base, int Length)> pieces, int most)
    {
        if (descriptor.Socket is not { } socket) return -Errno.ECONNREFUSED;
        if (Chance(Faults.Fatal, "send that fails"))
        {
            if (Dice.Chance(700)) socket.Reset();
            else return -Dice.Pick(Errno.EIO, Errno.ETIMEDOUT, Errno.EHOSTUNREACH);
        }

        if (!descriptor.IsAsked)
        {
            Ask(descriptor);
            if (Dice.Chance(500)) return -Errno.EINPROGRESS;
        }

        if (descriptor.IsWriteShut || socket.IsReset || socket.Other.IsClosed)
        {
            if (socket.IsReset && !descriptor.ResetWasTold) return TellReset(descriptor);
            if (!descriptor.IsWriteShut) socket.Write([0]);
            return -Errno.EPIPE;
        }

        if (socket.Other.Room == 0) return -Errno.EAGAIN;
        if (most > 1 && Chance(Faults.Short, "short send")) most = Dice.Next(1, most);
        int sent = 0;
        foreach ((nint at, int all) in pieces)
        {
            int length = Math.Min(most - sent, all);
            int taken = socket.Write(new ReadOnlySpan<byte>((void*)at, length));
            sent += taken;
            if (sent == most || taken < length) break;
        }

        Trace.Add("send", descriptor.Number, sent);
        return sent;
    }
}
