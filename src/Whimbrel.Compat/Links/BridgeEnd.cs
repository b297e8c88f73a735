using System.Net.Sockets;

namespace Whimbrel.Compat.Links;

/// <summary>What a native session tells its link, in the session's order.</summary>
internal sealed class BridgeEnd
{
    private readonly ServerLink? _server;
    private Link? _link;
    private bool _isTls;

    /// <summary>Of a client.</summary>
    internal BridgeEnd(Link link) => _link = link;

    /// <summary>Of a server: the link comes with the first callback, because the user's code that makes it may block.</summary>
    internal BridgeEnd(ServerLink server) => _server = server;

    /// <summary>The user's session overrides what only a <see cref="TellingBridge"/> is told. A client's bridge was made accordingly.</summary>
    internal bool WantsTelling => _server is not null && _link is { Owner: var owner } && (owner.WantsSent || owner.WantsEmpty);

    internal void Connecting(Session session)
    {
        if (_server is null) return;
        _link = _server.Create();
        _link.Accepted(session);
    }

    internal void Handshaking(Session session)
    {
        _isTls = true;
        _link!.Up(session, isTls: true);
        _link.Handshaking(session);
    }

    internal void Connected(Session session)
    {
        if (_isTls) _link!.Handshaked(session);
        else _link!.Up(session, isTls: false);
    }

    internal void Received(Session session, ReadOnlySpan<byte> data) => _link!.Received(session, data);

    internal void Disconnecting(Session session, CloseReason reason) => _link!.Leaving(session, reason);

    /// <summary>Also when there never was a connection.</summary>
    internal void Disconnected(Session session, CloseReason reason)
    {
        if (reason.Cause != CloseCause.HandedOver) _link?.Down(session, reason);
    }

    /// <summary>Where the user's code has not made a session, the server is told.</summary>
    internal void Threw()
    {
        if (_link is { } link) link.Threw();
        else _server?.Failed(SocketError.SocketError);
    }

    internal void Sent(long sent, long pending) => _link!.Sent(sent, pending);

    internal void Drained() => _link!.Drained();
}
