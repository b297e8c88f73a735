namespace Whimbrel.Simulation.Uring;

// Sizes of the rings of a scenario.
internal sealed record RingShape(int Loops, uint SubmitEntries, uint CompleteEntries, int Buffers, int BufferBytes,
    bool CanLimitReceive);
