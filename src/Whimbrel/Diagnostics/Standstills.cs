namespace Whimbrel.Diagnostics;

/// <summary>
/// Periods in which the whole process did not run: it was stopped (SIGSTOP, a debugger, a suspended virtual machine),
/// had no cpu time, or collected garbage. Detected by a watchdog that wakes up later than it should. Any thread.
/// </summary>
internal sealed class Standstills
{
    /// <summary>Delay of a wake-up that is not yet a standstill, only a busy machine.</summary>
    internal const int ToleranceMs = 20;

    private const int Kept = 16;
    private const long NotResting = long.MaxValue / 2;

    private readonly Lock _gate = new();
    private readonly (long FromMs, long ToMs)[] _last = new (long, long)[Kept];
    private int _next;
    private long _dueMs = NotResting;

    /// <summary>Called before the watchdog sleeps for this time.</summary>
    internal void Rests(long nowMs, int restMs)
    {
        // tidy: allowed because it is the watchdog's own thread, or a loop that has something to report
        lock (_gate) _dueMs = nowMs + restMs;
    }

    /// <summary>Called when the watchdog wakes up. Its own work after that is not a standstill.</summary>
    internal void Looks(long nowMs)
    {
        // tidy: allowed because it is the watchdog's own thread, or a loop that has something to report
        lock (_gate)
        {
            if (nowMs - _dueMs > ToleranceMs)
            {
                _last[_next] = (_dueMs, nowMs);
                _next = (_next + 1) % Kept;
            }

            _dueMs = NotResting;
        }
    }

    /// <summary>
    /// Returns how much of this period the process stood still, including a standstill that the watchdog has not
    /// detected yet.
    /// </summary>
    internal long Within(long fromMs, long toMs)
    {
        long sum = 0;
        // tidy: allowed because it is the watchdog's own thread, or a loop that has something to report
        lock (_gate)
        {
            foreach ((long from, long to) in _last) sum += Math.Max(0, Math.Min(to, toMs) - Math.Max(from, fromMs));
            if (toMs - _dueMs > ToleranceMs) sum += Math.Max(0, toMs - Math.Max(_dueMs, fromMs));
        }

        return sum;
    }
}
