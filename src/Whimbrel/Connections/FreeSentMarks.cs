using Whimbrel.Engines;

namespace Whimbrel.Connections;

/// <summary>
/// Free marks of one loop, last in first out: a stack for its own thread, without a lock, and one for all other
/// threads.
/// </summary>
internal sealed class FreeSentMarks
{
    internal const int MostKept = 256;

    private readonly Lock _gate = new();
    private readonly Stack<SentMark> _ofLoop = [];
    private readonly Stack<SentMark> _ofOthers = [];

    internal SentMark Take(Loop loop)
    {
        SentMark? mark;
        if (loop.IsCurrent) return _ofLoop.TryPop(out mark) ? mark : new SentMark(loop);
        // tidy: allowed because marks of other threads are taken on one and returned on another; a few instructions,
        // never nested
        lock (_gate) return _ofOthers.TryPop(out mark) ? mark : new SentMark(loop);
    }

    internal void Return(Loop loop, SentMark mark)
    {
        if (loop.IsCurrent)
        {
            if (_ofLoop.Count < MostKept) _ofLoop.Push(mark);
            return;
        }

        // tidy: allowed because marks of other threads are taken on one and returned on another; a few instructions,
        // never nested
        lock (_gate)
        {
            if (_ofOthers.Count < MostKept) _ofOthers.Push(mark);
        }
    }
}
