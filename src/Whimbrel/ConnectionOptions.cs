using System.Net;
using System.Net.Sockets;

namespace Whimbrel;

/// <summary>What servers and clients have in common for each of their connections. Plain data, validated once, at start.</summary>
public abstract class ConnectionOptions
{
    internal const int LeastSendLimit = 4096;
    internal const int MostSendLimit = 1 << 30;

    /// <summary>The engine whose loops serve the connections. Null (the default) is <see cref="Whimbrel.Engine.Default"/>, which is shared and never disposed.</summary>
    public Engine? Engine { get; init; }

    /// <summary>Most bytes that wait in a connection's send queue. 4 KiB up to 1 GiB; default 1 MiB.</summary>
    public int SendLimitBytes { get; init; } = 1024 * 1024;

    /// <summary>
    /// A message larger than <see cref="SendLimitBytes"/> is taken when nothing is pending: a connection then holds the limit or one message, whichever is more.
    /// Default false: then <c>Send</c> throws for such a message, <c>SendAsync</c> sends it in parts, and a broadcast
    /// passes the member by. A session may decide for itself (<see cref="Session.AllowLargeMessages"/>).
    /// </summary>
    public bool AllowLargeMessages { get; init; }

    /// <summary>What happens at <see cref="SendLimitBytes"/>. Default <see cref="SlowConsumer.Disconnect"/>.</summary>
    public SlowConsumer SlowConsumer { get; init; }

    /// <summary>Most bytes that a session may leave unread; reached with nothing taken, the connection is closed. 1 KiB up to 1 GiB; default 1 MiB.</summary>
    public int UnreadLimitBytes { get; init; } = 1024 * 1024;

    /// <summary>Natural back-pressure (contract 9). Null (the default): on for accepted connections, off for dialled ones.</summary>
    public bool? BackPressure { get; init; }

    /// <summary>Where the callbacks of the sessions run. Default <see cref="Whimbrel.Scheduling.Inline"/>: on their loop, where they must not block.</summary>
    public Scheduling Scheduling { get; init; }

    /// <summary>
    /// With <see cref="Whimbrel.Scheduling.ThreadPool"/>: who runs the callbacks in place of the thread pool, so that they do not wait for one whose
    /// threads are all busy. It gets an item each time a session has something to run, and has <see cref="IThreadPoolWorkItem.Execute"/>
    /// called later, once, on any thread that is no loop's: that runs the session for a while. Called on loops and on any other thread, must not
    /// block; items of different sessions may run at once, those of one never overlap. When it throws, or runs the item inside the call,
    /// the pool runs it and a notice tells; a session whose item it drops stands still, and a stop waits for it up to its deadline. Handlers of
    /// streams are started on the pool all the same. Null (the default): the pool.
    /// </summary>
    public Action<IThreadPoolWorkItem>? Dispatcher { get; init; }

    /// <summary>How long a closing connection may go without the peer taking a byte before it is reset. 10 ms up to an hour; default 5 s.</summary>
    public TimeSpan DrainTimeout { get; init; } = TimeSpan.FromSeconds(5);

    /// <summary>
    /// How long a closing connection may take in all, also when the peer takes bytes all the time; then it is reset. Zero (the default) is ten
    /// times <see cref="DrainTimeout"/>, and a minute at least. <see cref="DrainTimeout"/> up to 7 days.
    /// </summary>
    public TimeSpan DrainLimit { get; init; }

    internal TimeSpan DrainLimitOrDefault => DrainLimit > TimeSpan.Zero ? DrainLimit
        : DrainTimeout > TimeSpan.FromSeconds(6) ? DrainTimeout * 10
        : TimeSpan.FromMinutes(1);

    /// <summary>
    /// Closes a connection on which no byte came or went for so long, with cause <see cref="CloseCause.IdleTimeout"/>: never
    /// earlier, and at most a quarter later. A pause counts as well. 100 ms up to 7 days; zero (the default) never closes.
    /// </summary>
    public TimeSpan IdleTimeout { get; init; }

