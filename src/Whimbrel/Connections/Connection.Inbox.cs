using System.Buffers;
using Whimbrel.Buffers;
using Whimbrel.Engines;

namespace Whimbrel.Connections;

/// <summary>The entries of the inbox, when the loop moves them (docs/design/0071).</summary>
internal sealed partial class Connection
{
    private SendInbox? _inbox; // created by the first send of another thread, and kept

    /// <summary>Any thread.</summary>
    internal SendInbox Inbox =>
        Volatile.Read(ref _inbox) ?? Interlocked.CompareExchange(ref _inbox, new SendInbox(this), null) ?? _inbox;

    /// <summary>True if other threads have sent something that the loop has not moved yet.</summary>
    internal bool HasInbox => Volatile.Read(ref _inbox) is { Any: true };

    /// <summary>
    /// Moves earlier sends of other threads before the loop sends, or does something else that is ordered with sends
    /// (contract 7). Their memory may throw and end the connection. This matters after an async function that has sent
    /// on the pool: its caller may resume on the loop before the loop has drained its mailbox.
    /// </summary>
    internal void SettleForeign()
    {
        if (HasInbox && TakesQueued) Loop.Mailbox.MoveAhead(this);
    }

    /// <summary>Moves the entries up to a stamp, and returns the bytes that they were charged.</summary>
    /// <param name="limit">Largest stamp.</param>
    /// <param name="isAhead">Early, perhaps inside a callback.</param>
    /// <param name="most">Number of bytes after which the move stops.</param>
    internal override long MoveInbox(long limit, bool isAhead = false, long most = long.MaxValue)
    {
        long moved = 0;
        while (moved < most && _inbox!.TryTake(limit, isAhead) is { } item) moved += Run(item);
        return moved;
    }

    /// <summary>
    /// Runs one entry. An exception ends this connection only: the caller may be a callback of another one.
    /// </summary>
    private int Run(InboxItem item)
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
            if (generation == Generation) AbortWith(new CloseReason(CloseCause.UserException, 0, e));
        }

        Loop.InboxItems.Moved(charge);
        return Math.Max(charge, Mailbox.ItemBytes);
    }

    private void Drain(InboxItem item)
    {
        if (item.Kind == DataKind.Send)
        {
            DrainSend(item);
            return;
        }

        // Returned first, because the entry may move the inbox again.
        (DataKind kind, uint generation, object? payload, int offset, int length) = (item.Kind, item.Generation,
            item.Payload, item.Offset, item.Length);
        item.ReturnHere();
        switch (kind)
        {
            case DataKind.SendOwned:
                DrainOwned(generation, (IMemoryOwner<byte>)payload!, offset, length);
                break;
            case DataKind.SendFile:
                DrainFile(generation, (FileRange)payload!, length);
                break;
            case DataKind.SendOperation:
                DrainOperation(generation, (SendOperation)payload!);
                break;
            case DataKind.Close:
                DrainClose(generation, payload);
                break;
            case DataKind.ShutdownSend:
                DrainShutdownSend(generation);
                break;
            case DataKind.BroadcastGate:
                DrainBroadcastGate(generation, (BroadcastGate)payload!);
                break;
            case DataKind.HoldSends:
                DrainHoldSends(generation, holds: payload is not null);
                break;
            case DataKind.Upgrade:
                DrainUpgrade(generation, (TlsUpgrade)payload!);
                break;
            case DataKind.Offer:
                DrainOffer(generation, length);
                ((ManualResetEventSlim)payload!).Set();
                break;
            case DataKind.Mark:
                LowWaterMark(generation, (SentMark)payload!);
                break;
            case DataKind.Paced:
                DrainPaced(generation, (PacedSend)payload!);
                break;
            default:
                throw new InvalidOperationException($"{kind} belongs into the lane of the mailbox.");
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
        if (generation != Generation || !TakesQueued || _tenancy.SendError != 0)
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
}
