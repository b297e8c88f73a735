using Whimbrel.Buffers;

namespace Whimbrel.Engines;

/// <summary>
/// Writes data for several connections of a loop. Small pieces are appended to a run that stays open. Loop's thread; a
/// field of its owner, never copied.
/// </summary>
internal struct RunWriter(Loop loop)
{
    private const int Small = 16 * 1024;

    private Run? _run;
    private int _lease;

    /// <summary>
    /// Appends the bytes to a run. The caller releases the run (<see cref="BlockPool.Release"/>) when all connections
    /// have queued their part of it. Until then a reference holds it, even if a callback writes or closes here
    /// meanwhile.
    /// </summary>
    internal Run Write(ReadOnlySpan<byte> data, out int start)
    {
        Run run = RunFor(data.Length);
        start = run.Length;
        run.Append(data);
        if (ReferenceEquals(run, _run)) run.References++;
        return run;
    }

    private Run RunFor(int length)
    {
        if (length >= Small) return loop.Blocks.TakeRun(length);

        if (_run is { } current && current.Lease == _lease)
        {
            // No connection refers to it any more: start again at its front, which is still in the cpu cache.
            if (current.References == 1) current.Length = 0;
            if (current.Room >= length) return current;
            Close();
        }

        Run opened = _run = loop.TakeOpenRun(length);
        _lease = opened.Lease;
        return opened;
    }

    /// <summary>
    /// Closes the open run: nothing more is appended, and it is released when all connections have sent it.
    /// </summary>
    internal void Close()
    {
        Run? run = _run;
        _run = null;
        if (run is not null && run.Lease == _lease) loop.Blocks.CloseRun(run);
    }
}
