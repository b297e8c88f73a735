using System.Net;
using System.Net.Sockets;

namespace Whimbrel;

/// <summary>
/// Options that servers and clients have for each of their connections. Plain data, validated once, at start.
/// </summary>
public abstract class ConnectionOptions
{
    internal const int LeastSendLimit = 4096;
    internal const int MostSendLimit = 1 << 30;

    /// <summary>
    /// The engine that serves the connections. Default null: <see cref="Whimbrel.Engine.Default"/>, which is shared and
    /// never disposed.
    /// </summary>
    public Engine? Engine { get; init; }

    /// <summary>Maximum number of bytes in a connection's send queue. 4 KiB to 1 GiB; default 1 MiB.</summary>
    public int SendLimitBytes { get; init; } = 1024 * 1024;

    /// <summary>
    /// Whether a message larger than <see cref="SendLimitBytes"/> is accepted while nothing is pending. A connection
    /// then queues at most the limit or one message, whichever is larger. Default false: <c>Send</c> throws for such a
    /// message, <c>SendAsync</c> sends it in parts, and a broadcast skips the member. A session may override it
    /// (<see cref="Session.AllowLargeMessages"/>).
    /// </summary>
    public bool AllowLargeMessages { get; init; }

    /// <summary>
    /// Policy when <see cref="SendLimitBytes"/> is reached. Default <see cref="SlowConsumer.Disconnect"/>.
    /// </summary>
    public SlowConsumer SlowConsumer { get; init; }

    /// <summary>
    /// Maximum number of bytes that a session may leave unconsumed. If it is reached and nothing is consumed, the
    /// connection is closed. 1 KiB to 1 GiB; default 1 MiB.
    /// </summary>
    public int UnreadLimitBytes { get; init; } = 1024 * 1024;

    /// <summary>
    /// Whether a connection is not read while its own send queue is above the high-water mark (contract 9). Default
    /// null: on for accepted connections, off for outgoing ones.
    /// </summary>
    public bool? BackPressure { get; init; }

    /// <summary>
    /// Threads that run the sessions' callbacks. Default <see cref="Whimbrel.Scheduling.Inline"/>: on their loop, where
    /// they must not block.
    /// </summary>
    public Scheduling Scheduling { get; init; }

    /// <summary>
    /// With <see cref="Whimbrel.Scheduling.ThreadPool"/>: replaces the thread pool for callbacks, so that they do not
    /// wait while all its threads are busy. It gets an item each time a session has work, and must call
    /// <see cref="IThreadPoolWorkItem.Execute"/> later, once, on any thread that is not a loop's. Called on loops and
    /// other threads; must not block. Items of different sessions may run at the same time; those of one session never
    /// overlap. If it throws, or runs the item inside the call, the pool runs the item and a diagnostic event is
    /// reported. If an item is dropped, its session stops working, and a stop waits for it up to its deadline. Stream
    /// handlers are always started on the pool. Default null: the pool.
    /// </summary>
    public Action<IThreadPoolWorkItem>? Dispatcher { get; init; }

    /// <summary>
    /// Maximum time that a closing connection may make no progress, without the peer accepting a byte, before it is
    /// reset. 10 ms to 1 hour; default 5 s.
    /// </summary>
    public TimeSpan DrainTimeout { get; init; } = TimeSpan.FromSeconds(5);

    /// <summary>
    /// Maximum total duration of a close, also if the peer accepts bytes all the time; then the connection is reset.
    /// <see cref="DrainTimeout"/> to 7 days. Default zero: ten times <see cref="DrainTimeout"/>, at least one minute.
    /// </summary>
    public TimeSpan DrainLimit { get; init; }

    internal TimeSpan DrainLimitOrDefault => DrainLimit > TimeSpan.Zero ? DrainLimit
        : DrainTimeout > TimeSpan.FromSeconds(6) ? DrainTimeout * 10
        : TimeSpan.FromMinutes(1);

    /// <summary>
    /// Time without any byte received or sent after which a connection is closed with cause
    /// <see cref="CloseCause.IdleTimeout"/>: never earlier, and at most a quarter later. Includes pauses. 100 ms to 7
    /// days; default zero, never.
    /// </summary>
    public TimeSpan IdleTimeout { get; init; }

    /// <summary>
    /// Time without received bytes after which a connection is closed with cause
    /// <see cref="CloseCause.ReceiveTimeout"/>: never earlier, and at most a quarter later. Runs only while the
    /// connection is read and has nothing to send. It does not run in a pause, under back-pressure, while callbacks on
    /// the pool have not consumed received data, or after the peer's end of stream, and starts again after those. For
    /// protocols with regular messages of the peer. A session that knows when data must arrive sets its own
    /// (<see cref="Session.ReceiveTimeout"/>). 100 ms to 7 days; default zero, never.
    /// </summary>
    public TimeSpan ReceiveTimeout { get; init; }

