using System.Buffers;
using Whimbrel.Buffers;
using Whimbrel.Connections;

namespace Whimbrel.Engines;

/// <summary>
/// What other threads send to connections lies in the <see cref="SendInbox"/> of each. The mailbox has the list of those in which something waits, charges them, wakes the loop, and keeps
/// their order with what lies here: an entry has the number of items that were posted before it, and is moved when these have run. A connection that the loop itself sends to is moved before
/// that, up to an item that concerns it (contract 7).
/// </summary>
internal sealed partial class Mailbox
{
    private static readonly SendInbox s_closed = new(null!);

    private SendInbox? _listed; // last in first out; any thread adds
    private SendInbox? _firstToMove; // the loop's, first in first out
    private SendInbox? _lastToMove;
    private long _posted; // items of all times
    private long _drained; // those of them that have run
    private long _bytesOfLoops; // since the last drain
    private InboxItem? _open; // block to which messages to several connections are appended; under its lock
    private readonly Lock _openGate = new();
    private volatile bool _wasStamped; // since the last item

    /// <summary>An item runs, or a posted action: whoever sends in the middle of it gets nothing from after it.</summary>
    private bool _staysInPlace;

    // ------------------------------------------------------------------ any thread

    /// <summary>
    /// Number of items that were posted so far, for an entry that is appended now. A broadcast that follows does not join one of these (the flag is set after the number was read, and
    /// cleared before a new number can be).
    /// </summary>
    internal long Stamp()
    {
        long stamp = Volatile.Read(ref _posted);
        if (!_wasStamped) _wasStamped = true;
        return stamp;
    }

    /// <summary>Something waits there from now on. False: the loop has ended.</summary>
    internal bool TryList(SendInbox inbox)
    {
        SendInbox? head = Volatile.Read(ref _listed);
        while (!ReferenceEquals(head, s_closed))
        {
            inbox.NextListed = head;
            SendInbox? seen = Interlocked.CompareExchange(ref _listed, inbox, head);
            if (ReferenceEquals(seen, head))
            {
                _any = true;
                return true;
            }

            head = seen;
        }

        return false;
    }

    /// <summary>Copies the bytes in. The caller has reserved them on the connection.</summary>
    internal SendResult PostSend(Connection connection, uint generation, ReadOnlySpan<byte> head, ReadOnlySpan<byte> body, bool mayWait = false)
    {
        if (_isClosed) return SendResult.Closed;
        int length = head.Length + body.Length;
        if (length == 0) return SendResult.Queued;
        int charge = length + ItemBytes;
        if (!TryCharge(charge, connection, generation, mayWait)) return Refused(mayWait);
        Loop? caller = Loop.Current;
        bool above = caller is not null && IsAbovePace(caller, charge);
        SendInbox inbox = connection.Inbox;
        if (!inbox.TryJoin(this, generation, head, body, charge))
        {
            InboxItem first = Copy(generation, head, body, isSmall: !inbox.Any, out InboxItem last);
            last.Messages = 1;
            last.Charge = charge;
            if (!inbox.TryAdd(this, first, last)) return TakeBack(first, charge);
        }

        if (above) caller!.HoldActiveSession();
        WakeIfSleeping();
        return SendResult.Queued;
    }

    /// <summary>
    /// Copies a message that several connections of this loop get: into the block that is open for them, as what the same
    /// connections get one after the other then needs one entry. The references are the caller's, until <see cref="EndShared"/>.
    /// </summary>
    internal SharedCopy CopyShared(ReadOnlySpan<byte> data, int references)
    {
        InboxItem? full = null;
        SharedCopy copy = new() { Mailbox = this, References = references };
        // tidy: allowed because this is where threads meet; a copy
        lock (_openGate)
        {
            InboxItem block = _open is { } open && open.Room.Length >= data.Length ? open : _loop.InboxItems.TakeBlock(data.Length);
            block.AddReferences(references);
            if (!ReferenceEquals(block, _open) && block.Size == InboxItem.Capacity && !_isClosed)
            {
                full = _open;
                _open = block;
                block.AddReferences(1);
            }

            (copy.Block, copy.Offset) = (block, block.Length);
            block.Write(data);
        }

        full?.Release(1);
        return copy;
    }

