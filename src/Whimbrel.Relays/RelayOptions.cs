namespace Whimbrel.Relays;

/// <summary>Form of the PROXY header that a relay sends to its targets.</summary>
public enum ProxyHeaderForm
{
    /// <summary>No header: the target sees the address of the relay.</summary>
    None,

    /// <summary>Version 1: a line of text.</summary>
    Line,

    /// <summary>Version 2: binary, with a checksum.</summary>
    Binary,
}

/// <summary>Targets of a relay, and how it connects to them.</summary>
public sealed class RelayOptions
{
    private readonly TimeSpan _connectTimeout = TimeSpan.FromSeconds(5);
    private readonly TimeSpan _nextAfter = TimeSpan.FromSeconds(1);
    private readonly TimeSpan _earlyEnd = TimeSpan.FromSeconds(1);
    private readonly TimeSpan _retryAfter = TimeSpan.FromSeconds(1);
    private readonly TimeSpan _retryAtMost = TimeSpan.FromSeconds(30);
    private readonly TimeSpan _checkEvery = Timeout.InfiniteTimeSpan;

    /// <summary>
    /// Addresses of the targets, at least one: <c>tcp://host:port</c> or <c>unix:path</c>. For TLS set
    /// <see cref="TargetTls"/>.
    /// </summary>
    public required IReadOnlyList<string> Targets { get; init; }

    /// <summary>
    /// Time limit for connecting to one target, without the TLS handshake: that has
    /// <see cref="TlsOptions.HandshakeTimeout"/>. 100 ms to 1 h; the default is 5 s.
    /// </summary>
    /// <exception cref="ArgumentOutOfRangeException">The value is outside this range.</exception>
    public TimeSpan ConnectTimeout
    {
        get => _connectTimeout;
        init => _connectTimeout = value >= TimeSpan.FromMilliseconds(100) && value <= TimeSpan.FromHours(1)
            ? value
            : throw new ArgumentOutOfRangeException(nameof(value), value, "100 ms to 1 h");
    }

    /// <summary>
    /// Time without an answer after which the next target is tried in parallel. The first target to answer is used; a
    /// slower one that had at least this time counts as failed. 10 ms to 1 h; the default is 1 s.
    /// </summary>
    /// <exception cref="ArgumentOutOfRangeException">The value is outside this range.</exception>
    public TimeSpan NextAfter
    {
        get => _nextAfter;
        init => _nextAfter = value >= TimeSpan.FromMilliseconds(10) && value <= TimeSpan.FromHours(1)
            ? value
            : throw new ArgumentOutOfRangeException(nameof(value), value, "10 ms to 1 h");
    }

    /// <summary>
    /// A target that ends a connection within this time without having sent a byte has failed, unless the client had
    /// sent FIN before. Checks keep their connection open for the same time. 0 to 1 min; the default is 1 s. 0 disables
    /// this, for protocols in which such an end is normal.
    /// </summary>
    /// <exception cref="ArgumentOutOfRangeException">The value is outside this range.</exception>
    public TimeSpan EarlyEnd
    {
        get => _earlyEnd;
        init => _earlyEnd = value >= TimeSpan.Zero && value <= TimeSpan.FromMinutes(1)
            ? value
            : throw new ArgumentOutOfRangeException(nameof(value), value, "0 to 1 min");
    }

    /// <summary>
    /// Time until a failed target is tried again by one connection; before that it is used only when all others have
    /// failed, too. The time doubles with each retry, up to <see cref="RetryAtMost"/>. With <see cref="CheckEvery"/>
    /// only a check ends it. 0 to 1 h; the default is 1 s.
    /// </summary>
    /// <exception cref="ArgumentOutOfRangeException">The value is outside this range.</exception>
    public TimeSpan RetryAfter
    {
        get => _retryAfter;
        init => _retryAfter = value >= TimeSpan.Zero && value <= TimeSpan.FromHours(1)
            ? value
            : throw new ArgumentOutOfRangeException(nameof(value), value, "0 to 1 h");
    }

    /// <summary>
    /// Longest time between two retries of a target. A value below <see cref="RetryAfter"/> counts as that. 0 to 1 h;
    /// the default is 30 s.
    /// </summary>
    /// <exception cref="ArgumentOutOfRangeException">The value is outside this range.</exception>
    public TimeSpan RetryAtMost
    {
        get => _retryAtMost;
        init => _retryAtMost = value >= TimeSpan.Zero && value <= TimeSpan.FromHours(1)
            ? value
            : throw new ArgumentOutOfRangeException(nameof(value), value, "0 to 1 h");
    }

    /// <summary>
    /// Pause between two health checks of a target, 100 ms to 1 h. A check is a connection of the relay itself with the
    /// PROXY header LOCAL, if headers are sent; it is closed after <see cref="EarlyEnd"/>. A target that fails is used
    /// last until a check succeeds. Infinite (the default): no checks.
    /// </summary>
    /// <exception cref="ArgumentOutOfRangeException">The value is neither infinite nor in this range.</exception>
    public TimeSpan CheckEvery
    {
        get => _checkEvery;
        init => _checkEvery = value == Timeout.InfiniteTimeSpan
            || (value >= TimeSpan.FromMilliseconds(100) && value <= TimeSpan.FromHours(1))
            ? value
            : throw new ArgumentOutOfRangeException(nameof(value), value, "100 ms to 1 h, or infinite");
    }

    /// <summary>Options for PROXY headers of the clients. Null (the default): clients send none.</summary>
    public ProxyOptions? Clients { get; init; }

    /// <summary>PROXY header that is sent to targets before all other bytes. The default is none.</summary>
    public ProxyHeaderForm TargetHeader { get; init; }

    /// <summary>TLS to the targets, after the PROXY header if one is sent. Null (the default): no TLS.</summary>
    public TlsOptions? TargetTls { get; init; }

    /// <summary>
    /// Called when a target has failed (<see cref="RelayTarget.LastFailure"/> has the reason) or serves again. On any
    /// thread; exceptions are ignored. Null (the default): a diagnostic event of kind
    /// <see cref="DiagnosticEventKind.RelayTarget"/>.
    /// </summary>
    public Action<RelayTarget>? OnTargetChanged { get; init; }
}
