namespace Whimbrel.Connections;

/// <summary>
/// Whether a listener has its TCP port alone, or shares it with the other loops' listeners of its server.
/// </summary>
internal enum PortSharing
{
    /// <summary>Alone, unless the user has set <see cref="ServerSocketOptions.ReusePort"/>.</summary>
    None,

    /// <summary>
    /// First of several listeners: binds the port alone, so that a port in use is detected, and permits others when it
    /// listens.
    /// </summary>
    Opens,

    /// <summary>Further listener at a port that the first has bound.</summary>
    Joins,
}
