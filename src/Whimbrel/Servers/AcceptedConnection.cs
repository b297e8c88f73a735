using System.Net;
using Whimbrel.Connections;

namespace Whimbrel;

/// <summary>A connection that was accepted and has no session yet: what <see cref="ServerOptions.Admit"/> and <see cref="ServerOptions.ChooseLoop"/> decide about.</summary>
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

    /// <summary>The server that accepted it.</summary>
    public Server Server { get; }

    /// <summary>The loop that accepted it, on whose thread the question is asked.</summary>
    public Loop Loop { get; }

    /// <summary>The address it came to: the listener's, or for a listener at all addresses the one that the peer dialled.</summary>
    public EndPoint LocalEndPoint { get; }

    /// <summary>The peer; null for a Unix peer without a name. Made anew at each call.</summary>
    public EndPoint? RemoteEndPoint => _peer.ToEndPoint();
}
