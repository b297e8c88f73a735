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
    private readonly TimeSpan _retryAfter = TimeSpan.FromSeconds(5);
    private readonly TimeSpan _checkEvery = Timeout.InfiniteTimeSpan;

    /// <summary>The targets' addresses, as those of clients: <c>tcp://host:port</c>, <c>unix:path</c>. At least one; with TLS in <see cref="TargetTls"/>.</summary>
    public required IReadOnlyList<string> Targets { get; init; }

    /// <summary>How long one target may take to answer the dial, TLS included; then the next one is asked. 100 ms to 1 h; the default is 5 s.</summary>
    /// <exception cref="ArgumentOutOfRangeException">Outside of that.</exception>
    public TimeSpan ConnectTimeout
    {
        get => _connectTimeout;
        init => _connectTimeout = value >= TimeSpan.FromMilliseconds(100) && value <= TimeSpan.FromHours(1) ? value : throw new ArgumentOutOfRangeException(nameof(value), value, "100 ms to 1 h");
    }

    /// <summary>How long a target that could not be reached is asked last. 0 to 1 h; the default is 5 s.</summary>
    /// <exception cref="ArgumentOutOfRangeException">Outside of that.</exception>
    public TimeSpan RetryAfter
    {
        get => _retryAfter;
        init => _retryAfter = value >= TimeSpan.Zero && value <= TimeSpan.FromHours(1) ? value : throw new ArgumentOutOfRangeException(nameof(value), value, "0 to 1 h");
    }

    /// <summary>
    /// How often each target is asked whether it can be reached, by a connection of the relay's own, which says so in its PROXY header and ends at once; also when no client comes.
    /// One that cannot be reached is asked last until it can. 100 ms to 1 h after the last answer; infinite, the default: only clients find out.
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

    /// <summary>A target could not be reached, or could again. On any thread; what it throws is dropped.</summary>
    public Action<RelayTarget>? OnTargetChanged { get; init; }
}
