namespace Whimbrel.Compat;

/// <summary>Settings that the classes of the original APIs have no member for. Read when a server starts, a client
/// connects or a UDP socket opens, unless a member says otherwise.</summary>
public static class CompatOptions
{
    private static int s_webSocketMessageLimitBytes = NetCoreServer.WebSocket.DefaultMessageBytes;

    /// <summary>
    /// Thread of the callbacks. Thread pool (default): one at a time for each session or UDP socket, and they may
    /// block. Inline: on the loop of the connection or UDP socket. This costs less CPU, and callbacks must not block.
    /// With Inline, a datagram that is already available when a pool thread calls <c>ReceiveAsync</c> is delivered on
    /// the pool.
    /// The environment variable WHIMBREL_COMPAT_CALLBACKS=loop selects Inline.
    /// </summary>
    public static Scheduling Callbacks { get; set; } =
        string.Equals(Environment.GetEnvironmentVariable("WHIMBREL_COMPAT_CALLBACKS"), "loop",
            StringComparison.OrdinalIgnoreCase) ? Scheduling.Inline : Scheduling.ThreadPool;

    /// <summary>Engine for the classes of NetCoreServer, which have no such setting. Null (default): <see
    /// cref="Whimbrel.Engine.Default"/>.</summary>
    public static Engine? Engine { get; set; }

    /// <summary>
    /// If true, HTTP servers reject HTTP/1.1 requests without a Host header with 400. Default false, because the HTTP
    /// clients of NetCoreServer send none. Read when a connection sends its first byte. The native HTTP server always
    /// requires Host.
    /// </summary>
    public static bool RequireHost { get; set; }

    /// <summary>
    /// Largest body of a request to an HTTP server, in bytes; a larger one gets 413 and the end of the connection. 0 to
    /// 1 GiB; default 30,000,000. Read when a server is created. The original has no limit.
    /// </summary>
    /// <exception cref="ArgumentOutOfRangeException">The value is out of range.</exception>
    public static int HttpBodyLimitBytes
    {
        get => (int)HttpLimits.OfServers.BodyLimitBytes;
        set
        {
            ArgumentOutOfRangeException.ThrowIfNegative(value);
            ArgumentOutOfRangeException.ThrowIfGreaterThan(value, HttpLimits.MostBodyBytes);
            HttpLimits.SetBodyBytes(value);
        }
    }

    /// <summary>
    /// Largest message that a WebSocket receives, in bytes; a larger one ends it with 1009. 1 to 1 GiB; default 16 MiB.
    /// Read when a WebSocket opens. The original has no limit.
    /// </summary>
    /// <exception cref="ArgumentOutOfRangeException">The value is out of range.</exception>
    public static int WebSocketMessageLimitBytes
    {
        get => Volatile.Read(ref s_webSocketMessageLimitBytes);
        set
        {
            ArgumentOutOfRangeException.ThrowIfNegativeOrZero(value);
            ArgumentOutOfRangeException.ThrowIfGreaterThan(value, NetCoreServer.WebSocket.MostMessageBytes);
            Volatile.Write(ref s_webSocketMessageLimitBytes, value);
        }
    }

    /// <summary>Longest time that a stop, a disconnect or a restart waits for queued data to be sent. Default 5
    /// s.</summary>
    public static TimeSpan DrainTimeout { get; set; } = TimeSpan.FromSeconds(5);

    /// <summary>
    /// Time without progress after which a peer is disconnected: data is queued for it, and it accepts none. OnError
    /// then gets TimedOut (CSharpServer: system 110). It replaces the queue limit for sessions and clients whose
    /// OptionSendBufferLimit is 0. It is also the longest time of a TLS handshake of NetCoreServer's classes, at
    /// most 10 minutes.
    /// From 100 ms to 7 days; zero disables it. Default 1 minute. The original waits without a limit.
    /// </summary>
    public static TimeSpan StallTimeout { get; set; } = TimeSpan.FromMinutes(1);

    /// <summary>
    /// Number of bytes that all sessions and clients together may have queued (TCP, TLS, Unix sockets). Above it, a
    /// send on a connection with more than 256 KiB queued waits until the connection has at most 256 KiB queued, or has
    /// ended. On a loop a send must not wait: SendAsync returns false, and OnError gets NoBufferSpaceAvailable.
    /// Read by each send. Default: an eighth of the memory available to the process, from 64 MiB to 512 MiB. The
    /// original has no limit.
    /// </summary>
    public static long SendBudgetBytes { get; set; } = Whimbrel.Compat.Links.SendBudget.Default;
}
