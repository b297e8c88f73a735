using Whimbrel.Simulation.Kernel;

namespace Whimbrel.Simulation.Uring;

// An operation that the simulated kernel has accepted, with its last completion not reported yet. Safe: the
// pointers are the engine's, which guarantees that they live until the last completion.
internal sealed unsafe class SimOperation
{
    internal ulong Mark;
    internal byte Opcode;
    internal SimDescriptor? Descriptor;
    internal byte* Address;
    internal int Length;
    internal uint Events;
    internal bool IsMultishot;

    // Number of bytes after which a multishot receive ends.
    internal long Left;

    // Its last completion is decided, but not reported yet.
    internal bool IsEnded;

    // A cancel found it running: it ends soon.
    internal bool MustEnd;

    // Pieces of a vectored send.
    internal (nint Base, int Length)[] Pieces = [];
    internal int PieceCount;

    // Checksum of the bytes to send, which must not change while they are in flight.
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
