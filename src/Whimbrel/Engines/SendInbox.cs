using Whimbrel.Connections;

namespace Whimbrel.Engines;

/// <summary>
/// Sends of other threads to one connection, in call order: copied bytes, owned memory, files, closes and other steps
/// that are ordered with sends (docs/design/0071). The loop moves the entries to the send queue before it appends
/// anything itself. A connection object keeps its inbox for all connections that it represents. Bytes are accepted for
/// the present one only, until it ends (<see cref="Resident.TakesBytesOf"/>); each other entry has the generation that
/// its sender addressed, and does nothing for another one.
/// </summary>
/// <remarks>
/// The lock covers a copy of at most 32 KiB and a push to the list of the mailbox, and no user code. Stamps never
/// decrease from entry to entry, because they are read under the lock.
/// </remarks>
internal sealed class SendInbox(Resident owner)
{
    private readonly Lock _gate = new();
    private InboxItem? _first;
    private InboxItem? _last;
    private bool _isListed;
    private bool _isMoved; // the loop has removed it from the list, and moves its entries

    /// <summary>The connection that its entries are for.</summary>
    internal Resident Owner { get; } = owner;

    /// <summary>The next in the list of its mailbox.</summary>
    internal SendInbox? NextListed { get; set; }

    /// <summary>True if there are entries. Any thread.</summary>
    internal bool Any => Volatile.Read(ref _first) is not null;

    /// <summary>
    /// Appends a message to the last entry. Returns false if it needs an entry of its own. A held message of a callback
    /// on the thread pool is listed later, by <see cref="TryList"/> or by the next entry of another thread.
    /// </summary>
    internal bool TryJoin(
        Mailbox mailbox,
        uint generation,
        ReadOnlySpan<byte> head,
        ReadOnlySpan<byte> body,
        int charge,
        bool isHeld)
    {
        if (!Any) return false;
        // tidy: allowed because this is where threads meet; a copy of 32 KiB at most, never nested
        lock (_gate)
        {
            if (_last is not { Kind: InboxKind.Send, Payload: null } last || !Owner.TakesBytesOf(generation)
                || last.Stamp != mailbox.Stamp() || last.Room.Length < head.Length + body.Length)
                return false;
            if (!isHeld && !TryListHere(mailbox)) return false;
            last.Write(head);
            last.Write(body);
            last.Charge += charge;
            last.Messages++;
            return true;
        }
    }

    /// <summary>
    /// Appends a part of a shared block: to the last entry if that ends where the part begins, otherwise as an entry of
    /// its own. That entry is <paramref name="fresh"/>, which is the next free entry or null afterwards. Returns Full
    /// if an entry is needed and <paramref name="fresh"/> is null.
    /// </summary>
    internal SendResult Share(Mailbox mailbox, uint generation, in SharedCopy copy, int length, int charge,
        ref InboxItem? fresh)
    {
        // tidy: allowed because this is where threads meet; a few instructions, never nested
        lock (_gate)
        {
            if (!Owner.TakesBytesOf(generation)) return SendResult.Closed;
            long stamp = mailbox.Stamp();
            if (_last is { Kind: InboxKind.Send } last && ReferenceEquals(last.Payload, copy.Block)
                && last.Offset + last.Length == copy.Offset && last.Stamp == stamp)
            {
                last.Length += length;
                last.Charge += charge;
                last.Messages++;
                return SendResult.Queued;
            }

            if (fresh is not { } item) return SendResult.Full;
            if (!TryListHere(mailbox)) return SendResult.Closed;
            fresh = item.Next;
            item.Next = null;
            (item.Kind, item.Generation, item.Stamp, item.Payload) = (InboxKind.Send, generation, stamp, copy.Block);
            (item.Offset, item.Length, item.Charge, item.Messages) = (copy.Offset, length, charge, 1);
            if (_last is null) Volatile.Write(ref _first, item);
            else _last.Next = item;
            _last = item;
            return SendResult.Queued;
        }
    }

    /// <summary>
    /// Appends all entries without others between them. Returns false if the loop has ended, or for bytes if the
    /// connection has; the caller keeps them. Held entries are listed later, by <see cref="TryList"/> or by the next
    /// entry of another thread.
    /// </summary>
    internal bool TryAdd(Mailbox mailbox, InboxItem first, InboxItem last, bool isHeld = false)
    {
        // tidy: allowed because this is where threads meet; a few instructions, never nested
        lock (_gate)
        {
            if (first.HasBytes && !Owner.TakesBytesOf(first.Generation)) return false;
            if (!isHeld && !TryListHere(mailbox)) return false;
            long stamp = mailbox.Stamp();
            for (InboxItem? item = first; item is not null; item = item.Next) item.Stamp = stamp;
            if (_last is null) Volatile.Write(ref _first, first);
            else _last.Next = first;
            _last = last;
            return true;
        }
    }

