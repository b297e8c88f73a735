using System.Buffers;
using Whimbrel.Buffers;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;
using Whimbrel.Linux;

namespace Whimbrel.Connections;

/// <summary>
/// Sends that come from other threads, pass ownership or wait for room (contracts 5, 6, 7): reserved at the call,
/// posted to the mailbox, appended here when the loop drains it.
/// </summary>
internal sealed partial class Connection
{
    // ------------------------------------------------------------------ many pieces

    /// <summary>Queues a copy of all pieces as one message, whole or not at all. Any thread.</summary>
    internal SendResult Send(scoped in Pieces pieces, uint generation) =>
        IsRefused(pieces.Length, generation) ? SendResult.Refused : TakePieces(pieces, generation, mayWait: false);

    /// <summary>
    /// What may run code of the user's (memory that is not an array) is looked at before the message is admitted: it
    /// may throw, or send something itself. Such pieces, and more than a row holds, are joined first; so are those of
    /// other threads.
    /// </summary>
    private SendResult TakePieces(scoped in Pieces pieces, uint generation, bool mayWait)
    {
        if (Loop.IsCurrent && pieces.IsWhole)
        {
            if (pieces.Length >= ByReferenceBytes && CanSendNow) return SendPinned(pieces, generation, mayWait);
            if (!pieces.AsksUser) return AppendPieces(pieces, generation, mayWait);
        }

        // Above every limit.
        if (pieces.Length > Array.MaxLength)
            return Loop.IsCurrent
                ? AdmitOrWait(pieces.Length, generation, mayWait)
                : TryReserveForeign(int.MaxValue, generation, mayWait);
        byte[] joined = ArrayPool<byte>.Shared.Rent((int)pieces.Length);
        try
        {
            pieces.CopyTo(joined);
            return TakeCopy(joined.AsSpan(0, (int)pieces.Length), default, generation, mayWait);
        }
        finally
        {
            ArrayPool<byte>.Shared.Return(joined);
        }
    }

    private SendResult AppendPieces(scoped in Pieces pieces, uint generation, bool mayWait)
    {
        SendResult result = AdmitOrWait(pieces.Length, generation, mayWait);
        if (result != SendResult.Queued) return result;
        for (int i = 0; i < pieces.Count; i++) Append(pieces[i].Span);
        CountMessage((int)pieces.Length);
        Loop.FlushIfMany();
        return SendResult.Queued;
    }

    /// <summary>
    /// Sends from the caller's memory if the queue is empty. Copies the bytes that the kernel did not accept.
    /// </summary>
    // Safe: each vector is the whole of a piece, which stays pinned until the loop below gives it back.
    private unsafe SendResult SendPinned(scoped in Pieces pieces, uint generation, bool mayWait)
    {
        PinnedRow pins = default;
        IoVector* vectors = stackalloc IoVector[Pieces.MostInRow];
        int count = 0;
        try
        {
            for (; count < pieces.Count; count++)
            {
                pins[count] = pieces[count].Pin();
                vectors[count] =
                    new IoVector { Base = (byte*)pins[count].Pointer, Length = (nuint)pieces[count].Length };
            }

            SendResult result = AdmitOrWait(pieces.Length, generation, mayWait);
            if (result != SendResult.Queued) return result;
            SendAdmitted(new ReadOnlySpan<IoVector>(vectors, count), (int)pieces.Length);
            return _tenancy.SendError == 0 ? SendResult.Queued : SendResult.Closed;
        }
        finally
        {
            for (int i = 0; i < count; i++) Unpin(ref pins[i], generation);
        }
    }

    private void Unpin(ref MemoryHandle pin, uint generation)
    {
        try
        {
            pin.Dispose();
        }
        catch (Exception e)
        {
            // Whose connection this is now, when the caller came too late, has nothing to do with it.
            if (generation == Generation) MemoryThrew(e);
            else Loop.NoteMemory(e);
        }
    }

    // ------------------------------------------------------------------ memory whose ownership is passed

