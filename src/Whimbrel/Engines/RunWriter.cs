using Whimbrel.Buffers;

namespace Whimbrel.Engines;

/// <summary>Writes what several connections of a loop are to send, small pieces one behind the other into a run that stays open. Loop's thread; a field of its owner and never copied.</summary>
internal struct RunWriter(Loop loop)
{
    private const int Small = 16 * 1024;

    private Run? _run;
    private int _lease;

    /// <summary>
    /// The bytes, at the end of a run. The caller gives the run back (<see cref="BlockPool.Release"/>) when all have queued their stretch of it: until then it is
    /// held, whatever a callback in between writes or closes here.
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
            // Nobody refers to it any more: start again at its front, which is still in the cache.
            if (current.References == 1) current.Length = 0;
            if (current.Room >= length) return current;
            Close();
        }

        Run opened = _run = loop.TakeOpenRun(length);
        _lease = opened.Lease;
        return opened;
    }

    /// <summary>Nothing more is written behind what was: the run goes back when all have sent it.</summary>
    internal void Close()
    {
        Run? run = _run;
        _run = null;
        if (run is not null && run.Lease == _lease) loop.Blocks.CloseRun(run);
    }
}
