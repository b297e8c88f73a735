namespace Whimbrel.Engines;

/// <summary>
/// The timers of one loop: a four-way heap on the due time in monotonic milliseconds, with each timer knowing its
/// place, so that cancelling costs as little as firing. Loop's thread only.
/// </summary>
internal sealed class Timers
{
    private const int Arity = 4;

    private LoopTimer[] _heap = new LoopTimer[16];
    private int _count;

    internal int Count => _count;

    /// <summary>When the next timer is due, or <see cref="long.MaxValue"/>.</summary>
    internal long NextDueMs => _count == 0 ? long.MaxValue : _heap[0].DueMs;

    internal void Add(LoopTimer timer, long dueMs)
    {
        timer.IsStarting = false;
        if (timer.IsCancelled) return;
        timer.DueMs = dueMs;
        if (_count == _heap.Length) Array.Resize(ref _heap, _count * 2);
        SiftUp(_count++, timer);
    }

    internal void Remove(LoopTimer timer)
    {
        int index = timer.QueueIndex;
        if (index == LoopTimer.NotQueued) return;
        timer.QueueIndex = LoopTimer.NotQueued;
        LoopTimer last = _heap[--_count];
        _heap[_count] = null!;
        if (ReferenceEquals(last, timer)) return;
        if (index > 0 && last.DueMs < _heap[(index - 1) / Arity].DueMs) SiftUp(index, last);
        else SiftDown(index, last);
    }

    /// <summary>Runs all timers due at <paramref name="nowMs"/>. A timer started by a callback waits for the next turn.</summary>
    internal void Fire(long nowMs, Loop loop)
    {
        // Bounded by the number that was there: a callback that re-arms with zero cannot hold the loop.
        for (int budget = _count; budget > 0 && _count > 0 && _heap[0].DueMs <= nowMs; budget--)
        {
            LoopTimer timer = _heap[0];
            Remove(timer);
            if (timer.PeriodMs > 0)
            {
                long next = timer.DueMs + timer.PeriodMs;
                Add(timer, next > nowMs ? next : nowMs + timer.PeriodMs);
            }

            loop.RunTimer(timer);
        }
    }

    private void SiftUp(int index, LoopTimer timer)
    {
        while (index > 0)
        {
            int parent = (index - 1) / Arity;
            if (_heap[parent].DueMs <= timer.DueMs) break;
            Place(index, _heap[parent]);
            index = parent;
        }

        Place(index, timer);
    }

    private void SiftDown(int index, LoopTimer timer)
    {
        for (int child = (index * Arity) + 1; child < _count; child = (index * Arity) + 1)
        {
            int end = Math.Min(child + Arity, _count);
            int least = child;
            for (int i = child + 1; i < end; i++)
            {
                if (_heap[i].DueMs < _heap[least].DueMs) least = i;
            }

            if (_heap[least].DueMs >= timer.DueMs) break;
            Place(index, _heap[least]);
            index = least;
        }

        Place(index, timer);
    }

    private void Place(int index, LoopTimer timer)
    {
        _heap[index] = timer;
        timer.QueueIndex = index;
    }
}
