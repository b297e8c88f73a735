using System.Buffers;
using Whimbrel.Buffers;
using Whimbrel.Engines;

namespace Whimbrel.Connections;

/// <summary>
/// Callers that wait: <c>SendAsync</c> for space (contract 6), paced sends for a shorter queue (docs/design/0068),
/// <c>SentAsync</c> for the kernel (contract 23), and pipes for space (contract 22).
/// </summary>
internal partial struct OutboundQueue
{
    // ------------------------------------------------------------------ SendAsync (contract 6)

    internal ValueTask<SendResult> SendAsync(
        ReadOnlyMemory<byte> head,
        ReadOnlyMemory<byte> body,
        in ReadOnlySequence<byte> tail,
        in FileRange file,
        uint generation,
        CancellationToken cancellation)
    {
        if (cancellation.IsCancellationRequested) return ValueTask.FromCanceled<SendResult>(cancellation);
        if (BeginSend(head, body, tail, file, generation, out SendResult result) is not { } operation)
        {
            if (result != SendResult.Queued) return new(result);
            long length = (long)head.Length + body.Length + Pieces.LengthOf(tail);
            // Nothing to send has nothing to wait for; on the pool the wait itself would use up the room of Reserve.
            bool isEmpty = length == 0 && file.Length == 0;
            return isEmpty || MayGoOn(length, generation) ? new(result) : Pace(length, generation, cancellation);
        }

        ValueTask<SendResult> task = operation.Task;
        if (cancellation.CanBeCanceled) operation.CancelWith(cancellation);
        return task;
    }

    /// <summary>
    /// Sends at once, with a result, or begins to wait for room: then it gives the operation that ends with one. The
    /// parts are one message; most have the first only. A part of a file follows a head only.
    /// </summary>
    internal SendOperation? BeginSend(
        ReadOnlyMemory<byte> head,
        ReadOnlyMemory<byte> body,
        in ReadOnlySequence<byte> tail,
        in FileRange file,
        uint generation,
        out SendResult result,
        bool mayBeTakenBack = false)
    {
        result = SendResult.Closed;
        long length = (long)head.Length + body.Length + Pieces.LengthOf(tail);
        if (_connection.IsRefused(length + file.Length, generation))
        {
            result = SendResult.Refused;
            return null;
        }

        bool onLoop = Loop.IsCurrent;
        if (!onLoop)
        {
            if (!_queue.Foreign.IsOpenFor(generation)) return null;
        }
        else if (!TakesSends(generation))
        {
            return null;
        }

        // Looked at here and not left to Send: another thread may take the room in between, and then this one waits.
        if (Volatile.Read(ref _operationCount) == 0 && HasRoomFor(length + file.Charge))
        {
            result = file.Length > 0 ? TakeFile(head.Span, file, generation, mayWait: true)
                : length > head.Length ? TakePieces(new Pieces([head, body], tail), generation, mayWait: true)
                : TakeCopy(head.Span, default, generation, mayWait: true);
            if (result != SendResult.Full) return null;
        }

        if (!onLoop) PoolSession.CurrentOf(_connection, generation)?.Sends.GiveBackReserved();
        SendOperation operation = SendOperation.Take(Loop);
        operation.Begin(_connection, generation, head, body, tail, file, length, mayBeTakenBack);
        OperationBegins();
        if (onLoop)
        {
            SettleForeign();
            Enqueue(operation);
            PumpOperations();
        }
        else if (!Loop.Mailbox.PostInOrder(InboxKind.SendOperation, _connection, generation, operation))
            operation.End(SendResult.Closed);
        return operation;
    }

    internal void DrainOperation(uint generation, SendOperation operation)
    {
        if (generation != Generation || !TakesQueued || _error != 0)
        {
            operation.End(SendResult.Closed);
            return;
        }

        if (operation.IsCancelRequested)
        {
            operation.EndCancelled();
            return;
        }

        Enqueue(operation);
        PumpOperations();
    }

    private void Enqueue(SendOperation operation)
    {
        ReleaseSends();
        _operations.Enqueue(operation);
    }

