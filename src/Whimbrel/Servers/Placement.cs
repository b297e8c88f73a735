namespace Whimbrel;

/// <summary>On which loop of the engine a <see cref="Server"/> puts an accepted connection.</summary>
public enum Placement
{
    /// <summary><see cref="AcceptingLoop"/> with <see cref="AcceptScheme.ListenerPerLoop"/>, else <see cref="RoundRobin"/>. The default.</summary>
    Auto,

    /// <summary>One loop after the other.</summary>
    RoundRobin,

    /// <summary>The loop with the fewest connections, of whatever server or client, counting those on their way to it. Among equals one after the other.</summary>
    LeastLoaded,

    /// <summary>The loop that accepted it: nothing is handed over.</summary>
    AcceptingLoop,
}
