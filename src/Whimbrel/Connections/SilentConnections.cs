namespace Whimbrel.Connections;

/// <summary>
/// Accepted connections that have not sent a whole ClientHello, the oldest first: they cost a descriptor and little else, so they wait here and
/// not among the handshakes. A list through the connections themselves, so that each step takes the same time and no memory. Loop's thread only.
/// </summary>
internal sealed class SilentConnections
{
    private Connection? _newest;

    internal Connection? Oldest { get; private set; }

    internal int Count { get; private set; }

    internal void Add(Connection connection)
    {
        connection.IsSilent = true;
        connection.SilentBefore = _newest;
        if (_newest is null) Oldest = connection;
        else _newest.SilentAfter = connection;
        _newest = connection;
        Count++;
    }

    /// <summary>Nothing when it is not in it.</summary>
    internal void Remove(Connection connection)
    {
        if (!connection.IsSilent) return;
        if (connection.SilentBefore is { } before) before.SilentAfter = connection.SilentAfter;
        else Oldest = connection.SilentAfter;
        if (connection.SilentAfter is { } after) after.SilentBefore = connection.SilentBefore;
        else _newest = connection.SilentBefore;
        connection.SilentBefore = connection.SilentAfter = null;
        connection.IsSilent = false;
        Count--;
    }
}
