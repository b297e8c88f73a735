using Whimbrel.Simulation.Kernel;

namespace Whimbrel.Simulation.Uring;

// An operation that the simulated kernel has taken and not told the last completion of.
// Safe: the pointers are the engine's, which promised that they live until the last completion.
internal sealed unsafe class SimOperation
{
    internal ulong Mark;
    internal byte Opcode;
    internal SimDescriptor? Descriptor;
    internal byte* Address;
    internal int Length;
    internal uint Events;
    internal bool IsMultishot;

    // Bytes after which a multishot receive ends.
    internal long Left;

    // Its last completion is decided, but not told yet.
    internal bool IsEnded;

    // A cancel met it at work: it ends soon.
    internal bool MustEnd;

    // Pieces of a gathered send.
    internal (nint Base, int Length)[] Pieces = [];
    internal int PieceCount;

    // Of what is sent: it must not change while it is in flight.
    internal ulong Sum;

    internal void Reset()
    {
        Mark = 0;
        Descriptor = null;
        Address = null;
        Length = 0;
        Events = 0;
        IsMultishot = false;
        Left = long.MaxValue;
        IsEnded = false;
        MustEnd = false;
        PieceCount = 0;
        Sum = 0;
    }
}
