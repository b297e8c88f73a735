using Whimbrel.Buffers;
using Whimbrel.Connections;
using Whimbrel.Linux;

namespace Whimbrel.Simulation.Uring;

// The calls on real sockets with fault injection: some fail without being made, some are made with fewer bytes. Safe:
// pointers are passed on to the calls.
internal sealed unsafe class InjectingSockets(InjectionPlan plan) : SocketCalls
{
    internal override int Send(int fd, byte* bytes, int length) =>
        plan.SendsNow(ref length) is not 0 and int error ? -error : base.Send(fd, bytes, length);

    internal override int Send(int fd, IoVector* pieces, int count)
    {
        int length = 0;
        for (int i = 0; i < count; i++) length += (int)pieces[i].Length;
        if (plan.SendsNow(ref length) is not 0 and int error) return -error;
        IoVector* part = stackalloc IoVector[count];
        int used = 0;
        for (int left = length; left > 0; used++)
        {
            part[used] = pieces[used];
            part[used].Length = Math.Min(pieces[used].Length, (nuint)left);
            left -= (int)part[used].Length;
        }

        return base.Send(fd, part, used);
    }

    internal override long SendFile(int fd, Block file)
    {
        int length = file.Length;
        return plan.SendsNow(ref length) is not 0 and int error ? -error : base.SendFile(fd, file);
    }

    internal override int Receive(int fd, byte* buffer, int length) =>
        plan.ReceivesNow() is not 0 and int error ? -error : base.Receive(fd, buffer, length);

    // Started by an empty send, which accepts nothing regardless of the plan.
    internal override bool OpenDeferred(int fd)
    {
        byte none;
        return base.Send(fd, &none, 0) >= 0;
    }
}
