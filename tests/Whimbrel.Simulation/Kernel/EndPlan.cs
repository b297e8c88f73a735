namespace Whimbrel.Simulation.Kernel;

// The plan for one end of a connection.
internal sealed class EndPlan
{
    internal EndStyle Style;
    internal int ToSend;
    internal int PieceBytes;

    // Total number of bytes that the other end will send.
    internal int Expected;

    // Number of steps after which it resets the connection; negative: never.
    internal int AbortAfter = -1;
    internal bool IsSlow;
    internal bool SendsFromElsewhere;
}
