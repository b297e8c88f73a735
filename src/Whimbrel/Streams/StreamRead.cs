using Whimbrel.Engines;

namespace Whimbrel.Streams;

/// <summary>The one read of a stream that may be under way, used again for the next. Owner: its session.</summary>
internal sealed class StreamRead : Completion<int>
{
    private readonly StreamSession _session;
    private bool _hasLimit;
    private int _isTaken; // of one with a limit

    internal StreamRead(StreamSession session)
        : base(session.Loop.Engine) => _session = session;

    /// <summary>The caller's memory; received bytes are copied straight into it. Empty for a read that only waits for some.</summary>
    internal Memory<byte> Into { get; private set; }

    internal CancellationToken Cancellation { get; private set; }

    /// <summary>With a limit its caller is a thread that blocks, and may take it back.</summary>
    internal void Begin(Memory<byte> into, bool hasLimit, CancellationToken cancellation)
    {
        Into = into;
        Cancellation = cancellation;
        _hasLimit = hasLimit;
        Volatile.Write(ref _isTaken, 0);
    }

    /// <summary>By who completes it, before it touches the memory. False: its caller has taken it back. Costs nothing without a limit.</summary>
    internal bool TryTake() => !_hasLimit || Interlocked.Exchange(ref _isTaken, 1) == 0;

    /// <summary>Before the loop has begun with it: its caller has taken it back.</summary>
    internal bool IsTakenBack => _hasLimit && Volatile.Read(ref _isTaken) != 0;

    /// <summary>Its caller's time is over. False: it is being completed. The object is not used again: the loop may still know it.</summary>
    internal bool TryTakeBack()
    {
        if (!TryTake()) return false;
        Into = default;
        return true;
    }

    private protected override void Consumed()
    {
        Into = default;
        Cancellation = default;
        Reset();
        _session.EndReading();
    }
}
