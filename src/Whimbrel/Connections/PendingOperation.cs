namespace Whimbrel.Connections;

/// <summary>
/// Something under way on a loop that may have no resident there, such as a dial that looks a name up. The loop knows it,
/// so that its end finds it. Loop's thread only.
/// </summary>
internal abstract class PendingOperation
{
    internal PendingOperation? NextOfLoop { get; set; }

    internal PendingOperation? PreviousOfLoop { get; set; }

    /// <summary>The loop ends: this must end too, and not begin anything.</summary>
    internal abstract void Stop();
}
