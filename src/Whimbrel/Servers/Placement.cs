namespace Whimbrel;

/// <summary>Rule by which a <see cref="Server"/> assigns accepted connections to loops.</summary>
public enum Placement
{
    /// <summary>
    /// <see cref="AcceptingLoop"/> with <see cref="AcceptScheme.ListenerPerLoop"/>, otherwise <see cref="RoundRobin"/>.
    /// The default.
    /// </summary>
    Auto,

    /// <summary>The loops take turns.</summary>
    RoundRobin,

    /// <summary>
    /// The loop with the fewest connections, of all servers and clients, including those being passed to it. Loops with
    /// the same number take turns.
    /// </summary>
    LeastLoaded,

    /// <summary>The loop that accepted the connection, so that it is not passed to another one.</summary>
    AcceptingLoop,
}
