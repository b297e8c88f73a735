namespace Whimbrel.Compat;

/// <summary>What the classes of the old APIs have no member for. Read when a server starts, a client connects or a UDP socket opens.</summary>
public static class CompatOptions
{
    /// <summary>
    /// Where callbacks run: on the thread pool, one at a time for each session or UDP socket, where they may block as the old libraries let them (the default); or on the loop of
    /// the connection or UDP socket, which costs less, and where nothing may block; a datagram that waits already when a thread of the pool calls
    /// <c>ReceiveAsync</c> is delivered on the pool then, too. The environment variable WHIMBREL_COMPAT_CALLBACKS=loop sets the latter.
    /// </summary>
    public static Scheduling Callbacks { get; set; } =
        string.Equals(Environment.GetEnvironmentVariable("WHIMBREL_COMPAT_CALLBACKS"), "loop", StringComparison.OrdinalIgnoreCase) ? Scheduling.Inline : Scheduling.ThreadPool;

    /// <summary>The engine of NetCoreServer's classes, which know none. Null (the default): <see cref="Whimbrel.Engine.Default"/>.</summary>
    public static Engine? Engine { get; set; }

    /// <summary>
    /// Whether the old HTTP servers refuse a request of HTTP/1.1 without the field Host, with 400. False by default: no HTTP client of NetCoreServer sends one.
    /// Read for each connection when it sends its first byte. The native HTTP server always requires it.
    /// </summary>
    public static bool RequireHost { get; set; }

    /// <summary>Longest time that a stop, a disconnect, or a restart waits for what is queued to leave. Default 5 s.</summary>
    public static TimeSpan DrainTimeout { get; set; } = TimeSpan.FromSeconds(5);

    /// <summary>
    /// Time without progress after which a peer is disconnected: bytes are queued for it, and it takes none. OnError gets TimedOut then (CSharpServer: system 110). It replaces a limit of
    /// the queue for sessions and clients whose OptionSendBufferLimit is 0. 100 ms to 7 days; zero: never. Default 1 minute. The original waits for ever.
    /// </summary>
    public static TimeSpan StallTimeout { get; set; } = TimeSpan.FromMinutes(1);

    /// <summary>
    /// Number of bytes that all sessions and clients together may have queued (TCP, TLS, Unix sockets). Above it, a send to a connection that has more than 256 KiB queued waits until that
    /// connection has at most 256 KiB queued or has ended. On a loop a send must not wait: there SendAsync returns false, and OnError gets NoBufferSpaceAvailable. Read by each
    /// send. Default: an eighth of the memory that the process may use, at least 64 MiB and at most 512 MiB. The original has no limit.
    /// </summary>
    public static long SendBudgetBytes { get; set; } = Whimbrel.Compat.Links.SendBudget.Default;
}
