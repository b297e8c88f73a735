using Whimbrel.Engines;

namespace Whimbrel.Streams;

/// <summary>The pending read of a stream; reused for the next one. Owner: its session.</summary>
internal sealed class StreamRead : Completion<int>
{
    private readonly StreamSession _session;
    private bool _hasLimit;
    private int _isTaken; // used with a timeout only

    internal StreamRead(StreamSession session)
        : base(session.Loop.Engine) => _session = session;

    /// <summary>
    /// The caller's memory, into which received data is copied directly. Empty for a read that only waits.
    /// </summary>
    internal Memory<byte> Into { get; private set; }

    internal CancellationToken Cancellation { get; private set; }

    /// <summary>Begins a read. With a timeout its caller is a blocked thread that may withdraw it.</summary>
    internal void Begin(Memory<byte> into, bool hasLimit, CancellationToken cancellation)
    {
        Into = into;
        Cancellation = cancellation;
        _hasLimit = hasLimit;
        Volatile.Write(ref _isTaken, 0);
    }

    /// <summary>
    /// Claims the read before its memory is used. Returns false if the caller has withdrawn it. Costs nothing without a
    /// timeout.
    /// </summary>
    internal bool TryTake() => !_hasLimit || Interlocked.Exchange(ref _isTaken, 1) == 0;

    /// <summary>True if the caller has withdrawn the read before the loop started it.</summary>
    internal bool IsTakenBack => _hasLimit && Volatile.Read(ref _isTaken) != 0;

    /// <summary>
    /// Withdraws the read at its timeout. Returns false if it is being completed. The object is not reused, because the
    /// loop may still refer to it.
    /// </summary>
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
