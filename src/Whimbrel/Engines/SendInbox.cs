using Whimbrel.Connections;

namespace Whimbrel.Engines;

/// <summary>
/// What threads other than the loop's have sent to one connection, in the order of their calls: copied bytes, memory that changes its owner, files, and whatever else has its place among
/// sends (docs/design/0071). The loop moves it to the send queue before it appends anything of its own. Belongs to a connection object, for all its tenants: each entry has the
/// generation that its sender meant.
/// </summary>
/// <remarks>
/// Under the lock are a copy of at most 32 KiB and a push to the list of the mailbox, and no user code. Stamps grow from entry to entry: they are read under the lock.
/// </remarks>
internal sealed class SendInbox(Resident owner)
{
    private readonly Lock _gate = new();
    private InboxItem? _first;
    private InboxItem? _last;
    private bool _isListed;

    /// <summary>The connection that its entries are for.</summary>
    internal Resident Owner { get; } = owner;

    /// <summary>The next in the list of its mailbox.</summary>
    internal SendInbox? NextListed { get; set; }

    /// <summary>Something waits. Any thread; on the loop all that happened before it looks is seen.</summary>
    internal bool Any => Volatile.Read(ref _first) is not null;

    /// <summary>Appends a message to the bytes that were appended last. False: it needs an entry of its own.</summary>
    internal bool TryJoin(Mailbox mailbox, uint generation, ReadOnlySpan<byte> head, ReadOnlySpan<byte> body, int charge)
    {
        if (!Any) return false;
        // tidy: allowed because this is where threads meet; a copy of 32 KiB at most, never nested
        lock (_gate)
        {
            if (_last is not { Kind: DataKind.Send, Payload: null } last || last.Generation != generation || last.Stamp != mailbox.Stamp() || last.Room.Length < head.Length + body.Length) return false;
            last.Write(head);
            last.Write(body);
            last.Charge += charge;
            last.Messages++;
            return true;
        }
    }

    /// <summary>
    /// Appends a part of a block that several connections share: to the last entry, if that is what lies before it in the block.
    /// Otherwise as an entry of its own, <paramref name="fresh"/>, which is another or null afterwards. Full: it needs one, and there is none.
    /// </summary>
    internal SendResult Share(Mailbox mailbox, uint generation, in SharedCopy copy, int length, int charge, ref InboxItem? fresh)
    {
        // tidy: allowed because this is where threads meet; a few instructions, never nested
        lock (_gate)
        {
            long stamp = mailbox.Stamp();
            if (_last is { Kind: DataKind.Send } last && ReferenceEquals(last.Payload, copy.Block) && last.Offset + last.Length == copy.Offset
                && last.Generation == generation && last.Stamp == stamp)
            {
                last.Length += length;
                last.Charge += charge;
                last.Messages++;
                return SendResult.Queued;
            }

            if (fresh is not { } item) return SendResult.Full;
            if (!_isListed && !mailbox.TryList(this)) return SendResult.Closed;
            _isListed = true;
            fresh = item.Next;
            item.Next = null;
            (item.Kind, item.Generation, item.Stamp, item.Payload) = (DataKind.Send, generation, stamp, copy.Block);
            (item.Offset, item.Length, item.Charge, item.Messages) = (copy.Offset, length, charge, 1);
            if (_last is null) Volatile.Write(ref _first, item);
            else _last.Next = item;
            _last = item;
            return SendResult.Queued;
        }
    }

    /// <summary>Appends entries, all or none, with nothing between them. False: the loop has ended, and they stay the caller's.</summary>
    internal bool TryAdd(Mailbox mailbox, InboxItem first, InboxItem last)
    {
        // tidy: allowed because this is where threads meet; a few instructions, never nested
        lock (_gate)
        {
            if (!_isListed && !mailbox.TryList(this)) return false;
            _isListed = true;
            long stamp = mailbox.Stamp();
            for (InboxItem? item = first; item is not null; item = item.Next) item.Stamp = stamp;
            if (_last is null) Volatile.Write(ref _first, first);
            else _last.Next = first;
            _last = last;
            return true;
        }
    }

    /// <summary>Takes the first entry, if its stamp is not above the limit. Loop's thread.</summary>
    /// <param name="limit">Largest stamp.</param>
    /// <param name="isAhead">Before its turn, perhaps in the middle of a callback: what ends or changes the connection is not taken then.</param>
    internal InboxItem? TryTake(long limit, bool isAhead)
    {
        if (!Any) return null;
        // tidy: allowed because this is where threads meet; a few instructions, never nested
        lock (_gate)
        {
            InboxItem item = _first!;
            if (item.Stamp > limit || (isAhead && item.Kind is DataKind.Close or DataKind.ShutdownSend or DataKind.Upgrade)) return null;
            Volatile.Write(ref _first, item.Next);
            if (item.Next is null) _last = null;
            item.Next = null;
            return item;
        }
    }

    /// <summary>It was taken from the list of the mailbox. False: something is left, and it must be listed again. Loop's thread.</summary>
    internal bool TryUnlist()
    {
        // tidy: allowed because this is where threads meet; a few instructions, never nested
        lock (_gate)
        {
            if (_first is not null) return false;
            _isListed = false;
            return true;
        }
    }
}
