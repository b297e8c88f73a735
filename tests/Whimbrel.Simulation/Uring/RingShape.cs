namespace Whimbrel.Simulation.Uring;

// How large the rings of a scenario are.
internal sealed record RingShape(int Loops, uint SubmitEntries, uint CompleteEntries, int Buffers, int BufferBytes, bool CanLimitReceive);
