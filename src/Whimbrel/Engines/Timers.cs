namespace Whimbrel.Engines;

/// <summary>
/// Timers of one loop: a four-way heap ordered by due time in monotonic milliseconds. Each timer knows its index, so
/// that cancelling costs as little as firing. Loop's thread only.
/// </summary>
/// <remarks>
/// A timer that is started again for a later time stays in place, and is moved when it reaches the top. A timeout that
/// is postponed with each message therefore costs a store per message, and one move per timeout. The price is a wake-up
/// that finds nothing due. The times are stored in the heap itself: the four children of an entry are one cache line.
/// </remarks>
internal sealed class Timers
{
    private const int Arity = 4;

    private readonly List<LoopTimer> _forNextTurn = [];
    private Entry[] _heap = new Entry[16];
    private int _count;
    private long _firingMs = long.MinValue; // timers due by then fire now; nothing fires outside Fire
    private bool _isClosed;

    /// <summary>
    /// <see cref="Ms"/> is at most the timer's own due time, except for timers in <see cref="_forNextTurn"/>.
    /// </summary>
    private struct Entry
    {
        internal long Ms;
        internal LoopTimer Timer;
    }

    internal int Count => _count;

    /// <summary>Earliest time at which the next timer may be due, or <see cref="long.MaxValue"/>.</summary>
    internal long NextDueMs => _count == 0 ? long.MaxValue : _heap[0].Ms;

    /// <summary>Adds a timer or changes its time. Returns false if the loop has ended.</summary>
    internal bool Set(LoopTimer timer, long dueMs)
    {
        if (_isClosed) return false;
        timer.DueMs = dueMs;
        if (dueMs <= _firingMs)
        {
            SetForNextTurn(timer);
            return true;
        }

        int index = timer.QueueIndex;
        if (index == LoopTimer.NotQueued) index = Grow();
        else if (dueMs >= _heap[index].Ms) return true;
        SiftUp(index, new Entry { Ms = dueMs, Timer = timer });
        return true;
    }

    /// <summary>
    /// Adds a timer that a callback has started and that is already due. Until the turn is over, its entry has a time
    /// that this turn does not fire.
    /// </summary>
    private void SetForNextTurn(LoopTimer timer)
    {
        _forNextTurn.Add(timer);
        Entry entry = new() { Ms = _firingMs + 1, Timer = timer };
        int index = timer.QueueIndex;
        if (index != LoopTimer.NotQueued && _heap[index].Ms <= _firingMs) SiftDown(index, entry);
        else SiftUp(index == LoopTimer.NotQueued ? Grow() : index, entry);
    }

    /// <summary>Returns the index of a new entry, to be filled by the caller.</summary>
    private int Grow()
    {
        if (_count == _heap.Length) Array.Resize(ref _heap, _count * 2);
        return _count++;
    }

    internal void Remove(LoopTimer timer)
    {
        int index = timer.QueueIndex;
        if (index == LoopTimer.NotQueued) return;
        timer.QueueIndex = LoopTimer.NotQueued;
        Entry last = _heap[--_count];
        _heap[_count] = default;
        if (ReferenceEquals(last.Timer, timer)) return;
        if (index > 0 && last.Ms < _heap[(index - 1) / Arity].Ms) SiftUp(index, last);
        else SiftDown(index, last);
    }

    /// <summary>
    /// Runs all timers due at <paramref name="nowMs"/>. A timer started by a callback waits for the next turn.
    /// </summary>
    internal void Fire(long nowMs)
    {
        // This loop ends: timers started by callbacks and the next times of periodic timers are later than now. A timer
        // that was only postponed moves once, and then has its own time.
        _firingMs = nowMs;
        try
        {
            FireDue(nowMs);
        }
        finally
        {
            _firingMs = long.MinValue;
            if (_forNextTurn.Count > 0) PlaceForNextTurn();
        }
    }

    private void FireDue(long nowMs)
    {
        while (_count > 0 && _heap[0].Ms <= nowMs)
        {
            LoopTimer timer = _heap[0].Timer;
            if (timer.DueMs > _heap[0].Ms)
            {
                SiftDown(0, new Entry { Ms = timer.DueMs, Timer = timer });
                continue;
            }

            if (timer.PeriodMs > 0)
            {
                long next = timer.DueMs + timer.PeriodMs;
                timer.DueMs = next > nowMs ? next : nowMs + timer.PeriodMs;
                SiftDown(0, new Entry { Ms = timer.DueMs, Timer = timer });
            }
            else
            {
                Remove(timer);
            }

            timer.Fire();
        }
    }

    /// <summary>Gives these timers their own time, so that the loop does not sleep past it.</summary>
    private void PlaceForNextTurn()
    {
        foreach (LoopTimer timer in _forNextTurn)
        {
            int index = timer.QueueIndex;
            // Otherwise it was cancelled, or started again for later.
            if (index != LoopTimer.NotQueued && timer.DueMs < _heap[index].Ms)
                SiftUp(index, new Entry { Ms = timer.DueMs, Timer = timer });
        }

        _forNextTurn.Clear();
    }

    /// <summary>Called when the loop ends: cancels all timers, and rejects new ones.</summary>
    internal void Close()
    {
        _isClosed = true;
        while (_count > 0)
        {
            LoopTimer timer = _heap[--_count].Timer;
            _heap[_count] = default;
            timer.QueueIndex = LoopTimer.NotQueued;
            timer.TellCancelled();
        }
    }

    internal void Open() => _isClosed = false;

    private void SiftUp(int index, in Entry entry)
    {
        while (index > 0)
        {
            int parent = (index - 1) / Arity;
            if (_heap[parent].Ms <= entry.Ms) break;
            Place(index, _heap[parent]);
            index = parent;
        }

        Place(index, entry);
    }

    private void SiftDown(int index, in Entry entry)
    {
        for (int child = (index * Arity) + 1; child < _count; child = (index * Arity) + 1)
        {
            int end = Math.Min(child + Arity, _count);
            int least = child;
            for (int i = child + 1; i < end; i++)
            {
                if (_heap[i].Ms < _heap[least].Ms) least = i;
            }

            if (_heap[least].Ms >= entry.Ms) break;
            Place(index, _heap[least]);
            index = least;
        }

        Place(index, entry);
    }

    private void Place(int index, in Entry entry)
    {
        _heap[index] = entry;
        entry.Timer.QueueIndex = index;
    }
}
