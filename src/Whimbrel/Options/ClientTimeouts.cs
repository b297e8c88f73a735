namespace Whimbrel;

/// <summary>Time limits of a client and of its connections. Immutable.</summary>
public sealed class ClientTimeouts : ConnectionTimeouts
{
    /// <summary>
    /// Maximum time for a connect, over all its addresses and including name resolution. 1 ms to 1 hour; default 15 s.
    /// </summary>
    public TimeSpan Connect { get; init; } = TimeSpan.FromSeconds(15);

    internal override void Check(OptionErrors errors)
    {
        base.Check(errors);
        errors.Range("Timeouts.Connect", Connect, TimeSpan.FromMilliseconds(1), TimeSpan.FromHours(1));
    }
}
