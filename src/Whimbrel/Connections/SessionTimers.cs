using System.Diagnostics;

namespace Whimbrel.Connections;

/// <summary>Timers of the session of a connection, which end with it. Loop's thread.</summary>
internal struct SessionTimers
{
    private LoopTimer? _first;

    internal readonly bool IsEmpty => _first is null;

    /// <summary>Adds a timer, unless it is in the list.</summary>
    internal void Add(LoopTimer timer)
    {
        if (timer.IsListed) return;
        timer.IsListed = true;
        timer.NextOfSession = _first;
        _first = timer;
    }

    internal void Remove(LoopTimer timer)
    {
        Debug.Assert(timer.IsListed, "a timer that is not in the list is removed");
        timer.IsListed = false;
        if (ReferenceEquals(_first, timer))
        {
            _first = timer.NextOfSession;
            return;
        }

        for (LoopTimer? t = _first; t is not null; t = t.NextOfSession)
        {
            if (!ReferenceEquals(t.NextOfSession, timer)) continue;
            t.NextOfSession = timer.NextOfSession;
            return;
        }
    }

    /// <summary>Releases timers that were due before the connection was open; they fire in the next turn.</summary>
    internal readonly void ReleaseHeld(Loop loop)
    {
        for (LoopTimer? t = _first; t is not null; t = t.NextOfSession)
        {
            if (!t.IsHeld) continue;
            t.IsHeld = false;
            if (t.PeriodMs == 0) loop.Timers.Set(t, loop.TimeMs);
        }
    }

    internal void CancelAll()
    {
        LoopTimer? timers = _first;
        _first = null; // cleared first, so that a cancelled timer does not search the list
        for (LoopTimer? t = timers; t is not null; t = t.NextOfSession)
        {
            t.IsListed = false;
            t.Cancel();
        }
    }
}