    /// <summary>From now on later sends wait for this operation. Any thread.</summary>
    internal void OperationBegins() => Interlocked.Increment(ref _operationCount);

    internal void OperationEnded()
    {
        Interlocked.Decrement(ref _operationCount);
        // It may have been the last thing that an end waited for; also the end of the next tenant, when it came too
        // late for the one it was meant for.
        if (Loop.IsCurrent && (State == ConnectionState.Draining || IsFinishing)) Loop.Schedule(_connection);
    }

    /// <summary>
    /// First come first served: whole messages while they fit; one above the limit in pieces with nothing between.
    /// </summary>
    private void PumpOperations()
    {
        while (_operations.First is { } operation && _fault is null)
        {
            long room = _queue.RoomLeft;
            long rest = operation.Left + operation.File.Charge;
            bool inPieces = operation.HasStarted || rest > _queue.Limit;
            // What other threads were promised already comes before the first piece: nothing may come between the
            // pieces.
            if (inPieces && !operation.HasStarted && _queue.Foreign.Bytes != 0) break;
            // The rest of it is in the caller's memory: a copy of more than the system takes soon costs memory for
            // nothing.
            if (inPieces) room = Math.Min(room, Math.Max(0, SendPace.MostPending - QueuedInOrder + _queue.InFiles));
            if (rest > room && (!inPieces || room < Math.Min(rest, Math.Min(BlockPool.BlockBytes, _queue.Limit)) / 2))
                break;
            int count = (int)Math.Min(operation.Left, room);
            if (!operation.HasStarted && !operation.TryTake())
            {
                CancelOperation(operation);
                return;
            }

            if (!TryAppend(operation, count)) continue;
            if (operation.Left > 0) break;
            _operations.Dequeue();
            if (operation.File.Length > 0) EnqueueFile(operation.File);
            ReleaseMarks(operation);
            CountMessage(count + operation.File.Length);
            operation.End(SendResult.Queued);
            ReleaseHeldRuns();
        }

        // While a call waits, the open block is closed, because Send checks the open block only.
        if (_operations.First is not null) _queue.CloseFill();
        else if (_waitingFeeds > 0) Loop.Schedule(_connection);
    }

    /// <summary>
    /// The memory of a SendAsync is the user's, and may throw: then that send has failed. In the middle of a message
    /// the connection is ended.
    /// </summary>
    private bool TryAppend(SendOperation operation, int count)
    {
        try
        {
            while (count > 0)
            {
                ReadOnlySpan<byte> part = operation.Part(count);
                Append(part);
                operation.Advance(part.Length);
                count -= part.Length;
            }
        }
        catch (Exception e)
        {
            _operations.Dequeue();
            ReleaseMarks(operation);
            if (operation.HasStarted) MemoryThrew(e);
            operation.EndFailed(e);
            return false;
        }

        return true;
    }

    /// <summary>
    /// Gives up one operation. Before its first piece nothing was sent; after it the message cannot be taken back.
    /// </summary>
    internal void CancelOperation(SendOperation operation)
    {
        if (!_operations.TryRemove(operation, out SendOperation? previous))
        {
            operation.IsCancelRequested = true;
            return;
        }

        bool started = operation.HasStarted;
        ReleaseMarks(operation, previous);
        operation.EndCancelled();
        if (started)
        {
            _connection.AbortWith(new CloseReason(CloseCause.Cancelled));
            return;
        }

        PumpOperations();
        if (State == ConnectionState.Draining || IsFinishing) Loop.Schedule(_connection);
    }

    internal void EndOperations()
    {
        while (_operations.First is not null) _operations.Dequeue().End(SendResult.Closed);
    }

    // ------------------------------------------------------------------ paced sends

    /// <summary>
    /// True if much is pending in order and in memory. A waiting file costs nothing, and data held by a gate is not the
    /// sender's.
    /// </summary>
    private bool IsMuchPending => QueuedInOrder - _queue.InFiles > SendPace.MostPending;

