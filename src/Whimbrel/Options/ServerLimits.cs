namespace Whimbrel;

/// <summary>Limits of a server and of its connections. Immutable.</summary>
public sealed class ServerLimits : ConnectionLimits
{
    internal const int MostConnections = 10_000_000;

    /// <summary>
    /// Maximum number of open connections; further ones are accepted, counted and closed at once. 1 to 10,000,000;
    /// default 100,000.
    /// </summary>
    public int Connections { get; init; } = 100_000;

    internal override void Check(OptionErrors errors)
    {
        base.Check(errors);
        errors.Range("Limits.Connections", Connections, 1, MostConnections);
    }
}
