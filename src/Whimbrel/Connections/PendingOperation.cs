namespace Whimbrel.Connections;

/// <summary>
/// An operation in progress on a loop that may have no handle there, such as a connect that resolves a name. The loop
/// lists it, so that its end can stop it. Loop's thread only.
/// </summary>
internal abstract class PendingOperation
{
    internal PendingOperation? NextOfLoop { get; set; }

    internal PendingOperation? PreviousOfLoop { get; set; }

    /// <summary>Called when the loop ends: ends the operation, which must not start anything.</summary>
    internal abstract void Stop();
}
