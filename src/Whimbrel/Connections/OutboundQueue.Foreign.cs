using System.Buffers;
using Whimbrel.Buffers;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;
using Whimbrel.Linux;

namespace Whimbrel.Connections;

/// <summary>
/// Sends of other threads (contracts 5, 6, 7): reserved at the call, appended to the inbox, and queued here when the
/// loop moves the inbox (docs/design/0071). And direct sends of callbacks on the pool (DirectSend.cs).
/// </summary>
internal unsafe partial struct OutboundQueue
{
    // ------------------------------------------------------------------ other threads

    /// <summary>What other threads were promised before an end still joins the queue.</summary>
    private bool TakesQueued => _fault is null
        && State is (ConnectionState.Open or ConnectionState.Concluding or ConnectionState.Draining);

    /// <summary>A SendAsync of this tenant waits for room, or is on its way to. Any thread.</summary>
    internal bool HasCallersOf(uint generation)
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
        PoolSession? pool = length == 0 ? null : PoolSession.CurrentOf(_connection, generation);
        if (pool is not null && pool.Sends.TrySendLarge(head, body)) return SendResult.Queued;
        result = Loop.Mailbox.PostSend(_connection, generation, head, body, mayWait, isHeld: pool is not null);
        if (result != SendResult.Queued) TakeBackForeign(length, generation);
        // A caller that awaits the send may continue for a while before the callback returns.
        else if (pool is not null) pool.Sends.Sent(length, leaves: mayWait);
        return result;
    }

    /// <summary>
    /// Queues a reference to the copy that the connections of one loop share. A send on the session's own thread is
    /// cheaper and is used there. Any thread.
    /// </summary>
    internal SendResult Send(ReadOnlySpan<byte> data, uint generation, ref SharedCopies copies)
    {
        if (data.IsEmpty || Loop.IsCurrent || PoolSession.CurrentOf(_connection, generation) is not null)
            return Send(data, generation);
        if (_connection.IsRefused(data.Length, generation)) return SendResult.Refused;
        SendResult result = TryReserveForeign(data.Length, generation);
        if (result != SendResult.Queued) return result;
        result = Loop.Mailbox.PostShared(_connection, generation, data, ref copies);
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
        if (Volatile.Read(ref _operationCount) == 0 && Volatile.Read(ref _waitingFeeds) == 0
            && !_queue.Foreign.IsClosed)
            return;
        Loop.PostControl(static (_, c, _, g) => ((Connection)c!).Outbound.ForeignGone((uint)g), _connection, null,
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
                if (!mayWait && !wasOffered && PoolSession.CurrentOf(_connection, generation) is { } pool)
                {
                    pool.Sends.OfferQueue(length);
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
        Loop.PostControl(static (_, c, _, g) => ((Connection)c!).Outbound.ForeignGone((uint)g), _connection, null,
            generation);
        return SendResult.Full;
    }

    /// <summary>No send of another thread is pending any more: operations that waited for this continue.</summary>
    internal void ForeignGone(uint generation)
    {
        if (generation != Generation) return;
        if (_operations.First is not null && TakesQueued) PumpOperations();
        if (State == ConnectionState.Draining || IsFinishing || _connection.IsDrainOwed || _connection.WaitsForQueue
            || _waitingFeeds > 0)
            Loop.Schedule(_connection);
    }

    private SendResult OverLimitForeign(uint generation)
    {
        // The shard is read once: the object may be recycled under a caller that comes late.
        if (Shard is not { } shard || shard.Options.CommonLimits.SlowConsumer != SlowConsumer.Disconnect)
            return SendResult.Full;
        if (!CloseForeign(generation)) return SendResult.Closed;
        Loop.PostControl(
            static (_, c, _, g) =>
            {
                Connection connection = (Connection)c!;
                if (connection.Generation != (uint)g || !connection.Outbound.TakesQueued) return;
                connection.AbortWith(new CloseReason(CloseCause.SlowConsumer));
                connection.Outbound.NoteSlowConsumer();
            },
            _connection,
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
            _connection,
            reason,
            generation);
    }

    internal void Refuse() => _queue.Foreign.TryClose(Generation);

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
        if (generation == Generation)
            _connection.CloseWith(reason as CloseReason? ?? new CloseReason(CloseCause.LocalClose));
    }

    internal void DrainShutdownSend(uint generation)
    {
        if (generation == Generation) _connection.ShutdownSend();
    }

    // ------------------------------------------------------------------ entries of the inbox

    /// <summary>
    /// Moves earlier sends of other threads before the loop sends, or does something else that is ordered with sends
    /// (contract 7). Their memory may throw and end the connection. This matters after an async function that has sent
    /// on the pool: its caller may resume on the loop before the loop has drained its mailbox.
    /// </summary>
    internal void SettleForeign()
    {
        if (_connection.HasInbox && TakesQueued) Loop.Mailbox.MoveAhead(_connection);
    }

    /// <summary>
    /// Runs one entry. An exception ends this connection only: the caller may be a callback of another one.
    /// </summary>
    internal int RunEntry(InboxItem item)
    {
        uint generation = item.Generation;
        int charge = item.Charge;
        try
        {
            Drain(item);
        }
        catch (Exception e) when (Loop.Outlives(e))
        {
            Loop.Engine.ReportException($"a step of {Loop}", e, "Its connection was ended; the loop goes on.");
            if (generation == Generation) _connection.AbortWith(new CloseReason(CloseCause.UserException, 0, e));
        }

        Loop.InboxItems.Moved(charge);
        return Math.Max(charge, Mailbox.ItemBytes);
    }

    private void Drain(InboxItem item)
    {
        if (item.Kind == InboxKind.Send)
        {
            DrainSend(item);
            return;
        }

        // Returned first, because the entry may move the inbox again.
        (InboxKind kind, uint generation, object? payload, int offset, int length) = (item.Kind, item.Generation,
            item.Payload, item.Offset, item.Length);
        item.ReturnHere();
        switch (kind)
        {
            case InboxKind.SendOwned:
                DrainOwned(generation, (IMemoryOwner<byte>)payload!, offset, length);
                break;
            case InboxKind.SendFile:
                DrainFile(generation, (FileRange)payload!, length);
                break;
            case InboxKind.SendOperation:
                DrainOperation(generation, (SendOperation)payload!);
                break;
            case InboxKind.Close:
                DrainClose(generation, payload);
                break;
            case InboxKind.ShutdownSend:
                DrainShutdownSend(generation);
                break;
            case InboxKind.BroadcastGate:
                DrainBroadcastGate(generation, (BroadcastGate)payload!);
                break;
            case InboxKind.HoldSends:
                DrainHoldSends(generation, holds: payload is not null);
                break;
            case InboxKind.Upgrade:
                _connection.DrainUpgrade(generation, (TlsUpgrade)payload!);
                break;
            case InboxKind.Offer:
                DrainOffer(generation, length);
                ((ManualResetEventSlim)payload!).Set();
                break;
            case InboxKind.Mark:
                LowWaterMark(generation, (SentMark)payload!);
                break;
            case InboxKind.Paced:
                DrainPaced(generation, (PacedSend)payload!);
                break;
        }
    }

    /// <summary>
    /// Enqueues copied bytes: large ones by reference, small ones by another copy, because a reference splits the sends
    /// around it into blocks. Parts of a shared block go by reference from a smaller size on, unless much is queued
    /// already: otherwise a slow peer would keep a whole block for each part.
    /// </summary>
    internal void DrainSend(InboxItem item)
    {
        (uint generation, int offset, int length, int messages) = (item.Generation, item.Offset, item.Length,
            item.Messages);
        InboxItem bytes = item;
        if (item.Payload is InboxItem shared)
        {
            bytes = shared;
            item.ReturnHere();
        }

        BeginDrain();
        if (generation != Generation || !TakesQueued || _error != 0)
        {
            CountLost(length, generation);
            bytes.Release();
        }
        else
        {
            CountMessage(length, messages);
            bool isShared = !ReferenceEquals(bytes, item);
            if (length < (isShared && _queue.Queued < CopyRunFromQueuedBytes ? CopyRunBelowBytes : ByReferenceBytes))
            {
                Append(bytes.GetSpan().Slice(offset, length));
                bytes.Release();
            }
            else
            {
                EnqueueShared(bytes, offset, length);
            }
        }

        ForeignArrived(length, generation);
    }

    /// <summary>Enqueues a reference. A part that follows the last one in its block extends that.</summary>
    // Safe: the last block refers to the memory of the same shared block, in which the joined bytes lie.
    private unsafe void EnqueueShared(InboxItem bytes, int offset, int length)
    {
        _queue.CloseFill();
        if (_queue.Blocks.Tail is { Kind: BlockKind.Owned } tail && ReferenceEquals(tail.Owner, bytes)
            && tail.Memory + tail.End == bytes.Pin(offset).Pointer)
        {
            tail.End += length;
            _queue.Count(length);
            bytes.Release();
        }
        else
        {
            _queue.Enqueue(Loop.Blocks.TakeOwned(bytes, bytes.Memory.Slice(offset, length), length));
        }

        MarkDirty();
    }

    // ------------------------------------------------------------------ direct sends of a strand (DirectSend.cs)

    /// <summary>
    /// Sends memory of a callback without blocking. Returns the number of bytes that the kernel has accepted, or a
    /// negative error number. The strand's thread, inside a direct send.
    /// </summary>
    /// <param name="head">First bytes.</param>
    /// <param name="body">Bytes after them.</param>
    internal int SendForStrand(ReadOnlySpan<byte> head, ReadOnlySpan<byte> body)
    {
        fixed (byte* first = head)
        fixed (byte* second = body)
        {
            IoVector* pieces = stackalloc IoVector[2];
            int count = Describe(first, head.Length, second, body.Length, pieces);
            return SendForStrand(new ReadOnlySpan<IoVector>(pieces, count));
        }
    }

    /// <summary>The same for entries taken out of the inbox, at most <see cref="Pieces.MostInRow"/>.</summary>
    internal int SendForStrand(InboxItem first)
    {
        IoVector* pieces = stackalloc IoVector[Pieces.MostInRow];
        int count = 0;
        for (InboxItem? item = first; item is not null; item = item.Next)
        {
            pieces[count++] = new IoVector { Base = item.First, Length = (nuint)item.Length };
        }

        return SendForStrand(new ReadOnlySpan<IoVector>(pieces, count));
    }

    private int SendForStrand(ReadOnlySpan<IoVector> pieces)
    {
        int sent = Loop.TrySend(_connection, pieces);
        if (sent <= 0) return sent;
        _bytesSent += sent;
        Interlocked.Add(ref Shard.BytesSentOfStrands, sent);
        Interlocked.Add(ref Loop.Counters.BytesSentOfStrands, sent);
        return sent;
    }

    /// <summary>
    /// True if nothing is queued, in progress or waiting except these bytes of the strand, and no override reports sent
    /// bytes.
    /// </summary>
    internal bool CanSendForStrand(int reserved, uint generation) =>
        TakesSends(generation) && Tls is null
        && !_connection.ReportsSent
        && _queue.Blocks.IsEmpty && !_isInFlight && _queue.Queued == 0 && !NeedsRoom
        && _marks.First is null
        && _operationCount == 0 && _queue.Foreign.Bytes == (uint)reserved;

    /// <summary>
    /// A direct send has failed. A send that the loop has started since then fails by itself. Loop's thread.
    /// </summary>
    internal void StrandSendFailed(uint generation, int error)
    {
        if (generation == Generation && TakesQueued && !_isInFlight) FailSend(error);
    }
}
