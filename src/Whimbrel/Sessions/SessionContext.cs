using System.Net;

namespace Whimbrel;

/// <summary>What a factory is told about the connection that it makes a session for.</summary>
public sealed class SessionContext
{
    internal SessionContext(Server? server, Client? client, Loop loop, EndPoint? local, EndPoint? remote, TlsInfo? tls = null)
    {
        Server = server;
        Client = client;
        Loop = loop;
        LocalEndPoint = local;
        RemoteEndPoint = remote;
        Tls = tls;
    }

    /// <summary>The server that accepted, or null for a dialled connection.</summary>
    public Server? Server { get; }

    /// <summary>The client that dials, or null for an accepted connection.</summary>
    public Client? Client { get; }

    /// <summary>The loop on which the session will live.</summary>
    public Loop Loop { get; }

    /// <summary>The listener's address, or for a client the one asked for.</summary>
    public EndPoint? LocalEndPoint { get; }

    /// <summary>The peer; null for a Unix peer without a name.</summary>
    public EndPoint? RemoteEndPoint { get; }

    /// <summary>
    /// What the TLS handshake agreed on: application protocol, the name that was asked for, the client's certificate. Null on a connection that
    /// begins plain, and for a client, whose session is made before the dial.
    /// </summary>
    public TlsInfo? Tls { get; }

    /// <summary>The services of <see cref="ConnectionOptions.Services"/>, or null.</summary>
    public IServiceProvider? Services => Server?.Options.Services ?? Client?.Options.Services;
}
