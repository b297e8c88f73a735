namespace Whimbrel.Dashboard;

/// <summary>Numbers of one connection at a sample. Rates are zero in its first sample.</summary>
internal struct Row
{
    /// <summary><see cref="Server"/> of a connection that a client has opened.</summary>
    internal const long OfClient = 0;

    internal Session Session;

    /// <summary>Number of its server (<see cref="Whimbrel.Server.Host.Id"/>), or <see cref="OfClient"/>.</summary>
    internal long Server;

    internal long Received;
    internal long Sent;
    internal long Pending;
    internal double InPerSecond;
    internal double OutPerSecond;

    /// <summary>
    /// Seconds that the send queue needs at its current rate; infinite if nothing is sent; 0 for an empty queue.
    /// </summary>
    internal readonly double DrainSeconds =>
        Pending == 0 ? 0 : OutPerSecond > 0 ? Pending / OutPerSecond : double.PositiveInfinity;
}
