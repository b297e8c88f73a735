namespace Whimbrel.Diagnostics;

/// <summary>
/// When the process as a whole did not run: it was stopped (SIGSTOP, a debugger, a virtual machine that slept), out of cpu time, or
/// collecting garbage. Seen by somebody who looks all the time and finds that time has passed without him. Any thread.
/// </summary>
internal sealed class Standstills
{
    /// <summary>A look that comes so much later than it should is no standstill yet, only a busy machine.</summary>
    internal const int ToleranceMs = 20;

    private const int Kept = 16;
    private const long NotResting = long.MaxValue / 2;

    private readonly Lock _gate = new();
    private readonly (long FromMs, long ToMs)[] _last = new (long, long)[Kept];
    private int _next;
    private long _dueMs = NotResting;

    /// <summary>He looks again after so long.</summary>
    internal void Rests(long nowMs, int restMs)
    {
        // tidy: allowed because it is the watchdog's own thread, or a loop that has something to report
        lock (_gate) _dueMs = nowMs + restMs;
    }

    /// <summary>He looks now. What he does then takes its own time, and is no standstill.</summary>
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

    /// <summary>How much of this time the process stood still, also when he who looks has not come to it since.</summary>
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
