using System.Buffers;
using Whimbrel.Buffers;
using Whimbrel.Connections;

namespace Whimbrel.Engines;

/// <summary>
/// Sends of other threads are queued in the <see cref="SendInbox"/> of their connection. The mailbox lists the inboxes
/// that are not empty, charges their entries and wakes the loop. It keeps their order with its own items: an entry
/// stores the number of items posted before it, and the loop moves it when these have run. Before the loop itself sends
/// to a connection, it moves the inbox of that connection, up to the first item that concerns the connection (contract
/// 7).
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

    /// <summary>An item or a posted action runs. A send inside it moves no entry that was appended after it.</summary>
    private bool _staysInPlace;

    // ------------------------------------------------------------------ any thread

    /// <summary>
    /// Returns the number of items posted so far, for an entry that is appended now. A later broadcast does not join
    /// one of these items, because the flag is set after the number was read, and cleared before a new item is counted.
    /// </summary>
    internal long Stamp()
    {
        long stamp = Volatile.Read(ref _posted);
        if (!_wasStamped) _wasStamped = true;
        return stamp;
    }

    /// <summary>True if all items that were posted before the call have run. Any thread.</summary>
    internal bool HasRunAll
    {
        get
        {
            long posted = Volatile.Read(ref _posted);
            return Volatile.Read(ref _drained) >= posted;
        }
    }

    /// <summary>Adds an inbox that is no longer empty to the list. Returns false if the loop has ended.</summary>
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

    /// <summary>
    /// Appends a copy of the bytes. The caller has reserved them on the connection. With <paramref name="isHeld"/> it
    /// is a send of a callback on the thread pool, and <see cref="PostHeld"/> informs the loop later. With
    /// <paramref name="isSure"/> the send is never rejected, because <see cref="HasRoomFor"/> was checked before.
    /// </summary>
    internal SendResult PostSend(
        Resident connection,
        uint generation,
        ReadOnlySpan<byte> head,
        ReadOnlySpan<byte> body,
        bool mayWait = false,
        bool isHeld = false,
        bool isSure = false)
    {
        if (_isClosed) return SendResult.Closed;
        int length = head.Length + body.Length;
        if (length == 0) return SendResult.Queued;
        int charge = length + ItemBytes;
        if (isSure) _budget.Overdraw(charge);
        else if (!TryCharge(charge, connection, generation, mayWait)) return Refused(mayWait);
        Loop? caller = Loop.Current;
        bool above = caller is not null && IsAbovePace(caller, charge);
        SendInbox inbox = connection.SendInbox;
        // No direct send follows while other callbacks are queued: listed now, the lock is not taken once more for it.
        bool isUnlisted = isHeld && !(IsLoopAsleep && _loop.HasQueuedStrands);
        if (!inbox.TryJoin(this, generation, head, body, charge, isUnlisted))
        {
            InboxItem first = Copy(generation, head, body, isSmall: !inbox.Any, out InboxItem last);
            last.Messages = 1;
            last.Charge = charge;
            if (!inbox.TryAdd(this, first, last, isUnlisted)) return TakeBack(first, charge);
        }

        if (isHeld) return SendResult.Queued;
        if (above) caller!.HoldActiveSession();
        WakeIfSleeping();
        return SendResult.Queued;
    }

    /// <summary>
    /// Copies a message for several connections of this loop into the open block. Consecutive messages to the same
    /// connections then need one entry each time. The caller holds the references until <see cref="EndShared"/>.
    /// </summary>
    internal SharedCopy CopyShared(ReadOnlySpan<byte> data, int references)
    {
        InboxItem? full = null;
        SharedCopy copy = new() { Mailbox = this, References = references };
        // tidy: allowed because this is where threads meet; a copy
        lock (_openGate)
        {
            InboxItem block =
                _open is { } open && open.Room.Length >= data.Length ? open : _loop.InboxItems.TakeBlock(data.Length);
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
    internal SendResult PostShared(Resident connection, uint generation, ReadOnlySpan<byte> data,
        ref SharedCopies copies)
    {
        if (_isClosed) return SendResult.Closed;
        int charge = data.Length + ItemBytes;
        if (!TryCharge(charge, connection, generation, mayWait: false)) return Refused(mayWait: false);
        Loop? caller = Loop.Current;
        bool above = caller is not null && IsAbovePace(caller, charge);
        SendInbox inbox = connection.SendInbox;
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

    /// <summary>Returns unused entries and references at the end of the call, and wakes the loop.</summary>
    internal void EndShared(in SharedCopy copy)
    {
        if (copy.Fresh is not null) _loop.InboxItems.ReturnAll(copy.Fresh);
        if (copy.References > 0) copy.Block.Release(copy.References);
        WakeIfSleeping();
    }

    /// <summary>Releases the open block if no entry refers to it, so that the next message uses an empty one.</summary>
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

    /// <summary>
    /// Appends memory without a copy. It is charged as a copy is. The mailbox owns it if the result is Queued.
    /// </summary>
    internal SendResult PostOwned(Resident connection, uint generation, ReadOnlySpan<byte> head,
        IMemoryOwner<byte> owner, int offset, int length) =>
        PostAfter(InboxKind.SendOwned, connection, generation, head, owner, offset, length, mayWait: false);

    /// <summary>Appends a part of a file, charged as on the connection. The mailbox owns the reference if the result is
    /// Queued.</summary>
    internal SendResult PostFile(Resident connection, uint generation, ReadOnlySpan<byte> head, in FileRange file,
        int charge, bool mayWait) =>
        PostAfter(InboxKind.SendFile, connection, generation, head, file, 0, charge, mayWait);

    private SendResult PostAfter(InboxKind kind, Resident connection, uint generation, ReadOnlySpan<byte> head,
        object payload, int offset, int length, bool mayWait)
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

        if (!connection.SendInbox.TryAdd(this, first, item)) return TakeBack(first, length + ItemBytes);
        WakeIfSleeping();
        return SendResult.Queued;
    }

    /// <summary>
    /// Lists the held entries of a connection for the loop. A sleeping loop is woken after the callbacks that are
    /// queued on the pool, so that one wake-up serves all of them. If they block, another pool thread wakes it. Without
    /// <paramref name="wakesByPool"/> the loop is woken immediately, for callbacks that run on other threads. Returns
    /// false if there are no entries: the loop has moved them already, or the connection has ended.
    /// </summary>
    internal bool PostHeld(Resident connection, bool wakesByPool)
    {
        if (!connection.SendInbox.TryList(this)) return false;
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
    /// Has the loop flush a connection after the sends of the caller, so that <paramref name="length"/> more bytes fit.
    /// Then the loop sets the event, also if the flush fails. Returns false if the loop has ended.
    /// </summary>
    internal bool PostOffer(Resident connection, uint generation, long length, ManualResetEventSlim offered) =>
        PostInOrder(connection, NewItem(InboxKind.Offer, generation, offered, 0, (int)length));

    /// <summary>
    /// Appends an entry without bytes that is ordered with the sends of a connection. False only if the loop has ended.
    /// </summary>
    internal bool PostInOrder(InboxKind kind, Resident connection, uint generation, object? payload = null) =>
        PostInOrder(connection, NewItem(kind, generation, payload, 0, 0));

    private bool PostInOrder(Resident connection, InboxItem item)
    {
        if (!connection.SendInbox.TryAdd(this, item, item))
        {
            item.Return();
            return false;
        }

        WakeIfSleeping();
        return true;
    }

    private InboxItem NewItem(InboxKind kind, uint generation, object? payload, int offset, int length)
    {
        InboxItem item = _loop.InboxItems.Take();
        (item.Kind, item.Generation, item.Payload, item.Offset, item.Length) = (kind, generation, payload,
            offset, length);
        return item;
    }

    /// <summary>Copies bytes into as many entries as they need. Runs outside the lock of the inbox.</summary>
    private InboxItem Copy(uint generation, ReadOnlySpan<byte> head, ReadOnlySpan<byte> body, bool isSmall,
        out InboxItem last)
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
        item.Kind = InboxKind.Send;
        item.Generation = generation;
        return item;
    }

    /// <summary>
    /// Returns entries and charge of a rejected send. The caller keeps the memory that they refer to.
    /// </summary>
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

    /// <summary>
    /// Returns true if other loops have sent more than <see cref="PaceBytes"/> since the last drain. The caller's
    /// session is then recorded, and is not read until this mailbox was drained. Runs before the append, so that a
    /// drain follows.
    /// </summary>
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
    /// Starts a posted action or async function. During an action, later sends of other threads are not moved. During
    /// an async function they are, as in a callback, because parts of the function may run on those threads.
    /// </summary>
    internal void EnterPosted(bool isAsync) => _staysInPlace = !isAsync;

    internal void LeavePosted() => _staysInPlace = false;

    /// <summary>Moves the inbox of a connection early, up to the first item that concerns the connection.</summary>
    internal void MoveAhead(Resident connection)
    {
        if (_staysInPlace) connection.SendInbox.Move(_drained);
        else connection.SendInbox.Move(_drained == _posted ? _drained : FirstThatConcerns(connection), isAhead: true);
        EndStep();
    }

    /// <summary>Moves everything that is left in the inbox of a connection that ends.</summary>
    internal void MoveRest(SendInbox inbox)
    {
        inbox.MoveAll();
        EndStep();
    }

    private void EndStep()
    {
        long charge = _loop.InboxItems.EndStep();
        if (charge > 0) _budget.GiveBack(charge);
    }

    /// <summary>
    /// Returns the number of items before the first join of the connection or broadcast to a group that it is in.
    /// </summary>
    private long FirstThatConcerns(Resident connection)
    {
        for (int i = _nextToDrain; i < _dataDraining.Count; i++)
        {
            if (Concerns(_dataDraining[i], connection)) return _firstDraining + i;
        }

        // tidy: allowed because it runs only for sends that were queued after a pending broadcast or join
        lock (_gate)
        {
            for (int i = 0; i < _data.Count; i++)
            {
                if (Concerns(_data[i], connection)) return _firstWaiting + i;
            }

            return _firstWaiting + _data.Count;
        }
    }

    private static bool Concerns(in DataItem item, Resident connection) =>
        item.Receiver is { } receiver && receiver.Concerns(item, connection);

    /// <summary>Moves all entries that no pending item precedes, about <see cref="DrainBytes"/> at most.</summary>
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
            if (inbox.MoveListed(_drained, DrainBytes, ref bytes)) AddToMove(inbox, inbox);
            if (ReferenceEquals(inbox, last)) break;
        }

        EndStep();
        CloseUnusedBlock();

        // The loop checks this flag before it sleeps.
        if (_firstToMove is not null) _any = true;
    }

    private void TakeListed()
    {
        // Only the loop takes; it closes the list in Close.
        if (Volatile.Read(ref _listed) is { } head && !ReferenceEquals(head, s_closed))
            AddListed(Interlocked.Exchange(ref _listed, null));
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