    /// <summary>True if the caller of an awaited, queued send may continue at once. Any thread.</summary>
    private bool MayGoOn(long length, uint generation)
    {
        if (!Loop.IsCurrent)
        {
            return (PoolSession.CurrentOf(_connection, generation)?.Sends.MaySendOn(length) ?? true)
                && _queue.ChargedFromElsewhere() <= SendPace.MostPending;
        }

        SendPace pace = Loop.SendPace;
        if (_paceTurn != pace.Turn) (_paceTurn, _paceBytes) = (pace.Turn, 0);
        _paceBytes = (int)Math.Min(_paceBytes + length, int.MaxValue);
        pace.Spend(length);
        bool hasPart = _paceBytes < SendPace.MostOfConnection
            && (!pace.IsSpent || _paceBytes <= SendPace.FreeOfConnection);
        return hasPart && !IsMuchPending;
    }

    private ValueTask<SendResult> Pace(long length, uint generation, CancellationToken cancellation)
    {
        PacedSend send = PacedSend.Take(Loop, length);
        ValueTask<SendResult> task = send.Task;
        if (cancellation.CanBeCanceled) send.CancelWith(cancellation);
        if (Loop.IsCurrent) Add(send);
        else if (!Loop.Mailbox.PostInOrder(InboxKind.Paced, _connection, generation, send)) send.Release();
        return task;
    }

    internal void DrainPaced(uint generation, PacedSend send)
    {
        if (generation != Generation || HasDropped) send.Release();
        else Add(send);
    }

    private void Add(PacedSend send)
    {
        if (!IsMuchPending)
        {
            Loop.SendPace.Wait(send);
            return;
        }

        _paced.Enqueue(send);
    }

    /// <summary>Releases paced sends after the queue got shorter.</summary>
    private void PassPaced()
    {
        while (_paced.First is not null && !IsMuchPending) Loop.SendPace.Wait(_paced.Dequeue());
    }

    /// <summary>Releases all paced sends when the queue is discarded.</summary>
    private void DropPaced()
    {
        while (_paced.First is not null) _paced.Dequeue().Release();
    }

    // ------------------------------------------------------------------ SentAsync (contract 23)

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

