using System.Diagnostics;

namespace Whimbrel.Connections;

/// <summary>
/// Marks in the order of their positions. A single reference, because most connections have none. Loop's thread.
/// </summary>
internal struct SentMarks
{
    private SentMark? _last; // its Next is the first

    internal readonly SentMark? First => _last?.Next;

    internal void Enqueue(SentMark mark)
    {
        Debug.Assert(mark.Next is null, "a mark is in one list at a time");
        mark.Next = _last?.Next ?? mark;
        if (_last is not null) _last.Next = mark;
        _last = mark;
    }

    /// <summary>Removes and returns the first mark.</summary>
    internal SentMark Dequeue()
    {
        SentMark first = _last!.Next!;
        if (ReferenceEquals(first, _last)) _last = null;
        else _last.Next = first.Next;
        first.Next = null;
        first.Behind = null;
        return first;
    }
}