    /// <summary>Appends a reference to the copy. The caller has reserved the bytes on the connection.</summary>
    internal SendResult PostShared(Connection connection, uint generation, ReadOnlySpan<byte> data, ref SharedCopies copies)
    {
        if (_isClosed) return SendResult.Closed;
        int charge = data.Length + ItemBytes;
        if (!TryCharge(charge, connection, generation, mayWait: false)) return Refused(mayWait: false);
        Loop? caller = Loop.Current;
        bool above = caller is not null && IsAbovePace(caller, charge);
        SendInbox inbox = connection.Inbox;
        ref SharedCopy copy = ref copies.Of(this, data);
        InboxItem? fresh = copy.Fresh;
        SendResult result = inbox.Share(this, generation, copy, data.Length, charge, ref fresh);
        if (result == SendResult.Full)
        {
            copy.Fresh = fresh = _loop.InboxItems.TakeSeveral(copies.Fresh);
            result = inbox.Share(this, generation, copy, data.Length, charge, ref fresh);
        }

        // The entry has one of the references of the call.
        if (!ReferenceEquals(fresh, copy.Fresh)) copy.References--;
        copy.Fresh = fresh;
        if (result == SendResult.Queued)
        {
            if (above) caller!.HoldActiveSession();
            return result;
        }

        _budget.GiveBack(charge);
        return result;
    }

    /// <summary>The call has ended: what it did not use goes back, and the loop is woken.</summary>
    internal void EndShared(in SharedCopy copy)
    {
        if (copy.Fresh is not null) _loop.InboxItems.ReturnAll(copy.Fresh);
        if (copy.References > 0) copy.Block.Release(copy.References);
        WakeIfSleeping();
    }

    /// <summary>Nothing refers to the open block but this: it goes back, and the next one begins at its start.</summary>
    private void CloseUnusedBlock(bool isLast = false)
    {
        if (!isLast && _open is not { References: 1 }) return;
        InboxItem? block = null;
        // tidy: allowed because it runs once in a turn that has moved the last part of a block
        lock (_openGate)
        {
            if (isLast || _open is { References: 1 }) (block, _open) = (_open, null);
        }

        block?.Release(1);
    }

    /// <summary>Memory whose ownership moves with the entry: nothing is copied, and it is charged all the same. Not Queued: it stays the caller's.</summary>
    internal SendResult PostOwned(Connection connection, uint generation, ReadOnlySpan<byte> head, IMemoryOwner<byte> owner, int offset, int length) =>
        PostAfter(DataKind.SendOwned, connection, generation, head, owner, offset, length, mayWait: false);

    /// <summary>A part of a file, whose loan moves with the entry; charged as it is on the connection. Not Queued: the loan stays the caller's.</summary>
    internal SendResult PostFile(Connection connection, uint generation, ReadOnlySpan<byte> head, in FileRange file, int charge, bool mayWait) =>
        PostAfter(DataKind.SendFile, connection, generation, head, file, 0, charge, mayWait);

    private SendResult PostAfter(DataKind kind, Connection connection, uint generation, ReadOnlySpan<byte> head, object payload, int offset, int length, bool mayWait)
    {
        if (_isClosed) return SendResult.Closed;
        if (!TryCharge((long)length + ItemBytes, connection, generation, mayWait)) return Refused(mayWait);
        InboxItem item = NewItem(kind, generation, payload, offset, length - head.Length);
        item.Charge = length + ItemBytes;
        InboxItem first = item;
        if (!head.IsEmpty)
        {
            first = Copy(generation, head, default, isSmall: true, out InboxItem last);
            last.Next = item;
        }

        if (!connection.Inbox.TryAdd(this, first, item)) return TakeBack(first, length + ItemBytes);
        WakeIfSleeping();
        return SendResult.Queued;
    }

