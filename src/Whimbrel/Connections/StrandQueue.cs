using System.Diagnostics;

namespace Whimbrel.Connections;

/// <summary>Code that a strand runs besides received data, with two arguments.</summary>
internal readonly record struct StrandEvent(Action<PoolSession, object?, object?> Run, object? First, object? Second)
{
    /// <summary>Continuation of an await.</summary>
    internal static readonly Action<PoolSession, object?, object?> Continuation =
        static (pool, continuation, state) => pool.Continue((Action<object?>)continuation!, state);
}

/// <summary>Kind of a step. The first one that is possible runs next.</summary>
internal enum StrandStepKind : byte
{
    None,
    Event,
    OfferUnread,
    Data,
    Finish,
    Last,
}

/// <summary>One step of a strand, outside of its lock.</summary>
/// <param name="Kind">Kind.</param>
/// <param name="Event">Event to run.</param>
/// <param name="Block">Received data to deliver.</param>
/// <param name="IsLow">True if so little data waits that the connection may be read again.</param>
internal readonly record struct StrandStep(StrandStepKind Kind, StrandEvent Event, StrandBlock? Block, bool IsLow);

/// <summary>
/// Everything that waits for a strand: events, received data in blocks, the peer's FIN and the end. Under the lock of
/// the strand, except where noted.
/// </summary>
internal struct StrandQueue(StrandBlocks blocks)
{
    /// <summary>At this number of waiting bytes the connection is not read, until half of them are left.</summary>
    internal const int HoldAboveBytes = 128 * 1024;

    /// <summary>The same while the strands of the loop use many blocks.</summary>
    private const int HoldSoonerAboveBytes = 64 * 1024;

    private readonly Queue<StrandEvent> _events = new();
    private int _eventCount; // here, because received data must not read the other object
    private StrandBlock? _first;
    private StrandBlock? _last;
    private int _bytes;
    private bool _isFull;
    private bool _isFinishPending;
    private bool _isLastPending;

    /// <summary>Number of received bytes that wait. Any thread; may be outdated when it returns.</summary>
    internal readonly int Bytes => Volatile.Read(in _bytes);

    internal readonly bool IsEmpty =>
        _eventCount == 0 && _first is null && !_isFinishPending && !_isLastPending;

    private readonly int HoldMark => blocks.IsMuchHeld ? HoldSoonerAboveBytes : HoldAboveBytes;

    internal void Add(in StrandEvent item)
    {
        _events.Enqueue(item);
        _eventCount++;
    }

    /// <summary>Returns true if the queue is full now: the connection must not be read.</summary>
    internal bool Add(StrandBlock block)
    {
        Link(block);
        return Count(block.Length);
    }

    /// <summary>Adds a copy of the data. Returns true if the queue is full now.</summary>
    internal bool Add(ReadOnlySpan<byte> data)
    {
        int count = data.Length;
        while (!data.IsEmpty)
        {
            // Data that a small block cannot take whole is not split, because a session would see a part of it first.
            if (_last is null || _last.Room.IsEmpty || (_last.IsSmall && data.Length > _last.Room.Length))
                Link(_last is null && data.Length <= StrandBlock.SmallCapacity ? blocks.TakeSmall() : blocks.Take());
            data = data[_last!.Write(data)..];
        }

        return Count(count);
    }

    internal void AddFinish()
    {
        Debug.Assert(!_isFinishPending, "the peer sends one FIN");
        _isFinishPending = true;
    }

    internal void AddLast()
    {
        Debug.Assert(!_isLastPending, "a session ends once");
        _isLastPending = true;
    }

    /// <summary>Returns the kind of the next step, and leaves it in the queue.</summary>
    internal readonly StrandStepKind Peek(PoolSession owner)
    {
        if (_eventCount > 0) return StrandStepKind.Event;
        if (!owner.IsEnded && owner.Driver.Gate == ReceiveGate.None)
        {
            if (owner.Driver.OffersAgain && owner.Driver.UnreadCount > 0) return StrandStepKind.OfferUnread;
            if (_first is not null) return StrandStepKind.Data;
            if (_isFinishPending) return StrandStepKind.Finish;
        }

        return _isLastPending ? StrandStepKind.Last : StrandStepKind.None;
    }

    internal StrandStep Take(PoolSession owner)
    {
        StrandStepKind kind = Peek(owner);
        StrandEvent item = kind == StrandStepKind.Event ? TakeEvent() : default;
        bool isLow = false;
        StrandBlock? block = kind == StrandStepKind.Data ? TakeBlock(out isLow) : null;
        if (kind == StrandStepKind.Finish) _isFinishPending = false;
        if (kind == StrandStepKind.Last) _isLastPending = false;
        if (kind is StrandStepKind.OfferUnread or StrandStepKind.Data) owner.Driver.ForgetOffer();
        return new StrandStep(kind, item, block, isLow);
    }

    private StrandEvent TakeEvent()
    {
        _eventCount--;
        return _events.Dequeue();
    }

    private StrandBlock TakeBlock(out bool isLow)
    {
        StrandBlock block = _first!;
        _first = block.Next;
        if (_first is null) _last = null;
        block.Next = null;
        _bytes -= block.Length;
        isLow = _isFull && _bytes <= HoldMark / 2;
        if (isLow) _isFull = false;
        return block;
    }

    /// <summary>Takes all blocks of received data, linked.</summary>
    /// <param name="wasFull">True if the connection may be read again.</param>
    internal StrandBlock? TakeBlocks(out bool wasFull)
    {
        StrandBlock? first = _first;
        _first = _last = null;
        _bytes = 0;
        wasFull = _isFull;
        _isFull = false;
        return first;
    }

    private void Link(StrandBlock block)
    {
        if (_last is null) _first = block;
        else _last.Next = block;
        _last = block;
    }

    private bool Count(int bytes)
    {
        _bytes += bytes;
        if (_isFull || _bytes < HoldMark) return false;
        _isFull = true;
        return true;
    }
}
