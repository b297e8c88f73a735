namespace Whimbrel.Engines;

/// <summary>
/// A growing list of items in segments: a burst copies nothing that is there already, and what it made it grow to is not
/// kept. Its mailbox guards it.
/// </summary>
internal sealed class DataItems
{
    internal const int SegmentItems = 256;
    internal const int SegmentsKept = 32;

    // The first one is there from the start: a send of another thread allocates nothing.
    private DataItem[]?[] _segments = [new DataItem[SegmentItems], null, null, null];

    internal int Count { get; private set; }

    /// <summary>Segments that hold memory now.</summary>
    internal int SegmentCount => Array.FindLastIndex(_segments, static s => s is not null) + 1;

    internal ref DataItem this[int index] => ref _segments[index / SegmentItems]![index % SegmentItems];

    internal ref DataItem Add()
    {
        int segment = Count / SegmentItems;
        if (segment == _segments.Length) Array.Resize(ref _segments, segment * 2);
        _segments[segment] ??= new DataItem[SegmentItems];
        return ref _segments[segment]![Count++ % SegmentItems];
    }

    /// <summary>Every item was set to its default by who ran it.</summary>
    internal void Reset()
    {
        if (Count > SegmentItems * SegmentsKept) Array.Resize(ref _segments, SegmentsKept);
        Count = 0;
    }
}
