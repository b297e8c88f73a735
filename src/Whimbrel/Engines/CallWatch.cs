using System.Globalization;
using Whimbrel.Linux;

namespace Whimbrel.Engines;

/// <summary>
/// Measures how long one piece of user code has kept a loop's thread. The watchdog looks now and then; two looks that find the same piece have no
/// other one between them. Time in which the thread was ready to run and got no cpu is taken off, where the kernel counts it.
/// </summary>
/// <remarks>The watchdog's thread measures and accuses; the loop reads the verdict at the end of a turn, and may miss the last look.</remarks>
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

    // What took longest in one turn, if anything took too long.
    private long _accusedTurn = -1;
    private string _who = "";
    private long _ownMs;
    private long _ownCpuMs;

    /// <summary>Notes what runs now. False: the look before saw something else, and there is nothing to measure yet.</summary>
    /// <param name="turn">When the loop's turn began.</param>
    /// <param name="call">Number of the piece of user code in its loop.</param>
    /// <param name="work">Name of the callback or work that runs; null for none.</param>
    /// <param name="nowMs">Time of this look.</param>
    internal bool SeesAgain(long turn, long call, string? work, long nowMs)
    {
        if (_turn == turn && _call == call && ReferenceEquals(_work, work)) return true;
        (_turn, _call, _work, _firstSeenMs, _baseMs, _hasBase, _cpuMs) = (turn, call, work, nowMs, nowMs, false, -1);
        return false;
    }

    /// <summary>Milliseconds that the piece has taken itself so far: on a cpu, or waiting for something else than a cpu.</summary>
    /// <param name="threadId">The kernel's number of the loop's thread, or 0.</param>
    /// <param name="nowMs">Time of this look.</param>
    /// <param name="limitMs">What is reported: a thread is not asked for its times before a tenth of that has passed.</param>
    /// <param name="stoodStillMs">How much of the time between two moments the whole process did not run.</param>
    internal long MeasureOwn(int threadId, long nowMs, int limitMs, Func<long, long, long> stoodStillMs)
    {
        if (nowMs - _firstSeenMs < limitMs / 10) return 0;
        if (!ThreadTimes.TryRead(threadId, out ThreadTimes now)) return nowMs - _baseMs - stoodStillMs(_baseMs, nowMs);
        if (!_hasBase)
        {
            // What was before is not counted: how much of it was a wait for a cpu is not known.
            (_base, _hasBase, _baseMs, _blockedMs) = (now, true, nowMs, 0);
            return 0;
        }

        _cpuMs = now.CpuMs - _base.CpuMs;
        // While it is ready to run, the wait for a cpu that lasts is not counted yet, and would look like a wait for something else.
        if (!now.IsRunnable) _blockedMs = Math.Max(0, nowMs - _baseMs - _cpuMs - (now.QueuedMs - _base.QueuedMs) - stoodStillMs(_baseMs, nowMs));
        return _cpuMs + _blockedMs;
    }

    internal void Accuse(long turn, string who, long ownMs)
    {
        // tidy: allowed because it is the watchdog's own thread, or a loop whose turn was too long
        lock (_gate)
        {
            if (_accusedTurn == turn && _ownMs > ownMs) return;
            (_accusedTurn, _who, _ownMs, _ownCpuMs) = (turn, who, ownMs, _cpuMs);
        }
    }

    /// <summary>What took too long in this turn, and how long as a part of a message. The loop's thread, and the watchdog's.</summary>
    internal bool IsAccused(long turn, out string who, out long ownMs)
    {
        // tidy: allowed because it is the watchdog's own thread, or a loop whose turn was too long
        lock (_gate)
        {
            (who, ownMs) = (_who, _ownMs);
            return _accusedTurn == turn;
        }
    }

    /// <summary>"213 ms (3 ms of cpu time)": what was accused either computed, or waited.</summary>
    internal string TextOf(long ownMs)
    {
        // tidy: allowed because it is the watchdog's own thread, or a loop whose turn was too long
        lock (_gate)
        {
            string cpu = _ownCpuMs < 0 ? "" : string.Create(CultureInfo.InvariantCulture, $" ({Math.Min(ownMs, _ownCpuMs)} ms of cpu time)");
            return string.Create(CultureInfo.InvariantCulture, $"{ownMs} ms{cpu}");
        }
    }
}
