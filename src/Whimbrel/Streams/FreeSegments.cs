namespace Whimbrel.Streams;

/// <summary>Segments without memory, for the next use. Owner: the reader or the writer of a pipe.</summary>
/// <param name="session">Whose loop has the memory of short ones.</param>
internal struct FreeSegments(Session session)
{
    private const int MostKept = 32;

    private PipeSegment? _first;
    private int _count;

    /// <summary>A segment without bytes.</summary>
    /// <param name="least">Room it has at least.</param>
    /// <param name="index">Where its first byte stands in all that goes through the pipe.</param>
    internal PipeSegment Take(int least, long index)
    {
        PipeSegment segment = _first ?? new PipeSegment();
        if (_first is not null)
        {
            _first = segment.NextSegment;
            _count--;
        }

        segment.Rent(session.Loop.SmallBlocks, least, index);
        return segment;
    }

    /// <summary>Gives the memory of one segment back.</summary>
    internal void Return(PipeSegment segment)
    {
        bool isKept = _count < MostKept;
        segment.GiveBack(session.Loop.SmallBlocks, isKept ? _first : null);
        if (!isKept) return;
        _first = segment;
        _count++;
    }

    /// <summary>The same for all of a row.</summary>
    internal void ReturnAll(PipeSegment? first)
    {
        while (first is { } segment)
        {
            first = segment.NextSegment;
            Return(segment);
        }
    }
}