    /// <summary>
    /// The same for what a callback on the thread pool has sent, which is never refused: <see cref="HasRoomFor"/> was asked. A loop that sleeps is woken behind the callbacks that are
    /// queued already: one wake for all of them instead of one for each. If they block, another thread of the pool does it. Not
    /// <paramref name="wakesByPool"/>: here and now, for callbacks that run on other threads.
    /// </summary>
    internal bool PostOwnedFromPool(Connection connection, uint generation, IMemoryOwner<byte> owner, int offset, int length, bool wakesByPool)
    {
        InboxItem item = OwnedFromPool(generation, owner, offset, length);
        if (!connection.Inbox.TryAdd(this, item, item))
        {
            TakeBack(item, item.Charge);
            return false;
        }

        if (!wakesByPool)
        {
            WakeIfSleeping();
            return true;
        }

        Interlocked.MemoryBarrier();
        if (Volatile.Read(ref _sleeping) == 1) WakeByPool(mayLinger: false);
        return true;
    }

    /// <summary>
    /// An upgrade to TLS, and before it what the same callback has sent: nobody moves the one without the other, so no
    /// answer of the peer can come in between. False: neither was taken.
    /// </summary>
    internal bool PostUpgrade(Connection connection, uint generation, IMemoryOwner<byte>? owner, int offset, int length, TlsUpgrade upgrade)
    {
        InboxItem item = NewItem(DataKind.Upgrade, generation, upgrade, 0, 0);
        InboxItem first = item;
        if (owner is not null)
        {
            first = OwnedFromPool(generation, owner, offset, length);
            first.Next = item;
        }

        if (!connection.Inbox.TryAdd(this, first, item))
        {
            TakeBack(first, first.Charge);
            return false;
        }

        WakeIfSleeping();
        return true;
    }

    /// <summary>Offers the queue of a connection to the system, behind what the caller has sent, so that so many bytes fit; then sets the event, in any case. False: the loop has ended.</summary>
    internal bool PostOffer(Connection connection, uint generation, long length, ManualResetEventSlim offered) =>
        PostInOrder(connection, NewItem(DataKind.Offer, generation, offered, 0, (int)length));

    /// <summary>Something without bytes of its own that has its place among the sends of a connection: never refused while the loop lives.</summary>
    internal bool PostInOrder(DataKind kind, Connection connection, uint generation, object? payload = null) =>
        PostInOrder(connection, NewItem(kind, generation, payload, 0, 0));

    private bool PostInOrder(Connection connection, InboxItem item)
    {
        if (!connection.Inbox.TryAdd(this, item, item))
        {
            item.Return();
            return false;
        }

        WakeIfSleeping();
        return true;
    }

    private InboxItem NewItem(DataKind kind, uint generation, object? payload, int offset, int length)
    {
        InboxItem item = _loop.InboxItems.Take();
        (item.Kind, item.Generation, item.Payload, item.Offset, item.Length) = (kind, generation, payload, offset, length);
        return item;
    }

    private InboxItem OwnedFromPool(uint generation, IMemoryOwner<byte> owner, int offset, int length)
    {
        InboxItem item = NewItem(DataKind.SendOwned, generation, owner, offset, length);
        item.Charge = length + ItemBytes;
        _budget.Overdraw(item.Charge);
        return item;
    }

    /// <summary>As many entries as the bytes need. They are made outside of the lock of the inbox.</summary>
    private InboxItem Copy(uint generation, ReadOnlySpan<byte> head, ReadOnlySpan<byte> body, bool isSmall, out InboxItem last)
    {
        InboxItem first = last = NewBytes(generation, isSmall && head.Length + body.Length <= InboxItem.SmallCapacity);
        Fill(ref last, head);
        Fill(ref last, body);
        return first;
    }

    private void Fill(ref InboxItem last, ReadOnlySpan<byte> data)
    {
        while (!data.IsEmpty)
        {
            if (last.Room.IsEmpty) last = last.Next = NewBytes(last.Generation, isSmall: false);
            int count = Math.Min(data.Length, last.Room.Length);
            last.Write(data[..count]);
            data = data[count..];
        }
    }

    private InboxItem NewBytes(uint generation, bool isSmall)
    {
        InboxItem item = isSmall ? _loop.InboxItems.TakeSmall() : _loop.InboxItems.TakeLarge();
        item.Kind = DataKind.Send;
        item.Generation = generation;
        return item;
    }

    /// <summary>The loop has ended meanwhile. What the entries hold stays the caller's.</summary>
    private SendResult TakeBack(InboxItem first, int charge)
    {
        for (InboxItem? item = first, next; item is not null; item = next)
        {
            next = item.Next;
            item.Return();
        }

        _budget.GiveBack(charge);
        return SendResult.Closed;
    }

