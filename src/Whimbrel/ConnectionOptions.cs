namespace Whimbrel;

/// <summary>What servers and clients have in common for each of their connections. Plain data, validated once, at start.</summary>
public abstract class ConnectionOptions
{
    /// <summary>The engine whose loops serve the connections. Null (the default) is <see cref="Whimbrel.Engine.Default"/>, which is shared and never disposed.</summary>
    public Engine? Engine { get; init; }

    /// <summary>Most bytes that wait in a connection's send queue. 4 KiB up to 1 GiB; default 1 MiB.</summary>
    public int SendLimitBytes { get; init; } = 1024 * 1024;

    /// <summary>What happens at <see cref="SendLimitBytes"/>. Default <see cref="SlowConsumer.Disconnect"/>.</summary>
    public SlowConsumer SlowConsumer { get; init; }

    /// <summary>Most bytes that a session may leave unread; reached with nothing taken, the connection is closed. 1 KiB up to 1 GiB; default 1 MiB.</summary>
    public int UnreadLimitBytes { get; init; } = 1024 * 1024;

    /// <summary>Natural back-pressure (contract 9). Null (the default): on for accepted connections, off for dialled ones.</summary>
    public bool? BackPressure { get; init; }

    /// <summary>Where the callbacks of the sessions run. Default <see cref="Whimbrel.Scheduling.Inline"/>: on their loop, where they must not block.</summary>
    public Scheduling Scheduling { get; init; }

    /// <summary>How long a closing connection may go without the peer taking a byte before it is reset. 10 ms up to an hour; default 5 s.</summary>
    public TimeSpan DrainTimeout { get; init; } = TimeSpan.FromSeconds(5);

    /// <summary>TCP_NODELAY: send at once. Default true; the library joins small sends by itself.</summary>
    public bool NoDelay { get; init; } = true;

    /// <summary>SO_KEEPALIVE with the system's times. Default false.</summary>
    public bool KeepAlive { get; init; }

    /// <summary>SO_RCVBUF in bytes; 0 (the default) leaves it to the system, which adapts it.</summary>
    public int ReceiveBufferBytes { get; init; }

    /// <summary>SO_SNDBUF in bytes; 0 (the default) leaves it to the system, which adapts it.</summary>
    public int SendBufferBytes { get; init; }

    /// <summary>Handed on to factories by <see cref="SessionContext.Services"/>. The library does not use it.</summary>
    public IServiceProvider? Services { get; init; }

    /// <summary>Called for notices that concern this server or client. Any thread, must not block. Null: the engine's.</summary>
    public Action<Notice>? OnNotice { get; init; }

    /// <summary>Copies what was set, so that later changes of shared objects have no effect.</summary>
    internal ConnectionOptions Clone() => (ConnectionOptions)MemberwiseClone();

    private protected void ValidateCommon(OptionErrors errors)
    {
        errors.Range(nameof(SendLimitBytes), SendLimitBytes, 4096, 1 << 30);
        errors.Range(nameof(UnreadLimitBytes), UnreadLimitBytes, 1024, 1 << 30);
        errors.Range(nameof(DrainTimeout), DrainTimeout, TimeSpan.FromMilliseconds(10), TimeSpan.FromHours(1));
        errors.Range(nameof(ReceiveBufferBytes), ReceiveBufferBytes, 0, 1 << 30);
        errors.Range(nameof(SendBufferBytes), SendBufferBytes, 0, 1 << 30);
        errors.Defined(nameof(SlowConsumer), SlowConsumer);
        errors.Defined(nameof(Scheduling), Scheduling);
    }
}
