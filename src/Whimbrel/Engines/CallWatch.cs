using System.Globalization;
using Whimbrel.Linux;

namespace Whimbrel.Engines;

/// <summary>
/// Measures how long one call of user code has occupied a loop's thread. The watchdog samples the loop periodically; if
/// two samples find the same call, that call ran during the whole interval. Time in which the thread was runnable
/// without a cpu is subtracted if the kernel reports it.
/// </summary>
/// <remarks>
/// The watchdog's thread measures and records. The loop reads the record at the end of a turn and may miss the last
/// sample.
/// </remarks>
internal sealed class CallWatch
{
    private readonly Lock _gate = new();
    private long _turn = -1;
    private long _call;
    private object? _work;
    private long _firstSeenMs;
    private long _baseMs;
    private ThreadTimes _base;
    private bool _hasBase;
    private long _cpuMs;
    private long _blockedMs;

    // The longest call of one turn, if any exceeded the limit.
    private long _accusedTurn = -1;
    private string _who = "";
    private long _ownMs;
    private long _ownCpuMs;

    /// <summary>
    /// Records the call that runs now. Returns false if the previous sample found another call, so that there is
    /// nothing to measure yet.
    /// </summary>
    /// <param name="turn">Start time of the loop's turn.</param>
    /// <param name="call">Number of the call of user code within its loop.</param>
    /// <param name="work">Name of the callback or work that runs; null for none.</param>
    /// <param name="nowMs">Time of this sample.</param>
    internal bool SeesAgain(long turn, long call, string? work, long nowMs)
    {
        if (_turn == turn && _call == call && ReferenceEquals(_work, work)) return true;
        (_turn, _call, _work, _firstSeenMs, _baseMs, _hasBase, _cpuMs) = (turn, call, work, nowMs, nowMs, false, -1);
        return false;
    }

    /// <summary>
    /// Returns the milliseconds that the call has used itself so far: on a cpu, or waiting for anything other than a
    /// cpu.
    /// </summary>
    /// <param name="threadId">Kernel id of the loop's thread, or 0.</param>
    /// <param name="nowMs">Time of this sample.</param>
    /// <param name="limitMs">Reporting limit. The thread's times are read only after a tenth of it, because reading
    /// costs system calls.</param>
    /// <param name="stoodStillMs">Function that returns the part of an interval in which the whole process did not
    /// run.</param>
    internal long MeasureOwn(int threadId, long nowMs, int limitMs, Func<long, long, long> stoodStillMs)
    {
        if (nowMs - _firstSeenMs < limitMs / 10) return 0;
        if (!ThreadTimes.TryRead(threadId, out ThreadTimes now)) return nowMs - _baseMs - stoodStillMs(_baseMs, nowMs);
        if (!_hasBase)
        {
            // Earlier time is not counted, because the part of it that was spent waiting for a cpu is unknown.
            (_base, _hasBase, _baseMs, _blockedMs) = (now, true, nowMs, 0);
            return 0;
        }

        _cpuMs = now.CpuMs - _base.CpuMs;
        // While the thread is runnable, the kernel has not yet added the current wait for a cpu, so it would be taken
        // for another wait.
        if (!now.IsRunnable)
            _blockedMs = Math.Max(0,
                nowMs - _baseMs - _cpuMs - (now.QueuedMs - _base.QueuedMs) - stoodStillMs(_baseMs, nowMs));
        return _cpuMs + _blockedMs;
    }

    internal void Accuse(long turn, string who, long ownMs)
    {
        // tidy: allowed because it is the watchdog's own thread, or a loop after a long turn
        lock (_gate)
        {
            if (_accusedTurn == turn && _ownMs > ownMs) return;
            (_accusedTurn, _who, _ownMs, _ownCpuMs) = (turn, who, ownMs, _cpuMs);
        }
    }

    /// <summary>
    /// Returns the call that exceeded the limit in this turn, and its duration. Called by the loop's thread and the
    /// watchdog's.
    /// </summary>
    internal bool IsAccused(long turn, out string who, out long ownMs)
    {
        // tidy: allowed because it is the watchdog's own thread, or a loop after a long turn
        lock (_gate)
        {
            (who, ownMs) = (_who, _ownMs);
            return _accusedTurn == turn;
        }
    }

    /// <summary>
    /// Returns the duration for a message, for example "213 ms (3 ms of cpu time)". The cpu time shows whether the call
    /// computed or waited.
    /// </summary>
    internal string TextOf(long ownMs)
    {
        // tidy: allowed because it is the watchdog's own thread, or a loop after a long turn
        lock (_gate)
        {
            string cpu = _ownCpuMs < 0
                ? ""
                : string.Create(CultureInfo.InvariantCulture, $" ({Math.Min(ownMs, _ownCpuMs)} ms of cpu time)");
            return string.Create(CultureInfo.InvariantCulture, $"{ownMs} ms{cpu}");
        }
    }
}
