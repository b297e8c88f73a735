namespace Whimbrel.Compat;

/// <summary>What the classes of the old APIs have no member for. Read when a server starts, a client connects or a UDP socket opens.</summary>
public static class CompatOptions
{
    /// <summary>
    /// Where callbacks run: on the thread pool, one at a time for each session or UDP socket, where they may block as the old libraries let them (the default); or on the loop of
    /// the connection or UDP socket, which costs less, and where nothing may block. The environment variable WHIMBREL_COMPAT_CALLBACKS=loop sets the latter.
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
}
