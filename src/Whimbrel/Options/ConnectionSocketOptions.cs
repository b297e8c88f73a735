using System.Net;
using System.Net.Sockets;

namespace Whimbrel;

/// <summary>
/// Socket options of a server or client. Immutable. At its default an option changes nothing and never fails. A set
/// option that the kernel, the engine or one of the addresses does not support fails the start, with all such mistakes
/// together. The memory engine has no sockets: it checks the ranges, so that production options can be tested, and
/// ignores the rest.
/// </summary>
public abstract class ConnectionSocketOptions
{
    private protected ConnectionSocketOptions()
    {
    }

    /// <summary>TCP_NODELAY: sends without delay. Default true; the library combines small sends on its own.</summary>
    public bool NoDelay { get; init; } = true;

    /// <summary>SO_KEEPALIVE: enables TCP keep-alive probes. Default false.</summary>
    public bool KeepAlive { get; init; }

    /// <summary>
    /// TCP_KEEPIDLE: idle time before the first keep-alive probe. Whole seconds, 1 s to 32,767 s; default zero, the
    /// system's value (Linux: 2 hours). Needs <see cref="KeepAlive"/>.
    /// </summary>
    public TimeSpan KeepAliveTime { get; init; }

    /// <summary>
    /// TCP_KEEPINTVL: interval between keep-alive probes. Whole seconds, 1 s to 32,767 s; default zero, the system's
    /// value (Linux: 75 s). Needs <see cref="KeepAlive"/>.
    /// </summary>
    public TimeSpan KeepAliveInterval { get; init; }

    /// <summary>
    /// TCP_KEEPCNT: number of unanswered keep-alive probes after which the connection has timed out. 1 to 127; default
    /// 0, the system's value (Linux: 9). Needs <see cref="KeepAlive"/>.
    /// </summary>
    public int KeepAliveCount { get; init; }

    /// <summary>
    /// SO_RCVBUF in bytes; default 0, chosen and adapted by the system. Linux doubles the value and limits it to
    /// net.core.rmem_max without an error.
    /// </summary>
    public int ReceiveBufferBytes { get; init; }

    /// <summary>
    /// SO_SNDBUF in bytes; default 0, chosen and adapted by the system. Linux doubles the value and limits it to
    /// net.core.wmem_max without an error.
    /// </summary>
    public int SendBufferBytes { get; init; }

    /// <summary>
    /// TCP_USER_TIMEOUT: maximum time that sent bytes may stay unacknowledged; then the connection has timed out. Whole
    /// milliseconds, 1 ms to 24 days; default zero, the system's value. Linux.
    /// </summary>
    public TimeSpan UserTimeout { get; init; }

    /// <summary>
    /// IP_TOS and IPV6_TCLASS: traffic class of the packets, as DSCP x 4. Multiples of 4 up to 252, because the lowest
    /// two bits belong to the system; default 0, unchanged. Linux.
    /// </summary>
    public int TypeOfService { get; init; }

    /// <summary>
    /// SO_MARK: mark on the packets for firewall and routing rules. Default 0, unchanged. Needs the capability
    /// CAP_NET_ADMIN or CAP_NET_RAW. Linux.
    /// </summary>
    public uint Mark { get; init; }

    /// <summary>
    /// SO_BUSY_POLL: time that a receive polls the network device before it waits. Whole microseconds, 1 us to 1 s;
    /// default zero, unchanged. Needs the capability CAP_NET_ADMIN. Linux.
    /// </summary>
    public TimeSpan BusyPoll { get; init; }

    /// <summary>
    /// SO_BINDTODEVICE: name of the only network device to use, such as "eth0"; 1 to 15 bytes. Default null: any.
    /// Linux; before 5.7 it needs the capability CAP_NET_RAW.
    /// </summary>
    public string? BindToDevice { get; init; }

    /// <summary>
    /// IP_FREEBIND: allows binding to an address that the machine does not have, or not yet: a server's end point, or
    /// <see cref="ClientSocketOptions.LocalEndPoint"/> of a client. Default false. Linux.
    /// </summary>
    public bool FreeBind { get; init; }

    /// <summary>
    /// Callback for every socket of this server or client: before a listener is bound, before a connect, and for each
    /// accepted connection before its session is created. For options without a property here. Runs on a loop's thread;
    /// must not block. The socket's options are already set and may be changed. An exception fails the start or the
    /// connect with category <see cref="ErrorCategory.User"/>; for an accepted connection it closes that connection and
    /// goes to the server's OnError. Not called by the memory engine. Default null.
    /// </summary>
    public Action<NewSocket>? OnCreated { get; init; }

    /// <summary>
    /// Function that creates the sockets of listeners and clients. It gets the address to bind or connect, and returns
    /// a new stream socket of that family, neither bound nor connected, with its own options. The options above are
    /// also set on it. The object is then <see cref="Server.Socket"/> or <see cref="Session.Socket"/>, and is disposed
    /// with its listener or connection. Runs on a loop's thread; must not block. An exception, or an unusable socket,
    /// fails the start or the connect with category <see cref="ErrorCategory.User"/>. Not called by the memory engine.
    /// Default null: the library creates the sockets.
    /// </summary>
    public Func<EndPoint, Socket>? Create { get; init; }
}
