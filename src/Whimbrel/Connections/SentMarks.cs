using System.Diagnostics;

namespace Whimbrel.Connections;

/// <summary>Marks in the order of what they stand behind. One reference for a connection that has none, as most do. Loop's thread.</summary>
internal struct SentMarks
{
    private SentMark? _last; // its next is the first

    internal readonly SentMark? First => _last?.Next;

    internal void Enqueue(SentMark mark)
    {
        Debug.Assert(mark.Next is null, "a mark is in one list at a time");
        mark.Next = _last?.Next ?? mark;
        if (_last is not null) _last.Next = mark;
        _last = mark;
    }

    /// <summary>Takes the first one out.</summary>
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
