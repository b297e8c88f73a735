namespace Whimbrel.Connections;

/// <summary>
/// Accepted connections that have not sent a whole ClientHello, the oldest first: they cost a descriptor and little else, so they wait here and
/// not among the handshakes. A list through the connections themselves, so that each step takes the same time and no memory. Loop's thread only.
/// </summary>
internal sealed class SilentConnections
{
    private TlsTransport? _newest;

    internal TlsTransport? Oldest { get; private set; }

    internal int Count { get; private set; }

    internal void Add(TlsTransport link)
    {
        link.SilentBefore = _newest;
        if (_newest is null) Oldest = link;
        else _newest.SilentAfter = link;
        _newest = link;
        Count++;
    }

    /// <summary>Nothing when it is not in it.</summary>
    internal void Remove(TlsTransport link)
    {
        if (link.SilentBefore is null && !ReferenceEquals(Oldest, link)) return;
        if (link.SilentBefore is { } before) before.SilentAfter = link.SilentAfter;
        else Oldest = link.SilentAfter;
        if (link.SilentAfter is { } after) after.SilentBefore = link.SilentBefore;
        else _newest = link.SilentBefore;
        link.SilentBefore = link.SilentAfter = null;
        Count--;
    }
}
