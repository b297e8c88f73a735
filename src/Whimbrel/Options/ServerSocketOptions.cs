namespace Whimbrel;

/// <summary>Socket options of a server: of its listeners and of the connections that they accept. Immutable.</summary>
public sealed class ServerSocketOptions : ConnectionSocketOptions
{
    /// <summary>
    /// Maximum number of connections that the kernel keeps ready to be accepted. 1 to 65,535, limited by the system's
    /// somaxconn; default 4,096.
    /// </summary>
    public int Backlog { get; init; } = 4096;

    /// <summary>Whether an IPv6 wildcard listener also accepts IPv4 connections. Default true.</summary>
    public bool DualMode { get; init; } = true;

    /// <summary>
    /// SO_REUSEADDR: allows listening while old connections of the port are still in TIME_WAIT. Default true. Ignored
    /// on Windows, where the option has another meaning; elsewhere the portable engine always sets it.
    /// </summary>
    public bool ReuseAddress { get; init; } = true;

    /// <summary>
    /// SO_REUSEPORT: allows several processes to listen on one port; the kernel distributes connections. Default false.
    /// Linux.
    /// </summary>
    public bool ReusePort { get; init; }

    /// <summary>
    /// SO_EXCLUSIVEADDRUSE: prevents other processes from taking the port by force. Default false. Windows; on other
    /// systems ports are exclusive unless both sides set <see cref="ReusePort"/>.
    /// </summary>
    public bool ExclusiveAddressUse { get; init; }

    /// <summary>
    /// Whether to delete a Unix path left over from a process that ended. Only sockets are deleted, and only if no
    /// process answers there. Default true.
    /// </summary>
    public bool RemoveStaleUnixPath { get; init; } = true;

    /// <summary>
    /// TCP_FASTOPEN: number of connections with data in their SYN that may wait for the end of their handshake. 1 to
    /// 65,535; default 0, off. Linux, with bit 2 set in net.ipv4.tcp_fastopen.
    /// </summary>
    public int FastOpenQueue { get; init; }

    /// <summary>
    /// TCP_DEFER_ACCEPT: accepts a connection only when its first bytes have arrived, or after this time. Whole
    /// seconds, which Linux rounds up to its steps of 1, 3, 7, 15, 31...; 1 s to 1 hour; default zero, off. Linux.
    /// </summary>
    public TimeSpan DeferAccept { get; init; }
}
