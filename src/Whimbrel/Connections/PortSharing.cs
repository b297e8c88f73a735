namespace Whimbrel.Connections;

/// <summary>Whether a listener has its TCP port alone or together with the other loops' listeners of its server.</summary>
internal enum PortSharing
{
    /// <summary>Alone, unless the user asked for <see cref="ServerOptions.ReusePort"/>.</summary>
    None,

    /// <summary>The first of several: takes the port alone, so that one in use is noticed, and lets others in only when it listens.</summary>
    Opens,

    /// <summary>One more at a port that the first has taken.</summary>
    Joins,
}