    /// <param name="head">Copied in front of it.</param>
    /// <param name="owner">Ours with <see cref="SendResult.Queued"/>.</param>
    /// <param name="part">What is to be sent of its memory, as the caller saw it.</param>
    /// <param name="offset">Where in the memory that begins.</param>
    /// <param name="generation">The caller's.</param>
    internal SendResult SendOwned(ReadOnlySpan<byte> head, IMemoryOwner<byte> owner, Memory<byte> part, int offset,
        uint generation)
    {
        long length = (long)head.Length + part.Length;
        if (IsRefused(length, generation)) return SendResult.Refused;
        if (!Loop.IsCurrent) return SendOwnedForeign(head, owner, offset, length, generation);
        SendResult result = Admit(length, generation);
        if (result == SendResult.Queued) EnqueueOwned(head, owner, part);
        return result;
    }

    /// <summary>
    /// When the memory throws, nothing was queued and the owner is still the caller's. Giving it back throws nothing.
    /// </summary>
    private void EnqueueOwned(ReadOnlySpan<byte> head, IMemoryOwner<byte> owner, Memory<byte> part)
    {
        if (part.Length < ByReferenceBytes)
        {
            // A small piece between two sends would cost each of those a block of its own.
            ReadOnlySpan<byte> bytes = part.IsEmpty ? default : part.Span;
            Append(head);
            Append(bytes);
            if (head.Length + bytes.Length > 0) CountOwned(owner);
            GiveBack(owner);
            return;
        }

        SettleStrand();
        // First: the memory is asked here, and nothing of the message may be queued when it throws.
        Block block = Loop.Blocks.TakeOwned(owner, part, part.Length);
        Append(head);
        _queue.Enqueue(block);
        CountOwned(owner);
        MarkDirty();
    }

    private void GiveBack(IMemoryOwner<byte> owner)
    {
        try
        {
            owner.Dispose();
        }
        catch (Exception e)
        {
            MemoryThrew(e);
        }
    }

    /// <summary>
    /// Memory of the user's that this connection sends, or has sent, threw on the loop. Perhaps in the middle of a
    /// send: noted, and the completion phase ends the connection, if it is still open. Until then nothing more is
    /// taken.
    /// </summary>
    private void MemoryThrew(Exception exception)
    {
        Loop.NoteMemory(exception);
        if (State != ConnectionState.Open || _tenancy.QueueFault is not null) return;
        _tenancy.QueueFault = exception;
        _queue.CloseFill();
        RefuseForeign();
        Loop.Schedule(this);
    }

    /// <summary>As what a fault of what is sent ends the connection.</summary>
    private CloseReason QueueFault =>
        new(_tenancy.FileFailed ? CloseCause.FileFailed : CloseCause.UserException, 0, _tenancy.QueueFault);

    private void CountOwned(IMemoryOwner<byte> owner)
    {
        if (Shard.CountsSends) Shard.MessagesSent++;
    }

    private SendResult SendOwnedForeign(ReadOnlySpan<byte> head, IMemoryOwner<byte> owner, int offset, long length,
        uint generation)
    {
        // More than any limit is refused by the first of the next lines.
        int bytes = (int)Math.Min(length, int.MaxValue);
        SendResult result = TryReserveForeign(bytes, generation);
        if (result != SendResult.Queued) return result;
        result = Loop.Mailbox.PostOwned(this, generation, head, owner, offset, bytes);
        if (result != SendResult.Queued) TakeBackForeign(bytes, generation);
        else Strand.CurrentOf(this, generation)?.Sent(bytes, leaves: false);
        return result;
    }

    /// <param name="generation">The sender's.</param>
    /// <param name="owner">Of the memory.</param>
    /// <param name="offset">Offset of the first byte in the memory.</param>
    /// <param name="length">Number of bytes.</param>
    internal void DrainOwned(uint generation, IMemoryOwner<byte> owner, int offset, int length)
    {
        BeginDrain();
        try
        {
            // Read again, not kept from the call: if other code has disposed the memory meanwhile, it may have a new
            // owner.
            if (generation == Generation && TakesQueued && _tenancy.SendError == 0)
                EnqueueDrained(owner, offset, length);
            else DropOwned(owner, length, generation);
        }
        catch (Exception e)
        {
            MemoryThrew(e);
            DropOwned(owner, length, generation);
        }

        ForeignArrived(length, generation);
    }