        // In this order. Broadcasts of the caller are in the queues of their members when the mailbox has run them. The
        // word is closed before data is discarded, so if it is still open, all data was sent.
        if (Loop.Mailbox.HasRunAll && Volatile.Read(ref _operationCount) == 0 && _queue.PendingFromElsewhere() == 0
            && _queue.Foreign.IsOpenFor(generation))
            return new(true);
        mark = Loop.FreeMarks.Take(Loop);
        ValueTask<bool> task = mark.Task;
        if (!Loop.Mailbox.PostInOrder(InboxKind.Mark, _connection, generation, mark)) mark.SetResult(false);
        return task;
    }

    internal void LowWaterMark(uint generation, SentMark mark)
    {
        if (generation == Generation) SettleStrand();
        if (generation != Generation || HasDropped) mark.SetResult(false);
        else if (HasSentAll) mark.SetResult(true);
        else Add(mark);
    }

    /// <summary>True if queued data may have been discarded.</summary>
    private bool HasDropped =>
        _error != 0 || _fault is not null
        || State is ConnectionState.Closed or ConnectionState.Free || Tls is { Phase: TlsPhase.Over };

    private bool HasSentAll => _operations.First is null && QueuedInOrder == 0;

    /// <summary>
    /// Number of pending bytes, without broadcasts that the gate holds: these are queued later, or dropped.
    /// </summary>
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
        if (_operations.Last is { } last)
        {
            mark.Behind = last;
            last.FirstMark ??= mark;
        }
        else
        {
            mark.At = _bytesSent + QueuedInOrder;
        }

        _marks.Enqueue(mark);
    }

    /// <summary>
    /// Moves the marks of an operation that leaves the list to <paramref name="previous"/>, or to the queued data.
    /// </summary>
    private void ReleaseMarks(SendOperation operation, SendOperation? previous = null)
    {
        if (operation.FirstMark is not { } first) return;
        operation.FirstMark = null;
        for (SentMark? mark = first; mark is not null && ReferenceEquals(mark.Behind, operation); mark = mark.Next)
        {
            mark.Behind = previous;
            mark.At = _bytesSent + QueuedInOrder;
        }

        if (previous is not null) previous.FirstMark ??= first;
        else PassMarks();
    }

    /// <summary>
    /// Completes the marks that were reached. Over TLS the system takes records. Which bytes a part of them contains is
    /// known when all have been sent, which is before the next are made.
    /// </summary>
    private void PassMarks()
    {
        if (Tls is { Wire.IsEmpty: false }) return;
        while (_marks.First is { Behind: null } first && first.At <= _bytesSent)
            _marks.Dequeue().SetResult(true);
    }

    /// <summary>Completes all marks with false, because the queue is discarded.</summary>
    private void DropMarks()
    {
        while (_marks.First is not null) _marks.Dequeue().SetResult(false);
    }

    // ------------------------------------------------------------------ pipes into this connection (contract 22)

    /// <summary>
    /// True if so little is pending that the sources of pipes are read again: the same limit as for a session's own
    /// back-pressure.
    /// </summary>
    private bool HasRoomForFeeds =>
        _waitingFeeds > 0 && _operations.First is null && PendingHere <= _connection.HoldMark / 4;

    /// <summary>True if a send, a pipe or a hold waits until the queue gets shorter.</summary>
    private bool NeedsRoom => _operations.First is not null || _connection.WaitsForQueue || _waitingFeeds > 0
        || _paced.First is not null;

    /// <summary>
    /// Queues data of a pipe completely or not at all, without applying the SlowConsumer policy. Any thread.
    /// </summary>
    internal SendResult Feed(ReadOnlySpan<byte> data, uint generation) =>
        TakeCopy(data, default, generation, mayWait: true);

    internal void AddFeed(Pipe pipe, bool waits, uint generation)
    {
        if (generation != Generation || State != ConnectionState.Open || !ReferenceEquals(Session, pipe.Target)
            || !TakesSends(generation))
        {
            pipe.TargetEnded(
                generation == Generation && ReferenceEquals(Session, pipe.Target)
                    ? _connection.EndSoFar
                    : pipe.Target.EndReason);
            return;
        }

        if (!pipe.IsFeed)
        {
            pipe.IsFeed = true;
            pipe.NextFeed = _firstFeed;
            _firstFeed = pipe;
        }

        if (!waits || pipe.WaitsForRoom) return;
        pipe.WaitsForRoom = true;
        // With a fence, because another thread that frees space checks this field afterwards.
        Interlocked.Increment(ref _waitingFeeds);
        if (HasRoomForFeeds) WakeFeeds();
    }

    internal void RemoveFeed(Pipe pipe, uint generation)
    {
        if (generation != Generation || !pipe.IsFeed) return;
        pipe.IsFeed = false;
        if (pipe.WaitsForRoom) _waitingFeeds--;
        pipe.WaitsForRoom = false;
        if (ReferenceEquals(_firstFeed, pipe))
        {
            _firstFeed = pipe.NextFeed;
        }
        else
        {
            for (Pipe? p = _firstFeed; p is not null; p = p.NextFeed)
            {
                if (ReferenceEquals(p.NextFeed, pipe)) p.NextFeed = pipe.NextFeed;
            }
        }

        pipe.NextFeed = null;
    }

    private void WakeFeeds()
    {
        for (Pipe? pipe = _firstFeed, next; pipe is not null; pipe = next)
        {
            // A woken pipe may end and leave the list.
            next = pipe.NextFeed;
            if (!pipe.WaitsForRoom) continue;
            pipe.WaitsForRoom = false;
            _waitingFeeds--;
            pipe.Wake();
        }
    }

    /// <summary>Ends the pipes into this session, because it has ended or hands over.</summary>
    internal void EndFeeds(CloseReason reason)
    {
        while (_firstFeed is { } pipe)
        {
            RemoveFeed(pipe, Generation);
            pipe.TargetEnded(reason);
        }
    }
}
