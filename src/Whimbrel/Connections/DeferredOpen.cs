namespace Whimbrel.Connections;

/// <summary>
/// A fast open of one connection, until the peer has answered. The socket is writable until something is sent, and
/// again after the answer. A session that sends nothing would wait forever, so an empty send starts the connect.
/// Shutting down before the answer would abort the connect and the data sent with it, so a FIN waits here. Part of an
/// engine's slot; the loop's thread.
/// </summary>
internal struct DeferredOpen(bool isUnderWay)
{
    private bool _finishesLater;

    /// <summary>True until the peer has answered.</summary>
    internal bool IsUnderWay { get; private set; } = isUnderWay;

    /// <summary>
    /// Called when the socket is writable, or has failed; then receiving reports the error. Returns false if the answer
    /// is still to come.
    /// </summary>
    internal bool TryEnd(SocketCalls sockets, int fd, bool hasEnded)
    {
        if (!hasEnded && !sockets.OpenDeferred(fd)) return false;
        IsUnderWay = false;
        if (_finishesLater) sockets.ShutdownSend(fd);
        return true;
    }

    /// <summary>Sends FIN as soon as the peer has answered.</summary>
    internal void ShutdownSend(SocketCalls sockets, int fd)
    {
        if (IsUnderWay) _finishesLater = true;
        else sockets.ShutdownSend(fd);
    }
}
