namespace Whimbrel.Buffers;

/// <summary>
/// The free segments of the pipes of one loop's connections, last in first out: taken on the loop and returned on any
/// thread, or vice versa. Two lengths, so that a suitable one is available soon. The framework's shared pool keeps only
/// 32 arrays of a length for each cpu, and fewer after a collection, but one turn may receive data for more
/// connections.
/// </summary>
internal sealed class PipeSegments
{
    /// <summary>Length for data that waits for its reader, so it is not much longer than most messages.</summary>
    internal const int Short = 4 * 1024;

    /// <summary>Length for bulk data: the maximum of most receives, and one piece of a send.</summary>
    internal const int Long = 64 * 1024;

    /// <summary>
    /// Number of bytes from which a receive uses a long segment, which following data fills up; less uses short ones.
    /// </summary>
    internal const int BulkBytes = 16 * 1024;

    /// <summary>
    /// Maximum of kept memory for each length: enough for 256 connections with bulk data in one turn. More is allocated
    /// for each receive, which costs more than keeping it (design 46).
    /// </summary>
    private const int MostKeptBytes = 16 * 1024 * 1024;

    private readonly Lock _gate = new();
    private Row _short;
    private Row _long;

    /// <summary>Takes an empty segment.</summary>
    /// <param name="owner">Pipe half that takes it.</param>
    /// <param name="least">Minimum size.</param>
    /// <param name="index">Position of its first byte in the whole stream of the pipe.</param>
    internal PipeSegment Take(object owner, int least, long index)
    {
        bool isLong = least is > Short and <= Long; // longer ones are rented, by a short segment
        PipeSegment? segment;
        // tidy: allowed because segments are taken on one thread and returned on another; a few instructions, never
        // nested
        lock (_gate) segment = isLong ? _long.Take() : _short.Take();
        segment ??= new PipeSegment(isLong ? Long : Short);
        segment.Begin(owner, least, index);
        return segment;
    }

    /// <summary>Returns a chain of segments.</summary>
    internal void Return(PipeSegment? first)
    {
        for (PipeSegment? segment = first; segment is not null; segment = segment.NextSegment) segment.End();
        // tidy: allowed because segments are taken on one thread and returned on another; a few instructions, never
        // nested
        lock (_gate)
        {
            while (first is { } segment)
            {
                first = segment.NextSegment;
                if (segment.OwnBytes == Long) _long.Put(segment);
                else _short.Put(segment);
            }
        }
    }

    private struct Row
    {
        private PipeSegment? _first;
        private int _bytes;

        internal PipeSegment? Take()
        {
            if (_first is not { } segment) return null;
            _first = segment.NextSegment;
            _bytes -= segment.OwnBytes;
            return segment;
        }

        internal void Put(PipeSegment segment)
        {
            if (_bytes >= MostKeptBytes) return;
            segment.NextSegment = _first;
            _first = segment;
            _bytes += segment.OwnBytes;
        }
    }
}
