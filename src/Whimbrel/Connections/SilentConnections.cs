namespace Whimbrel.Connections;

/// <summary>
/// Accepted connections without a complete ClientHello, the oldest first. They cost little more than a descriptor, so
/// they wait here and not among the handshakes. A list linked through the connections themselves, so that each step
/// takes constant time and no memory. Loop's thread only.
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

    /// <summary>Removes a connection; does nothing if it is not in the list.</summary>
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
