namespace Whimbrel.Tool.Bench;

/// <summary>Protocol of a load: what is sent, and which answer is expected.</summary>
internal enum BenchProtocol
{
    /// <summary>Every byte comes back.</summary>
    Tcp,

    /// <summary>Every byte comes back, over TLS.</summary>
    Tls,

    /// <summary>Every binary message of a WebSocket comes back.</summary>
    Ws,

    /// <summary>GET requests, one at a time on each connection.</summary>
    Http,

    /// <summary>Every datagram comes back.</summary>
    Udp,
}
