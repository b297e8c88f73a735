using System.Net;

namespace Whimbrel;

/// <summary>Information for a factory about the connection that it creates a session for.</summary>
public sealed class SessionContext
{
    internal SessionContext(Server? server, Client? client, Loop loop, EndPoint? local, EndPoint? remote,
        TlsInfo? tls = null)
    {
        Server = server;
        Client = client;
        Loop = loop;
        LocalEndPoint = local;
        RemoteEndPoint = remote;
        Tls = tls;
    }

    /// <summary>The server that accepted the connection, or null for an outgoing connection.</summary>
    public Server? Server { get; }

    /// <summary>The client that connects, or null for an accepted connection.</summary>
    public Client? Client { get; }

    /// <summary>The loop on which the session will run.</summary>
    public Loop Loop { get; }

    /// <summary>Address of the listener, or, for a client, the requested local address.</summary>
    public EndPoint? LocalEndPoint { get; }

    /// <summary>Address of the peer; null for a Unix peer without a name.</summary>
    public EndPoint? RemoteEndPoint { get; }

    /// <summary>
    /// Result of the TLS handshake: application protocol, server name, client certificate. Null on a connection that
    /// begins without TLS, and for a client, because its session is created before the connect.
    /// </summary>
    public TlsInfo? Tls { get; }

    /// <summary>The services of <see cref="ConnectionOptions.Services"/>, or null.</summary>
    public IServiceProvider? Services => Server?.Options.Services ?? Client?.Options.Services;
}