    /// <summary>Accepted, and dropped when its turn came: the connection was ending.</summary>
    private void CountLost(long length, uint generation)
    {
        if (generation == Generation) _tenancy.Life.Loses(length);
    }

    private void DropOwned(IMemoryOwner<byte> owner, int length, uint generation)
    {
        CountLost(length, generation);
        GiveBackOfOthers(owner);
    }

    /// <summary>Nothing of it is sent, and whose connection this is now has nothing to do with it.</summary>
    private void GiveBackOfOthers(IMemoryOwner<byte> owner)
    {
        try
        {
            owner.Dispose();
        }
        catch (Exception e)
        {
            Loop.NoteMemory(e);
        }
    }

    // ------------------------------------------------------------------ other threads

    /// <summary>What other threads were promised before an end still joins the queue.</summary>
    private bool TakesQueued => _tenancy.QueueFault is null
        && State is (ConnectionState.Open or ConnectionState.Concluding or ConnectionState.Draining);

    /// <summary>A SendAsync of this tenant waits for room, or is on its way to. Any thread.</summary>
    internal bool HasOperations(uint generation)
    {
        bool any = Volatile.Read(ref _operationCount) > 0;
        return any && _queue.Foreign.IsOf(generation);
    }

    private SendResult SendForeign(ReadOnlySpan<byte> head, ReadOnlySpan<byte> body, uint generation,
        bool mayWait = false)
    {
        int length = checked(head.Length + body.Length);
        SendResult result = TryReserveForeign(length, generation, mayWait);
        if (result != SendResult.Queued) return result;
        Strand? strand = length == 0 ? null : Strand.CurrentOf(this, generation);
        if (strand is not null && strand.TrySendLarge(head, body)) return SendResult.Queued;
        result = Loop.Mailbox.PostSend(this, generation, head, body, mayWait, isHeld: strand is not null);
        if (result != SendResult.Queued) TakeBackForeign(length, generation);
        // A caller that awaits the send may continue for a while before the callback returns.
        else if (strand is not null) strand.Sent(length, leaves: mayWait);
        return result;
    }

    /// <summary>
    /// Queues a reference to the copy that the connections of one loop share. A send on the session's own thread is
    /// cheaper and is used there. Any thread.
    /// </summary>
    internal SendResult Send(ReadOnlySpan<byte> data, uint generation, ref SharedCopies copies)
    {
        if (data.IsEmpty || Loop.IsCurrent || Strand.CurrentOf(this, generation) is not null)
            return Send(data, generation);
        if (IsRefused(data.Length, generation)) return SendResult.Refused;
        SendResult result = TryReserveForeign(data.Length, generation);
        if (result != SendResult.Queued) return result;
        result = Loop.Mailbox.PostShared(this, generation, data, ref copies);
        if (result != SendResult.Queued) TakeBackForeign(data.Length, generation);
        return result;
    }

    /// <summary>
    /// Releases reserved bytes that will not arrive by the mailbox. Any thread. Notifies the operation that waits until
    /// no bytes of other threads are reserved, because no item will do that.
    /// </summary>
    internal void TakeBackForeign(int length, uint generation)
    {
        _queue.Foreign.Release(length, generation);
        if (Volatile.Read(ref _operationCount) == 0 && Volatile.Read(ref _tenancy.WaitingFeeds) == 0
            && !_queue.Foreign.IsClosed)
            return;
        Loop.PostControl(static (_, connection, _, g) => ((Connection)connection!).ForeignGone((uint)g), this, null,
            generation);
    }

    /// <summary>No queue of this tenant's can ever hold so much at once. Any thread; also when it is over, and then
    /// false.</summary>
    internal bool IsTooLarge(long length, uint generation) =>
        length > ConnectionLimits.LeastSendBytes && !_queue.MayEverFit(length) && _queue.Foreign.IsOpenFor(generation);

