using System.Net;
using Whimbrel.Connections;

namespace Whimbrel;

/// <summary>
/// An accepted connection that has no session yet: the argument of <see cref="AcceptOptions.Admit"/> and
/// <see cref="AcceptOptions.ChooseLoop"/>.
/// </summary>
public readonly struct AcceptedConnection
{
    private readonly PeerAddress _peer;

    internal AcceptedConnection(Server server, Loop loop, EndPoint localEndPoint, PeerAddress peer)
    {
        Server = server;
        Loop = loop;
        LocalEndPoint = localEndPoint;
        _peer = peer;
    }

    /// <summary>The server that accepted the connection.</summary>
    public Server Server { get; }

    /// <summary>The loop that accepted the connection, and on whose thread the callback runs.</summary>
    public Loop Loop { get; }

    /// <summary>
    /// Local address of the connection: the listener's or, for a wildcard listener, the one that the peer connected to.
    /// </summary>
    public EndPoint LocalEndPoint { get; }

    /// <summary>Address of the peer; null for a Unix peer without a name. Each call creates a new object.</summary>
    public EndPoint? RemoteEndPoint => _peer.ToEndPoint();
}
