namespace Whimbrel.Connections;

/// <summary>
/// A fast open of one connection, until the peer has answered. It is writable until something is sent, and again with the answer: a session that
/// has nothing to say would wait for ever, so an empty send asks the peer all the same. Shutting down before the answer would break the attempt
/// off, and what went out with it: a FIN waits here. In an engine's slot; the loop's thread.
/// </summary>
internal struct DeferredOpen(bool isUnderWay)
{
    private bool _finishesLater;

    /// <summary>The peer has not answered.</summary>
    internal bool IsUnderWay { get; private set; } = isUnderWay;

    /// <summary>It is writable, or has ended by an error: then there is nothing to open, and receiving reports it. False when the answer is still to come.</summary>
    internal bool TryEnd(SocketCalls sockets, int fd, bool hasEnded)
    {
        if (!hasEnded && !sockets.OpenDeferred(fd)) return false;
        IsUnderWay = false;
        if (_finishesLater) sockets.ShutdownSend(fd);
        return true;
    }

    /// <summary>Sends FIN, when the peer has answered.</summary>
    internal void ShutdownSend(SocketCalls sockets, int fd)
    {
        if (IsUnderWay) _finishesLater = true;
        else sockets.ShutdownSend(fd);
    }
}
