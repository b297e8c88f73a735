namespace Whimbrel.Hosting;

/// <summary>
/// When the health checks of a server take a loop of its engine for blocked. A loop counts for a server when the server has sessions on it, or when no loop answers. Never changes; any thread.
/// </summary>
public sealed record ServerHealthOptions
{
    private readonly TimeSpan _loopSilence = TimeSpan.FromSeconds(1);
    private readonly TimeSpan _loopStandstill = TimeSpan.FromSeconds(30);

    /// <summary>A loop that has not answered a question of the checks for so long makes the server degraded. A check waits as long at most. 10 ms to 1 h; the default is 1 s.</summary>
    /// <exception cref="ArgumentOutOfRangeException">Outside of that.</exception>
    public TimeSpan LoopSilence
    {
        get => _loopSilence;
        init => _loopSilence = InRange(value);
    }

    /// <summary>
    /// A loop that has not answered for so long makes the server unhealthy, to both checks. It is seen by the first check after it, since silence is counted from a check on. 10 ms to 1 h, at least
    /// <see cref="LoopSilence"/>; the default is 30 s.
    /// </summary>
    /// <exception cref="ArgumentOutOfRangeException">Outside of that.</exception>
    public TimeSpan LoopStandstill
    {
        get => _loopStandstill;
        init => _loopStandstill = InRange(value);
    }

    private static TimeSpan InRange(TimeSpan value) =>
        value >= TimeSpan.FromMilliseconds(10) && value <= TimeSpan.FromHours(1) ? value : throw new ArgumentOutOfRangeException(nameof(value), value, "10 ms to 1 h");
}