    /// <summary>
    /// Closes a connection whose peer sends nothing for so long, with cause <see cref="CloseCause.ReceiveTimeout"/>: never earlier, and at most a quarter later.
    /// Counts while the connection is read and has nothing to send: not in a pause, under back-pressure, while callbacks on the pool have not
    /// taken what came, or after the peer's end; what begins after those begins anew. For protocols whose peers speak up all the time; a session
    /// sets its own where it knows when something must come (<see cref="Session.ReceiveTimeout"/>). 100 ms up to 7 days; zero (the default) never closes.
    /// </summary>
    public TimeSpan ReceiveTimeout { get; init; }

    /// <summary>
    /// Aborts a connection that has something to send of which the peer takes no byte for so long, with cause <see cref="CloseCause.SendTimeout"/>: never earlier, and at most
    /// a quarter later. Not while a handshake runs, nor after a close: those have limits of their own. 100 ms up to 7 days; zero (the default) never does:
    /// then <see cref="SendLimitBytes"/> ends who is slow, and the system who is gone.
    /// </summary>
    public TimeSpan SendTimeout { get; init; }

    internal static readonly TimeSpan LeastTimeout = TimeSpan.FromMilliseconds(100);

    internal static readonly TimeSpan MostTimeout = TimeSpan.FromDays(7);

    /// <summary>
    /// Counts sends in <see cref="ServerCounters.MessagesSent"/>. Default false: a send inside a callback then costs a
    /// comparison and a copy, with it some ten nanoseconds more.
    /// </summary>
    public bool CountSends { get; init; }

    // ------------------------------------------------------------------ socket options
    // At its default an option leaves the system alone and never complains. Set, it must be possible: what the system, the
    // engine or every one of the addresses does not have fails the start, all such mistakes together. The memory engine has
    // no sockets: it checks the ranges, so that the options of production can be tested, and ignores the rest.

    /// <summary>TCP_NODELAY: send at once. Default true; the library joins small sends by itself.</summary>
    public bool NoDelay { get; init; } = true;

    /// <summary>SO_KEEPALIVE: ask a silent peer from time to time whether it is still there. Default false.</summary>
    public bool KeepAlive { get; init; }

    /// <summary>TCP_KEEPIDLE: silence before the first question. Whole seconds, 1 s up to 32,767 s; zero (the default) leaves it to the system (Linux: 2 hours). Needs <see cref="KeepAlive"/>.</summary>
    public TimeSpan KeepAliveTime { get; init; }

    /// <summary>TCP_KEEPINTVL: time between unanswered questions. Whole seconds, 1 s up to 32,767 s; zero (the default) leaves it to the system (Linux: 75 s). Needs <see cref="KeepAlive"/>.</summary>
    public TimeSpan KeepAliveInterval { get; init; }

    /// <summary>TCP_KEEPCNT: unanswered questions after which the connection has timed out. 1 up to 127; 0 (the default) leaves it to the system (Linux: 9). Needs <see cref="KeepAlive"/>.</summary>
    public int KeepAliveCount { get; init; }

    /// <summary>SO_RCVBUF in bytes; 0 (the default) leaves it to the system, which adapts it. Linux doubles it and cuts it to net.core.rmem_max without an error.</summary>
    public int ReceiveBufferBytes { get; init; }

    /// <summary>SO_SNDBUF in bytes; 0 (the default) leaves it to the system, which adapts it. Linux doubles it and cuts it to net.core.wmem_max without an error.</summary>
    public int SendBufferBytes { get; init; }

    /// <summary>TCP_USER_TIMEOUT: longest time that sent bytes may stay unacknowledged; then the connection has timed out. Whole milliseconds, 1 ms up to 24 days; zero (the default) leaves it to the system. Linux.</summary>
    public TimeSpan UserTimeout { get; init; }

    /// <summary>IP_TOS and IPV6_TCLASS: the byte that marks packets for routers, as DSCP x 4. Multiples of 4 up to 252 (the lowest two bits are the system's); 0 (the default) leaves it alone. Linux.</summary>
    public int TypeOfService { get; init; }

    /// <summary>SO_MARK: a number on the packets for firewall and routing rules. 0 (the default) leaves it alone. Needs the capability CAP_NET_ADMIN or CAP_NET_RAW. Linux.</summary>
    public uint Mark { get; init; }

