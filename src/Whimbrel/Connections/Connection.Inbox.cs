using System.Buffers;
using Whimbrel.Buffers;
using Whimbrel.Engines;

namespace Whimbrel.Connections;

/// <summary>The entries of the inbox, when the loop moves them (docs/design/0071).</summary>
internal sealed partial class Connection
{
    /// <summary>
    /// Moves earlier sends of other threads before the loop sends, or does something else that is ordered with sends
    /// (contract 7). Their memory may throw and end the connection. This matters after an async function that has sent
    /// on the pool: its caller may resume on the loop before the loop has drained its mailbox.
    /// </summary>
    internal void SettleForeign()
    {
        if (HasInbox && TakesQueued) Loop.Mailbox.MoveAhead(this);
    }

    void IMailboxReceiver.RunItem(in DataItem item, ReadOnlySpan<byte> bytes, ReadOnlySpan<int> lengths)
    {
        SettleForeign();
        DrainCall(item.Generation, (Delegate)item.Payload!, item.Extra);
    }

    /// <summary>
    /// Runs one entry. An exception ends this connection only: the caller may be a callback of another one.
    /// </summary>
    internal override int RunEntry(InboxItem item)
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
                DrainUpgrade(generation, (TlsUpgrade)payload!);
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
