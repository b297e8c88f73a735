using System.Net;

namespace Whimbrel;

/// <summary>Socket options of a client. Immutable.</summary>
public sealed class ClientSocketOptions : ConnectionSocketOptions
{
    /// <summary>Local address to connect from, or null for the system's choice.</summary>
    public EndPoint? LocalEndPoint { get; init; }

    /// <summary>
    /// TCP_FASTOPEN_CONNECT: to a server known from an earlier connection, the data that OnConnected sends leaves with
    /// the SYN. OnConnected then runs before the server has answered, and a refusal ends a connection instead of
    /// failing the connect. The data may arrive twice (RFC 7413), so use it for repeatable requests only. Default
    /// false. Linux, with bit 1 set in net.ipv4.tcp_fastopen.
    /// </summary>
    public bool FastOpen { get; init; }
}