    /// <summary>SO_BUSY_POLL: how long a receive may ask the network device itself before it waits. Whole microseconds, 1 us up to 1 s; zero (the default) leaves it alone. Needs the capability CAP_NET_ADMIN. Linux.</summary>
    public TimeSpan BusyPoll { get; init; }

    /// <summary>SO_BINDTODEVICE: use this network device only, by name, as "eth0"; 1 up to 15 bytes. Null (the default): any. Linux; before 5.7 with the capability CAP_NET_RAW only.</summary>
    public string? BindToDevice { get; init; }

    /// <summary>IP_FREEBIND: bind to an address that the machine does not have, or not yet: a server's end point, or a client's LocalEndPoint. Default false. Linux.</summary>
    public bool FreeBind { get; init; }

    /// <summary>
    /// Called with every socket of this server or client: before a listener is bound, before a dial, and for each accepted
    /// connection before its session is made. For options that have no property here. On a loop's thread, must not block;
    /// the socket's options are set by then and may be changed. What it throws fails the start or the dial with category
    /// <see cref="ErrorCategory.User"/>, or closes that accepted connection and goes to the server's OnError. Not called
    /// by the memory engine. Null (the default) costs nothing.
    /// </summary>
    public Action<NewSocket>? OnSocketCreated { get; init; }

    /// <summary>
    /// Makes the sockets of listeners and of dials: called with the address that will be bound or dialled, it gives a new stream socket of that
    /// family, neither bound nor connected, with options of its own. The options above are set on it as on any other. The object is
    /// <see cref="Server.Socket"/> or <see cref="Session.Socket"/> afterwards, and disposed with its listener or connection. On a loop's
    /// thread, must not block. What it throws, and a socket that cannot be used, fails the start or the dial with category
    /// <see cref="ErrorCategory.User"/>. Not called by the memory engine. Null (the default): the library makes them.
    /// </summary>
    public Func<EndPoint, Socket>? CreateSocket { get; init; }

    /// <summary>Handed on to factories by <see cref="SessionContext.Services"/>. The library does not use it.</summary>
    public IServiceProvider? Services { get; init; }

    /// <summary>Called for notices that concern this server or client. Any thread, must not block. Null: the engine's.</summary>
    public Action<DiagnosticEvent>? OnDiagnosticEvent { get; init; }

    /// <summary>Copies what was set, so that later changes of shared objects have no effect.</summary>
    internal ConnectionOptions Clone() => (ConnectionOptions)MemberwiseClone();

    private protected void ValidateCommon(OptionErrors errors)
    {
        errors.Range(nameof(SendLimitBytes), SendLimitBytes, LeastSendLimit, MostSendLimit);
        errors.Range(nameof(UnreadLimitBytes), UnreadLimitBytes, 1024, 1 << 30);
        errors.Range(nameof(DrainTimeout), DrainTimeout, TimeSpan.FromMilliseconds(10), TimeSpan.FromHours(1));
        if (DrainLimit != TimeSpan.Zero) errors.Range(nameof(DrainLimit), DrainLimit, DrainTimeout, TimeSpan.FromDays(7));
        if (IdleTimeout != TimeSpan.Zero) errors.Range(nameof(IdleTimeout), IdleTimeout, LeastTimeout, MostTimeout);
        if (ReceiveTimeout != TimeSpan.Zero) errors.Range(nameof(ReceiveTimeout), ReceiveTimeout, LeastTimeout, MostTimeout);
        if (SendTimeout != TimeSpan.Zero) errors.Range(nameof(SendTimeout), SendTimeout, LeastTimeout, MostTimeout);
        errors.Range(nameof(ReceiveBufferBytes), ReceiveBufferBytes, 0, 1 << 30);
        errors.Range(nameof(SendBufferBytes), SendBufferBytes, 0, 1 << 30);
        errors.Defined(nameof(SlowConsumer), SlowConsumer);
        SocketOptionRules.CheckRanges(errors, this);
        errors.Defined(nameof(Scheduling), Scheduling);
        if (Dispatcher is not null && Scheduling != Scheduling.ThreadPool) errors.Add("Dispatcher is set, but without Scheduling = ThreadPool the callbacks run on the loops");
    }
}
