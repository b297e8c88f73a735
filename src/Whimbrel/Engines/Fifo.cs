using System.Diagnostics;

namespace Whimbrel.Engines;

/// <summary>
/// Objects in order of arrival, linked in a circle. A single reference, because most lists are empty. One thread.
/// </summary>
internal struct Fifo<T>
    where T : class, ILinked<T>
{
    private T? _last; // its Next is the first

    internal readonly T? First => _last?.Next;

    internal readonly T? Last => _last;

    internal void Enqueue(T item)
    {
        Debug.Assert(item.Next is null, "an object is in one list at a time");
        item.Next = _last?.Next ?? item;
        if (_last is not null) _last.Next = item;
        _last = item;
    }

    /// <summary>Removes and returns the first object.</summary>
    internal T Dequeue()
    {
        T first = _last!.Next!;
        if (ReferenceEquals(first, _last)) _last = null;
        else _last.Next = first.Next;
        first.Next = null;
        return first;
    }

    /// <summary>Removes an object. Returns false if it is not in the list.</summary>
    /// <param name="item">The object.</param>
    /// <param name="previous">The one before it; null if it was the first.</param>
    internal bool TryRemove(T item, out T? previous)
    {
        previous = null;
        T? at = First;
        while (at is not null && !ReferenceEquals(at, item))
        {
            previous = at;
            at = ReferenceEquals(at, _last) ? null : at.Next;
        }

        if (at is null) return false;
        if (previous is null)
        {
            Dequeue();
            return true;
        }

        previous.Next = item.Next;
        if (ReferenceEquals(_last, item)) _last = previous;
        item.Next = null;
        return true;
    }
}
