namespace Whimbrel.Simulation.Kernel;

// What is planned for one end of a connection.
internal sealed class EndPlan
{
    internal EndStyle Style;
    internal int ToSend;
    internal int PieceBytes;

    // What the other will have sent when it has sent all.
    internal int Expected;

    // Ends it with a reset, after so many steps; negative: never.
    internal int AbortAfter = -1;
    internal bool IsSlow;
    internal bool SendsFromElsewhere;
}