    /// <summary>
    /// Reserves first: the limit must hold, and BytesPending be true, from the moment the caller returns (contract 8).
    /// </summary>
    internal SendResult TryReserveForeign(int length, uint generation, bool mayWait = false)
    {
        bool wasOffered = false;
        while (true)
        {
            long seen = _queue.Foreign.Read();
            if (!ForeignWord.IsOpenFor(seen, generation)) return SendResult.Closed;
            if (!mayWait && IsTooLarge(length, generation))
                Throw.TooLarge(length, _queue.Limit, Session.BroadcastRefusal is not null);
            if (Volatile.Read(ref _operationCount) > 0) return SendResult.Full;
            if (!_queue.HasRoomFromElsewhere(length))
            {
                // A callback on the pool may wait, and so the system is offered first what it has sent (contract 9).
                if (!mayWait && !wasOffered && Strand.CurrentOf(this, generation) is { } strand)
                {
                    strand.OfferQueue(length);
                    wasOffered = true;
                    continue;
                }

                return mayWait ? SendResult.Full : OverLimitForeign(generation);
            }

            if (!_queue.Foreign.TryAdd(seen, length)) continue;
            break;
        }

        if (Volatile.Read(ref _operationCount) == 0) return SendResult.Queued;
        // A SendAsync began meanwhile. If it saw these bytes, it waits for them; if not, it may already be sending its
        // pieces. In both cases the bytes are released, and the operation is notified.
        _queue.Foreign.Release(length, generation);
        Loop.PostControl(static (_, connection, _, g) => ((Connection)connection!).ForeignGone((uint)g), this, null,
            generation);
        return SendResult.Full;
    }

    /// <summary>Nothing of other threads is under way: what waited for that goes on.</summary>
    internal void ForeignGone(uint generation)
    {
        if (generation != Generation) return;
        if (_tenancy.FirstOperation is not null && TakesQueued) PumpOperations();
        if (State == ConnectionState.Draining || IsFinishing || _tenancy.DrainOwed || WaitsForQueue
            || _tenancy.WaitingFeeds > 0)
            Loop.Schedule(this);
    }

    private SendResult OverLimitForeign(uint generation)
    {
        // The shard is read once: the object may be recycled under a caller that comes late.
        if (Shard is not { } shard || shard.Options.CommonLimits.SlowConsumer != SlowConsumer.Disconnect)
            return SendResult.Full;
        if (!CloseForeign(generation)) return SendResult.Closed;
        Loop.PostControl(
            static (_, connection, _, g) =>
            {
                Connection c = (Connection)connection!;
                if (c.Generation != (uint)g) return;
                if (!c.TakesQueued) return;
                c.AbortWith(new CloseReason(CloseCause.SlowConsumer));
                c.NoteSlowConsumer();
            },
            this,
            null,
            generation);
        return SendResult.Closed;
    }

    /// <summary>
    /// This caller's later sends are refused from here on. False when they were already, or the tenant is gone.
    /// </summary>
    internal bool CloseForeign(uint generation) => _queue.Foreign.TryClose(generation);

    /// <summary>
    /// Abort from another thread: refused from here on, and quicker to the loop than sends. Any thread but the loop's.
    /// </summary>
    internal void AbortForeign(CloseReason reason, uint generation)
    {
        CloseForeign(generation);
        Loop.PostControl(
            static (_, c, r, g) =>
            {
                Connection connection = (Connection)c!;
                if (connection.Generation == (uint)g) connection.AbortWith((CloseReason)r!);
            },
            this,
            reason,
            generation);
    }

    private void RefuseForeign() => _queue.Foreign.TryClose(Generation);

    internal void GiveBackForeign(int length, uint generation) => _queue.Foreign.Release(length, generation);

    /// <summary>
    /// Begins the move that <see cref="ForeignArrived"/> ends. What may have to wait for the strand's system call does
    /// so before: readers of the counts wait for the end of a move.
    /// </summary>
    private void BeginDrain()
    {
        SettleStrand();
        _queue.BeginMove();
    }

    /// <summary>
    /// What another thread had reserved is in the queue now, or nowhere: ends the move that brought it.
    /// </summary>
    private void ForeignArrived(int length, uint generation)
    {
        _queue.Foreign.Release(length, generation);
        _queue.EndMove();
        ForeignGone(generation);
        Loop.FlushIfManyDrained();
    }

