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
        TlsLink link = connection.Silence!;
        link.IsSilent = true;
        link.SilentBefore = _newest;
        if (_newest is null) Oldest = connection;
        else _newest.Silence!.SilentAfter = connection;
        _newest = connection;
        Count++;
    }

    /// <summary>Nothing when it is not in it.</summary>
    internal void Remove(Connection connection)
    {
        if (connection.Silence is not { IsSilent: true } link) return;
        if (link.SilentBefore is { } before) before.Silence!.SilentAfter = link.SilentAfter;
        else Oldest = link.SilentAfter;
        if (link.SilentAfter is { } after) after.Silence!.SilentBefore = link.SilentBefore;
        else _newest = link.SilentBefore;
        link.SilentBefore = link.SilentAfter = null;
        link.IsSilent = false;
        Count--;
    }
}
