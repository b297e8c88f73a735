namespace Whimbrel.Hosting;

/// <summary>
/// Time limits after which health checks of a server treat a loop as blocked. A loop counts for a server if the server
/// has sessions on it, or if no loop answers. Immutable and thread-safe.
/// </summary>
public sealed record ServerHealthOptions
{
    private readonly TimeSpan _loopSilence = TimeSpan.FromSeconds(1);
    private readonly TimeSpan _loopStandstill = TimeSpan.FromSeconds(30);

    /// <summary>
    /// Time without an answer of a loop after which the server is degraded. Also the longest wait of a check. 10 ms to
    /// 1 h; the default is 1 s.
    /// </summary>
    /// <exception cref="ArgumentOutOfRangeException">The value is outside this range.</exception>
    public TimeSpan LoopSilence
    {
        get => _loopSilence;
        init => _loopSilence = InRange(value);
    }

    /// <summary>
    /// Time without an answer of a loop after which the server is unhealthy for both checks. The time is counted from a
    /// check, so the first check after it reports it. 10 ms to 1 h, at least <see cref="LoopSilence"/>; the default is
    /// 30 s.
    /// </summary>
    /// <exception cref="ArgumentOutOfRangeException">The value is outside this range.</exception>
    public TimeSpan LoopStandstill
    {
        get => _loopStandstill;
        init => _loopStandstill = InRange(value);
    }

    /// <summary>
    /// Time during which the readiness check is unhealthy before the servers of the host stop accepting, so that a load
    /// balancer sends no more clients. Part of <c>HostOptions.ShutdownTimeout</c>; the longest of all checks counts.
    /// There is no such time after an upgrade (<see cref="ProcessUpgrade"/>). 0 to 1 h; the default is zero.
    /// </summary>
    /// <exception cref="ArgumentOutOfRangeException">The value is outside this range.</exception>
    public TimeSpan NotReadyBeforeStop
    {
        get;
        init => field = value >= TimeSpan.Zero && value <= TimeSpan.FromHours(1)
            ? value
            : throw new ArgumentOutOfRangeException(nameof(value), value, "0 to 1 h");
    }

    private static TimeSpan InRange(TimeSpan value) =>
        value >= TimeSpan.FromMilliseconds(10) && value <= TimeSpan.FromHours(1)
            ? value
            : throw new ArgumentOutOfRangeException(nameof(value), value, "10 ms to 1 h");
}