    internal void DrainClose(uint generation, object? reason)
    {
        if (generation == Generation) CloseWith(reason as CloseReason? ?? new CloseReason(CloseCause.LocalClose));
    }

    internal void DrainShutdownSend(uint generation)
    {
        if (generation == Generation) ShutdownSend();
    }

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
        if (IsRefused(length + file.Length, generation))
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

        if (!onLoop) Strand.CurrentOf(this, generation)?.LoseRoom();
        SendOperation operation = SendOperation.Take(Loop);
        operation.Begin(this, generation, head, body, tail, file, length, mayBeTakenBack);
        Interlocked.Increment(ref _operationCount);
        if (onLoop)
        {
            SettleForeign();
            Enqueue(operation);
            PumpOperations();
        }
        else if (!Loop.Mailbox.PostInOrder(InboxKind.SendOperation, this, generation, operation))
            operation.End(SendResult.Closed);
        return operation;
    }

    internal void DrainOperation(uint generation, SendOperation operation)
    {
        if (generation != Generation || !TakesQueued || _tenancy.SendError != 0)
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
        if (_tenancy.LastOperation is null) _tenancy.FirstOperation = operation;
        else _tenancy.LastOperation.Next = operation;
        _tenancy.LastOperation = operation;
    }

    internal void OperationEnded()
    {
        Interlocked.Decrement(ref _operationCount);
        // It may have been the last thing that an end waited for; also the end of the next tenant, when it came too
        // late for the one it was meant for.
        if (Loop.IsCurrent && (State == ConnectionState.Draining || IsFinishing)) Loop.Schedule(this);
    }

    /// <summary>
    /// First come first served: whole messages while they fit; one above the limit in pieces with nothing between.
    /// </summary>
    private void PumpOperations()
    {
        while (_tenancy.FirstOperation is { } operation && _tenancy.QueueFault is null)
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
            RemoveFirstOperation();
            if (operation.File.Length > 0) EnqueueFile(operation.File);
            ReleaseMarks(operation);
            CountMessage(count + operation.File.Length);
            operation.End(SendResult.Queued);
            ReleaseHeldRuns();
        }

        // While one waits nobody may use the room that is open: Send looks at nothing else.
        if (_tenancy.FirstOperation is not null) _queue.CloseFill();
        else if (_tenancy.WaitingFeeds > 0) Loop.Schedule(this);
    }

    /// <summary>
    /// The memory of a SendAsync is the user's, and may throw: then that send has failed. In the middle of a message
    /// the connection cannot go on.
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
            RemoveFirstOperation();
            ReleaseMarks(operation);
            if (operation.HasStarted) MemoryThrew(e);
            operation.EndFailed(e);
            return false;
        }

        return true;
    }

    private void RemoveFirstOperation()
    {
        SendOperation first = _tenancy.FirstOperation!;
        _tenancy.FirstOperation = first.Next;
        if (_tenancy.FirstOperation is null) _tenancy.LastOperation = null;
        first.Next = null;
    }

    /// <summary>
    /// Gives up one operation. Before its first piece nothing was sent; after it the message cannot be taken back.
    /// </summary>
    internal void CancelOperation(SendOperation operation)
    {
        SendOperation? previous = null;
        for (SendOperation? o = _tenancy.FirstOperation; o is not null; previous = o, o = o.Next)
        {
            if (!ReferenceEquals(o, operation)) continue;
            if (previous is null) RemoveFirstOperation();
            else
            {
                previous.Next = o.Next;
                if (ReferenceEquals(_tenancy.LastOperation, o)) _tenancy.LastOperation = previous;
                o.Next = null;
            }

            bool started = operation.HasStarted;
            ReleaseMarks(operation, previous);
            operation.EndCancelled();
            if (started) AbortWith(new CloseReason(CloseCause.Cancelled));
            else
            {
                PumpOperations();
                if (State == ConnectionState.Draining || IsFinishing) Loop.Schedule(this);
            }

            return;
        }

        operation.IsCancelRequested = true;
    }

    private void EndOperations()
    {
        while (_tenancy.FirstOperation is { } operation)
        {
            RemoveFirstOperation();
            operation.End(SendResult.Closed);
        }
    }
}
