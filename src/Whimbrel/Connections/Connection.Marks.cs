using Whimbrel.Engines;

namespace Whimbrel.Connections;

/// <summary>
/// Who awaits that what was sent has left (contract 23). A mark is a number of bytes: what was sent before it, and what is pending when it is made. The
/// queue knows nothing of marks, and engines neither.
/// </summary>
internal sealed partial class Connection
{
    /// <summary>Any thread.</summary>
    internal ValueTask<bool> SentAsync(uint generation)
    {
        SentMark mark;
        if (Loop.IsCurrent)
        {
            if (generation != Generation || HasDropped) return new(false);
            SettleForeign();
            if (HasSentAll) return new(true);
            mark = Loop.FreeMarks.Take(Loop);
            ValueTask<bool> here = mark.Task;
            Add(mark);
            return here;
        }

        // In this order: what is thrown away was refused before. Open behind the look at what is pending, it has all left.
        if (Volatile.Read(ref _operationCount) == 0 && _queue.PendingFromElsewhere() == 0
            && _queue.Foreign.IsOpenFor(generation))
            return new(true);
        mark = Loop.FreeMarks.Take(Loop);
        ValueTask<bool> task = mark.Task;
        if (!Loop.Mailbox.PostInOrder(InboxKind.Mark, this, generation, mark)) mark.SetResult(false);
        return task;
    }

    internal void LowWaterMark(uint generation, SentMark mark)
    {
        if (generation == Generation) SettleStrand();
        if (generation != Generation || HasDropped) mark.SetResult(false);
        else if (HasSentAll) mark.SetResult(true);
        else Add(mark);
    }

    /// <summary>What was queued may have been thrown away.</summary>
    private bool HasDropped =>
        _tenancy.SendError != 0 || _tenancy.QueueFault is not null
        || State is ConnectionState.Closed or ConnectionState.Free || _tenancy.Tls is { Phase: TlsPhase.Over };

    private bool HasSentAll => _tenancy.FirstOperation is null && QueuedInOrder == 0;

    /// <summary>What is pending here and leaves in the order of the queue. What a gate holds back goes behind it, or is dropped.</summary>
    private long QueuedInOrder
    {
        get
        {
            long queued = _queue.Queued;
            if (_heldRuns is not { Count: > 0 } held) return queued;
            foreach ((_, _, int length) in held) queued -= length;
            return queued;
        }
    }

    private void Add(SentMark mark)
    {
        ReleaseSends();
        if (_tenancy.LastOperation is { } last)
        {
            mark.Behind = last;
            last.FirstMark ??= mark;
        }
        else
        {
            mark.At = _tenancy.BytesSent + QueuedInOrder;
        }

        _tenancy.Marks.Enqueue(mark);
    }

    /// <summary>
    /// An operation goes out of the list: with all of its bytes queued, or without any. What stood behind it stands behind
    /// <paramref name="previous"/> now, or behind what is queued.
    /// </summary>
    private void ReleaseMarks(SendOperation operation, SendOperation? previous = null)
    {
        if (operation.FirstMark is not { } first) return;
        operation.FirstMark = null;
        for (SentMark? mark = first; mark is not null && ReferenceEquals(mark.Behind, operation); mark = mark.Next)
        {
            mark.Behind = previous;
            mark.At = _tenancy.BytesSent + QueuedInOrder;
        }

        if (previous is not null) previous.FirstMark ??= first;
        else PassMarks();
    }

    /// <summary>
    /// The system took bytes. Over TLS records are what it takes: whose bytes are in the part of them that has left is known when all have, which is
    /// before the next are made.
    /// </summary>
    private void PassMarks()
    {
        if (_tenancy.Tls is { Wire.IsEmpty: false }) return;
        while (_tenancy.Marks.First is { Behind: null } first && first.At <= _tenancy.BytesSent)
            _tenancy.Marks.Dequeue().SetResult(true);
    }

    /// <summary>All that is queued is thrown away.</summary>
    private void DropMarks()
    {
        while (_tenancy.Marks.First is not null) _tenancy.Marks.Dequeue().SetResult(false);
    }
}