    /// <summary>Loops have sent much to this one: the caller's session is noted, to be held until it has been drained. Before the bytes are there, so that a drain follows.</summary>
    private bool IsAbovePace(Loop caller, int charge)
    {
        if (Interlocked.Add(ref _bytesOfLoops, charge) <= PaceBytes) return false;
        // tidy: allowed because it runs when another loop has sent a MiB in a turn
        lock (_gate)
        {
            Overcommit(caller);
            _any = true;
        }

        return true;
    }

    // ------------------------------------------------------------------ the loop's side

    /// <summary>
    /// Something posted runs now. An action does at its place: what other threads have sent behind it stays there. An async function may have parts on those threads, and goes on like a
    /// callback.
    /// </summary>
    internal void EnterPosted(bool isAsync) => _staysInPlace = !isAsync;

    internal void LeavePosted() => _staysInPlace = false;

    /// <summary>Moves what was sent to a connection of this loop, and may be moved before its turn: up to an item that concerns it.</summary>
    internal void MoveAhead(Connection connection)
    {
        if (_staysInPlace) connection.MoveInbox(_drained);
        else connection.MoveInbox(_drained == _posted ? _drained : FirstThatConcerns(connection), isAhead: true);
        EndStep();
    }

    private void EndStep()
    {
        long charge = _loop.InboxItems.EndStep();
        if (charge > 0) _budget.GiveBack(charge);
    }

    /// <summary>The number of items before the first one that sends to a connection do not pass: a join, or a broadcast to a group that it is in.</summary>
    private long FirstThatConcerns(Connection connection)
    {
        for (int i = _nextToDrain; i < _dataDraining.Count; i++)
        {
            if (Concerns(_dataDraining[i], connection)) return _firstDraining + i;
        }

        // tidy: allowed because it runs only where what was sent stands behind a broadcast or join that waits
        lock (_gate)
        {
            for (int i = 0; i < _data.Count; i++)
            {
                if (Concerns(_data[i], connection)) return _firstWaiting + i;
            }

            return _firstWaiting + _data.Count;
        }
    }

    private static bool Concerns(in DataItem item, Connection connection) => item.Kind switch
    {
        DataKind.Broadcast or DataKind.FormedBroadcast or DataKind.SharedBroadcast or DataKind.LeaveAll => ((GroupShard)item.Payload!).Contains(connection),
        DataKind.Join => ReferenceEquals(item.Connection, connection) && item.Generation == connection.Generation,
        _ => false,
    };

    /// <summary>Moves the inboxes in which something waits, as far as the items before it have run; at most some <see cref="DrainBytes"/>.</summary>
    private void MoveInboxes()
    {
        TakeListed();
        SendInbox? last = _lastToMove;
        long bytes = 0;
        while (_firstToMove is { } inbox && bytes < DrainBytes)
        {
            _firstToMove = inbox.NextListed;
            if (_firstToMove is null) _lastToMove = null;
            inbox.NextListed = null;
            bytes += inbox.Owner.MoveInbox(_drained, most: DrainBytes - bytes);
            if (!inbox.TryUnlist()) AddToMove(inbox, inbox);
            if (ReferenceEquals(inbox, last)) break;
        }

        EndStep();
        CloseUnusedBlock();

        // Nobody sleeps over it: the loop looks at this before it does.
        if (_firstToMove is not null) _any = true;
    }

    private void TakeListed()
    {
        // Only the loop takes; it closes the list in Close.
        if (Volatile.Read(ref _listed) is { } head && !ReferenceEquals(head, s_closed)) AddListed(Interlocked.Exchange(ref _listed, null));
    }

    private void AddListed(SendInbox? taken)
    {
        SendInbox? last = taken;
        SendInbox? first = null;
        while (taken is not null)
        {
            SendInbox? next = taken.NextListed;
            taken.NextListed = first;
            first = taken;
            taken = next;
        }

        if (first is not null) AddToMove(first, last!);
    }

    private void AddToMove(SendInbox first, SendInbox last)
    {
        if (_lastToMove is null) _firstToMove = first;
        else _lastToMove.NextListed = first;
        _lastToMove = last;
    }
}
