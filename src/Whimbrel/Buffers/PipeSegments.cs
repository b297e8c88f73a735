namespace Whimbrel.Buffers;

/// <summary>
/// The free segments of the pipes of one loop's connections, last in first out: taken on the loop and given back on any thread, or the other way round. There are two
/// lengths, so that what was once needed of each is soon there. The framework's shared pool keeps 32 arrays of a length for each cpu, and fewer after a collection; a turn may
/// bring bytes for more connections.
/// </summary>
internal sealed class PipeSegments
{
    /// <summary>What stands in one waits for its reader, so it is not much longer than most messages.</summary>
    internal const int Short = 4 * 1024;

    /// <summary>For bytes that come or go in bulk: as long as most receives are at most, and one piece of a send.</summary>
    internal const int Long = 64 * 1024;

    /// <summary>So much at once goes into a long segment, which what comes next fills up; less waits in short ones.</summary>
    internal const int BulkBytes = 16 * 1024;

    /// <summary>Of each length: what 256 connections have that a turn brings much for. What is above it is made anew for each receive and costs more than it holds (design 46).</summary>
    private const int MostKeptBytes = 16 * 1024 * 1024;

    private readonly Lock _gate = new();
    private Row _short;
    private Row _long;

    /// <summary>A segment without bytes.</summary>
    /// <param name="owner">Which half of which pipe takes it.</param>
    /// <param name="least">Room it has at least.</param>
    /// <param name="index">Where its first byte stands in all that goes through the pipe.</param>
    internal PipeSegment Take(object owner, int least, long index)
    {
        bool isLong = least is > Short and <= Long; // what is longer is rented, by a short one
        PipeSegment? segment;
        // tidy: allowed because segments are taken on one thread and given back on another; a few instructions, never nested
        lock (_gate) segment = isLong ? _long.Take() : _short.Take();
        segment ??= new PipeSegment(isLong ? Long : Short);
        segment.Begin(owner, least, index);
        return segment;
    }

    /// <summary>Gives a row back.</summary>
    internal void Return(PipeSegment? first)
    {
        for (PipeSegment? segment = first; segment is not null; segment = segment.NextSegment) segment.End();
        // tidy: allowed because segments are taken on one thread and given back on another; a few instructions, never nested
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
