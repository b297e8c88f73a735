namespace Whimbrel.Relays;

/// <summary>Which PROXY header a relay sends to its targets.</summary>
public enum ProxyHeaderForm
{
    /// <summary>None: the target sees the relay.</summary>
    None,

    /// <summary>Version 1, a line.</summary>
    Line,

    /// <summary>Version 2, with a checksum.</summary>
    Binary,
}

/// <summary>Where a relay passes connections on to, and how.</summary>
public sealed class RelayOptions
{
    private readonly TimeSpan _connectTimeout = TimeSpan.FromSeconds(5);
    private readonly TimeSpan _nextAfter = TimeSpan.FromSeconds(1);
    private readonly TimeSpan _earlyEnd = TimeSpan.FromSeconds(1);
    private readonly TimeSpan _retryAfter = TimeSpan.FromSeconds(1);
    private readonly TimeSpan _retryAtMost = TimeSpan.FromSeconds(30);
    private readonly TimeSpan _checkEvery = Timeout.InfiniteTimeSpan;

    /// <summary>The targets' addresses, as those of clients: <c>tcp://host:port</c>, <c>unix:path</c>. At least one; with TLS in <see cref="TargetTls"/>.</summary>
    public required IReadOnlyList<string> Targets { get; init; }

    /// <summary>How long one target may take to answer the dial, TLS included. 100 ms to 1 h; the default is 5 s.</summary>
    /// <exception cref="ArgumentOutOfRangeException">Outside of that.</exception>
    public TimeSpan ConnectTimeout
    {
        get => _connectTimeout;
        init => _connectTimeout = value >= TimeSpan.FromMilliseconds(100) && value <= TimeSpan.FromHours(1) ? value : throw new ArgumentOutOfRangeException(nameof(value), value, "100 ms to 1 h");
    }

    /// <summary>
    /// After this time without an answer the next target is asked beside the ones that were; the first to answer is taken, and one that had all of this time has failed.
    /// 10 ms to 1 h; the default is 1 s.
    /// </summary>
    /// <exception cref="ArgumentOutOfRangeException">Outside of that.</exception>
    public TimeSpan NextAfter
    {
        get => _nextAfter;
        init => _nextAfter = value >= TimeSpan.FromMilliseconds(10) && value <= TimeSpan.FromHours(1) ? value : throw new ArgumentOutOfRangeException(nameof(value), value, "10 ms to 1 h");
    }

    /// <summary>
    /// A target that ends a connection within this time without having sent a byte has failed, as if it had not been reached, unless the client had ended its half before. Checks
    /// keep their connection as long, to see that. 0 to 1 min; the default is 1 s. 0, never, is for protocols in which such an end is none of a failure.
    /// </summary>
    /// <exception cref="ArgumentOutOfRangeException">Outside of that.</exception>
    public TimeSpan EarlyEnd
    {
        get => _earlyEnd;
        init => _earlyEnd = value >= TimeSpan.Zero && value <= TimeSpan.FromMinutes(1) ? value : throw new ArgumentOutOfRangeException(nameof(value), value, "0 to 1 min");
    }

    /// <summary>
    /// How long a target that has failed rests: meanwhile it is asked only when all others have failed, too. After it one connection tries the target; the rest until the next
    /// try is twice as long each time, up to <see cref="RetryAtMost"/>. With <see cref="CheckEvery"/> it rests until a check passes. 0 to 1 h; the default is 1 s.
    /// </summary>
    /// <exception cref="ArgumentOutOfRangeException">Outside of that.</exception>
    public TimeSpan RetryAfter
    {
        get => _retryAfter;
        init => _retryAfter = value >= TimeSpan.Zero && value <= TimeSpan.FromHours(1) ? value : throw new ArgumentOutOfRangeException(nameof(value), value, "0 to 1 h");
    }

    /// <summary>The longest rest of a target between two tries, at least <see cref="RetryAfter"/>. 0 to 1 h; the default is 30 s.</summary>
    /// <exception cref="ArgumentOutOfRangeException">Outside of that.</exception>
    public TimeSpan RetryAtMost
    {
        get => _retryAtMost;
        init => _retryAtMost = value >= TimeSpan.Zero && value <= TimeSpan.FromHours(1) ? value : throw new ArgumentOutOfRangeException(nameof(value), value, "0 to 1 h");
    }

    /// <summary>
    /// How often each target is asked whether it serves, by a connection of the relay's own, which says so in its PROXY header (LOCAL) and is closed after <see cref="EarlyEnd"/>; also when no client comes.
    /// One that fails is asked last until it passes. 100 ms to 1 h after the last answer; infinite, the default: only clients find out.
    /// </summary>
    /// <exception cref="ArgumentOutOfRangeException">Neither infinite nor in that range.</exception>
    public TimeSpan CheckEvery
    {
        get => _checkEvery;
        init => _checkEvery = value == Timeout.InfiniteTimeSpan || (value >= TimeSpan.FromMilliseconds(100) && value <= TimeSpan.FromHours(1)) ? value : throw new ArgumentOutOfRangeException(nameof(value), value, "100 ms to 1 h, or infinite");
    }

    /// <summary>Clients begin with a PROXY header, and their addresses are those in it. Null (the default): they do not.</summary>
    public ProxyOptions? Clients { get; init; }

    /// <summary>The header that targets get in front of everything. The default is none.</summary>
    public ProxyHeaderForm TargetHeader { get; init; }

    /// <summary>TLS to the targets, behind the PROXY header when there is one. Null (the default): in the clear.</summary>
    public TlsOptions? TargetTls { get; init; }

    /// <summary>
    /// A target has failed (<see cref="RelayTarget.LastFailure"/> says how), or serves again. On any thread; what it throws is dropped. Null, the default: a notice of kind <see cref="NoticeKind.RelayTarget"/>.
    /// </summary>
    public Action<RelayTarget>? OnTargetChanged { get; init; }
}