    /// <summary>Lists the held entries. Returns false if there are none.</summary>
    internal bool TryList(Mailbox mailbox)
    {
        if (!Any) return false;
        // It stays listed until all entries of this thread are moved.
        if (Volatile.Read(ref _isListed)) return true;
        // tidy: allowed because this is where threads meet; a few instructions, never nested
        lock (_gate) return _first is not null && TryListHere(mailbox);
    }

    private bool TryListHere(Mailbox mailbox) => _isListed || (_isListed = mailbox.TryList(this));

    /// <summary>
    /// Takes all entries for a direct send, if a callback on the pool has appended them and the inbox is not listed.
    /// Returns the number of bytes, or 0 if nothing was taken.
    /// </summary>
    /// <param name="most">Maximum number of entries.</param>
    /// <param name="state">Argument of <paramref name="maySend"/>.</param>
    /// <param name="maySend">Called with the number of bytes; false takes nothing.</param>
    /// <param name="first">First of the entries.</param>
    internal int TryTakeHeld<TState>(
        int most,
        TState state,
        Func<TState, int, bool> maySend,
        out InboxItem? first)
    {
        first = null;
        // tidy: allowed because this is where threads meet; a few instructions, never nested
        lock (_gate)
        {
            if (_isListed) return 0;
            int length = 0;
            for (InboxItem? item = _first; item is not null; item = item.Next)
            {
                if (item is not { Kind: InboxKind.Send, Payload: null } || --most < 0) return 0;
                length += item.Length;
            }

            if (length == 0 || !maySend(state, length)) return 0;
            first = _first;
            Volatile.Write(ref _first, null);
            _last = null;
            return length;
        }
    }

    /// <summary>
    /// Runs the entries up to a stamp, and returns the bytes that they were charged. Their memory may throw and end the
    /// connection. Loop's thread.
    /// </summary>
    /// <param name="limit">Largest stamp.</param>
    /// <param name="isAhead">Early, perhaps inside a callback.</param>
    /// <param name="most">Number of bytes after which it stops.</param>
    internal long Move(long limit, bool isAhead = false, long most = long.MaxValue)
    {
        long moved = 0;
        while (moved < most && TryTake(limit, isAhead) is { } entry) moved += Owner.RunEntry(entry);
        return moved;
    }

    /// <summary>Runs all entries when the connection accepts no more. Loop's thread.</summary>
    internal void MoveAll()
    {
        // A thread that has found the connection open appends before the lock is free.
        // tidy: allowed because it runs once for each connection
        lock (_gate)
        {
        }

        Move(long.MaxValue);
    }

    /// <summary>
    /// Runs the entries up to a stamp, after the mailbox has removed the inbox from its list. With the last entry the
    /// inbox counts as not listed, so the lock is not taken once more for that. Returns true if entries are left, and
    /// the inbox must be listed again.
    /// </summary>
    internal bool MoveListed(long limit, long most, ref long bytes)
    {
        _isMoved = true;
        bytes += Move(limit, most: most - bytes);
        bool hasRest = _isMoved && !TryUnlist();
        _isMoved = false;
        return hasRest;
    }

    /// <summary>Takes the first entry, if its stamp is not above the limit. Loop's thread.</summary>
    /// <param name="limit">Largest stamp.</param>
    /// <param name="isAhead">Early, perhaps inside a callback: a close, a shutdown or an upgrade is not taken
    /// then.</param>
    internal InboxItem? TryTake(long limit, bool isAhead)
    {
        if (!Any) return null;
        // tidy: allowed because this is where threads meet; a few instructions, never nested
        lock (_gate)
        {
            if (_first is not { } item) return null;
            if (item.Stamp > limit
                || (isAhead && item.Kind is InboxKind.Close or InboxKind.ShutdownSend or InboxKind.Upgrade))
                return null;
            Volatile.Write(ref _first, item.Next);
            if (item.Next is null) BecomeEmpty();
            item.Next = null;
            return item;
        }
    }

    private void BecomeEmpty()
    {
        _last = null;
        if (!_isMoved) return;
        _isMoved = false;
        _isListed = false;
    }

    /// <summary>Returns false if entries are left.</summary>
    private bool TryUnlist()
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
