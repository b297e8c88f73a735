namespace Whimbrel.Engines;

/// <summary>
/// List of items in segments. Growing copies no existing item, and memory added by a burst is released. The owning
/// mailbox serializes access.
/// </summary>
internal sealed class DataItems
{
    internal const int SegmentItems = 256;
    internal const int SegmentsKept = 32;

    // The first segment exists from the start, so that a send of another thread allocates nothing.
    private DataItem[]?[] _segments = [new DataItem[SegmentItems], null, null, null];

    internal int Count { get; private set; }

    /// <summary>Number of segments that hold memory now.</summary>
    internal int SegmentCount => Array.FindLastIndex(_segments, static s => s is not null) + 1;

    internal ref DataItem this[int index] => ref _segments[index / SegmentItems]![index % SegmentItems];

    internal ref DataItem Add()
    {
        int segment = Count / SegmentItems;
        if (segment == _segments.Length) Array.Resize(ref _segments, segment * 2);
        _segments[segment] ??= new DataItem[SegmentItems];
        return ref _segments[segment]![Count++ % SegmentItems];
    }

    /// <summary>Empties the list. The loop has set every processed item to its default.</summary>
    internal void Reset()
    {
        if (Count > SegmentItems * SegmentsKept) Array.Resize(ref _segments, SegmentsKept);
        Count = 0;
    }
}