    /// <summary>
    /// Time during which the peer accepts no byte of pending data, after which a connection is aborted with cause
    /// <see cref="CloseCause.SendTimeout"/>: never earlier, and at most a quarter later. Does not run during a
    /// handshake or after a close, which have their own limits. 100 ms to 7 days; default zero, never: then
    /// <see cref="SendLimitBytes"/> ends connections with slow peers, and the kernel those with lost peers.
    /// </summary>
    public TimeSpan SendTimeout { get; init; }

    internal static readonly TimeSpan LeastTimeout = TimeSpan.FromMilliseconds(100);

    internal static readonly TimeSpan MostTimeout = TimeSpan.FromDays(7);

    /// <summary>
    /// Whether sends are counted in <see cref="ServerCounters.MessagesSent"/>. Costs about ten nanoseconds per send in
    /// a callback. Default false.
    /// </summary>
    public bool CountSends { get; init; }

    // ------------------------------------------------------------------ socket options
    // At its default an option changes nothing and never fails. A set option that the kernel, the engine or one of the
    // addresses does not support fails the start, with all such mistakes together. The memory engine has no sockets: it
    // checks the ranges, so that production options can be tested, and ignores the rest.

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
    /// IP_FREEBIND: allows binding to an address that the machine does not have, or not yet: a server's end point, or a
    /// client's LocalEndPoint. Default false. Linux.
    /// </summary>
    public bool FreeBind { get; init; }

    /// <summary>
    /// Callback for every socket of this server or client: before a listener is bound, before a connect, and for each
    /// accepted connection before its session is created. For options without a property here. Runs on a loop's thread;
    /// must not block. The socket's options are already set and may be changed. An exception fails the start or the
    /// connect with category <see cref="ErrorCategory.User"/>; for an accepted connection it closes that connection and
    /// goes to the server's OnError. Not called by the memory engine. Default null.
    /// </summary>
    public Action<NewSocket>? OnSocketCreated { get; init; }

    /// <summary>
    /// Function that creates the sockets of listeners and clients. It gets the address to bind or connect, and returns
    /// a new stream socket of that family, neither bound nor connected, with its own options. The options above are
    /// also set on it. The object is then <see cref="Server.Socket"/> or <see cref="Session.Socket"/>, and is disposed
    /// with its listener or connection. Runs on a loop's thread; must not block. An exception, or an unusable socket,
    /// fails the start or the connect with category <see cref="ErrorCategory.User"/>. Not called by the memory engine.
    /// Default null: the library creates the sockets.
    /// </summary>
    public Func<EndPoint, Socket>? CreateSocket { get; init; }

    /// <summary>
    /// Service provider passed to factories as <see cref="SessionContext.Services"/>. The library does not use it.
    /// </summary>
    public IServiceProvider? Services { get; init; }

    /// <summary>
    /// Callback for diagnostic events that concern this server or client. Any thread; must not block. Default null: the
    /// engine's.
    /// </summary>
    public Action<DiagnosticEvent>? OnDiagnosticEvent { get; init; }

    /// <summary>Returns a copy, so that later changes of shared objects have no effect.</summary>
    internal ConnectionOptions Clone() => (ConnectionOptions)MemberwiseClone();

    private protected void ValidateCommon(OptionErrors errors)
    {
        errors.Range(nameof(SendLimitBytes), SendLimitBytes, LeastSendLimit, MostSendLimit);
        errors.Range(nameof(UnreadLimitBytes), UnreadLimitBytes, 1024, 1 << 30);
        errors.Range(nameof(DrainTimeout), DrainTimeout, TimeSpan.FromMilliseconds(10), TimeSpan.FromHours(1));
        if (DrainLimit != TimeSpan.Zero)
            errors.Range(nameof(DrainLimit), DrainLimit, DrainTimeout, TimeSpan.FromDays(7));
        if (IdleTimeout != TimeSpan.Zero) errors.Range(nameof(IdleTimeout), IdleTimeout, LeastTimeout, MostTimeout);
        if (ReceiveTimeout != TimeSpan.Zero)
            errors.Range(nameof(ReceiveTimeout), ReceiveTimeout, LeastTimeout, MostTimeout);
        if (SendTimeout != TimeSpan.Zero) errors.Range(nameof(SendTimeout), SendTimeout, LeastTimeout, MostTimeout);
        errors.Range(nameof(ReceiveBufferBytes), ReceiveBufferBytes, 0, 1 << 30);
        errors.Range(nameof(SendBufferBytes), SendBufferBytes, 0, 1 << 30);
        errors.Defined(nameof(SlowConsumer), SlowConsumer);
        SocketOptionRules.CheckRanges(errors, this);
        errors.Defined(nameof(Scheduling), Scheduling);
        if (Dispatcher is not null && Scheduling != Scheduling.ThreadPool)
            errors.Add("Dispatcher is set, but without Scheduling = ThreadPool the callbacks run on the loops");
    }
}
