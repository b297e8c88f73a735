using Whimbrel.Diagnostics;
using Whimbrel.Engines;

namespace Whimbrel.Connections;

/// <summary>What a session does inside its callbacks on the pool: sends are gathered, and leave as one mailbox item when the callback returns (contract 14).</summary>
internal sealed partial class Strand
{
    private SpinLock _batchLock = new(enableThreadOwnerTracking: false);
    private StrandBlock? _batch;
    private int _place = -1; // among those of the loop that have gathered something; the running thread's
    private int _reserved;
    private bool _isRoomLent; // what Reserve gave, at the end of _batch, until Commit: somebody may write into it
    private bool _isRoomLost;
    private StrandBlock? _lostRooms; // lent, and something was sent behind: kept until the callback returns
    private int _lostCount;
    private bool _gaveBack;
    private long _sentBytes;
    private BroadcastGate _broadcastGate;
    private bool _sendsAreHeld; // by a hand-over, until the next session's OnConnected has returned

    internal BroadcastGate BroadcastGate
    {
        get => _broadcastGate;
        set
        {
            _broadcastGate = value;
            // Behind what this callback has sent, in front of what it sends next.
            FlushBatch();
            _loop.Mailbox.PostInOrder(DataKind.BroadcastGate, _connection, _generation, value switch
            {
                BroadcastGate.Held => s_held,
                BroadcastGate.Shut => s_shut,
                _ => s_open,
            });
        }
    }

    private static readonly object s_open = BroadcastGate.Open;
    private static readonly object s_held = BroadcastGate.Held;
    private static readonly object s_shut = BroadcastGate.Shut;

    // ------------------------------------------------------------------ sending, inside a callback

    /// <summary>Room was reserved on the connection by the caller. False: it does not fit into a block and goes its own way, after what was gathered.</summary>
    internal bool TryGather(ReadOnlySpan<byte> head, ReadOnlySpan<byte> body)
    {
        int length = head.Length + body.Length;
        if (length == 0) return true;
        _sentBytes += length;
        if (length >= Connection.ByReferenceBytes && MaySendHere)
        {
            // As on the loop: much at a time is not copied first.
            FlushBatch(length);
            if (TrySendHere(head, body, batch: null, behind: 0)) return true;
        }

        if (length > StrandBlock.LargeCapacity)
        {
            FlushBatch();
            return false;
        }

        using HeldBatch held = new(this);
        LoseRoom();
        StrandBlock batch = BatchFor(length);
        head.CopyTo(batch.Room);
        batch.Length += head.Length;
        body.CopyTo(batch.Room);
        batch.Length += body.Length;
        batch.Messages++;
        Gathered();
        return true;
    }

    /// <summary>One send lies in one block: between two items those of other threads may come. The batch is held.</summary>
    private StrandBlock BatchFor(int length)
    {
        if (_batch is not null && _batch.Room.Length < length) FlushHeld();
        return _batch ??= length > StrandBlock.Capacity ? _loop.StrandBlocks.TakeLarge() : _loop.StrandBlocks.Take();
    }

    /// <summary>The batch has a message more. Others are to find it before they send; where they would not, it leaves now. The batch is held.</summary>
    private void Gathered()
    {
        if (_place >= 0) return;
        _place = _loop.GatheringStrands.Enter(this);
        if (_place < 0) FlushHeld();
    }

    /// <summary>Posts what was gathered. Before anything else of this callback that goes to the loop, so that call order holds (contract 7). Inside a callback.</summary>
    /// <param name="behind">Bytes that the same callback has reserved for what it sends next.</param>
    internal bool FlushBatch(int behind = 0)
    {
        // Nobody else gives it one, and who takes it has posted it before.
        if (Volatile.Read(ref _batch) is null)
        {
            LeavePlace();
            return false;
        }

        using HeldBatch held = new(this);
        return FlushHeld(behind);
    }

    private bool FlushHeld(int behind = 0)
    {
        LoseRoom();
        bool isPosted = false;
        if (_batch is { } batch)
        {
            isPosted = !batch.Written.IsEmpty && (TrySendHere(batch.Written, default, batch, behind) || Post(batch, wakesByPool: _dispatcher is null));
            if (!isPosted) Discard(batch);
        }

        EndBatch();
        return isPosted;
    }

    /// <summary>It has left, or will not: who looks for it without holding it finds nothing, and no earlier than now.</summary>
    private void EndBatch()
    {
        Volatile.Write(ref _batch, null);
        LeavePlace();
    }

    private void LeavePlace()
    {
        if (_place < 0) return;
        _loop.GatheringStrands.Leave(_place);
        _place = -1;
    }

    private bool Post(StrandBlock batch, bool wakesByPool) =>
        _loop.Mailbox.PostOwnedFromPool(_connection, _generation, batch, batch.Start, batch.Written.Length, wakesByPool);

    private void Discard(StrandBlock batch)
    {
        _connection.GiveBackForeign(batch.Written.Length, _generation);
        batch.Dispose();
    }

    /// <summary>
    /// Another thread is about to post something for the connection, or for a group that it may be in: what the running callback has sent before goes in front of it, since that thread may go on from
    /// there. Nothing where the callback itself asks. Any thread.
    /// </summary>
    internal void PostGathered()
    {
        if (Volatile.Read(ref _batch) is null || ReferenceEquals(t_current, this)) return;
        using HeldBatch held = new(this);
        if (_batch is not { } batch || batch.Written.IsEmpty) return;
        StrandBlock sends = _isRoomLent ? CopyOf(batch) : batch;
        if (!Post(sends, wakesByPool: false)) Discard(sends);
        if (_isRoomLent)
        {
            // The callback may be writing into it.
            batch.Start = batch.Length;
            batch.Messages = 0;
        }
        else
        {
            // Behind the post: the callback's thread looks without holding it, and posts on when there is nothing. Its place stays until it flushes.
            Volatile.Write(ref _batch, null);
        }
    }

    /// <summary>What was gathered leaves now, also when the loop sleeps and every thread of the pool is busy.</summary>
    internal void FlushNow()
    {
        // As on the loop: nothing passes room that is lent.
        if (_isRoomLent) return;
        FlushBatch();
        ReleaseSends();
        _loop.Mailbox.WakeIfSleeping();
    }

    /// <summary>The connection is being aborted: what was gathered does not leave.</summary>
    private void DropBatch()
    {
        using HeldBatch held = new(this);
        LoseRoom();
        if (_batch is { } batch)
        {
            _gaveBack = true;
            Discard(batch);
        }

        EndBatch();
    }

    /// <summary>The connection takes cipher text from here on: in one with what was sent before.</summary>
    private void PostUpgrade(TlsUpgrade upgrade)
    {
        using HeldBatch held = new(this);
        LoseRoom();
        if (!_loop.Mailbox.PostUpgrade(_connection, _generation, _batch, _batch?.Start ?? 0, _batch?.Written.Length ?? 0, upgrade) && _batch is { } batch) Discard(batch);
        EndBatch();
    }

    /// <summary>The callback has returned: what was reserved and not committed is given back, and what was sent leaves.</summary>
    private void FlushAtEnd()
    {
        // Not held: nobody writes into it any more, and who sees it lent a moment longer copies once more.
        _isRoomLost |= _isRoomLent;
        _isRoomLent = false;
        GiveBackReserved();
        if (_lostRooms is not null) FreeLostRooms();
        if (!FlushBatch() && _gaveBack)
        {
            // Somebody may wait until nothing of other threads is under way, and no item will come to tell.
            _loop.PostControl(static (_, c, _, g) => ((Connection)c!).ForeignGone((uint)g), _connection, null, _generation);
        }

        _gaveBack = false;
    }

    /// <summary>Memory of its own, or a part of a file, goes behind what was gathered.</summary>
    internal void SendsOwned(long length)
    {
        if (length == 0) return;
        _sentBytes += length;
        FlushBatch();
    }

    /// <summary>Waits until the loop has it, behind what this callback has sent: the next send is judged by it.</summary>
    internal void SetSendLimit(int bytes, bool allowsLarge)
    {
        FlushBatch();
        ManualResetEventSlim done = new();
        bool posted = _loop.PostControl(
            static (_, c, s, g) =>
            {
                (int bytes, bool allowsLarge, ManualResetEventSlim done) = ((int, bool, ManualResetEventSlim))s!;
                Connection connection = (Connection)c!;
                if (connection.Generation == (uint)g) connection.SetSendLimit(bytes, allowsLarge);
                done.Set();
            },
            _connection,
            (bytes, allowsLarge, done),
            _generation);
        if (posted) _loop.Engine.AwaitOffer(_loop, done, s_offerTime);
    }

    internal Span<byte> Reserve(int count)
    {
        GiveBackReserved();
        if (_lostCount >= SendQueue.MostLostRooms) SendQueue.TooManyLost();
        if (_connection.IsRefused(count, _generation)) return default;
        if (!_loop.Mailbox.HasRoomFor(_connection, _generation, mayWait: false)) return default;
        if (_connection.ReserveForeign(count, _generation) != SendResult.Queued) return default;
        using HeldBatch held = new(this);
        StrandBlock batch = BatchFor(count);
        _reserved = count;
        _isRoomLent = true;
        _isRoomLost = false;
        return batch.Room[..count];
    }

    internal void Commit(int count)
    {
        if (count > 0 && _isRoomLost)
        {
            _isRoomLost = false;
            // Ended in between: nothing is sent any more, and nobody is told (contract 5).
            if (_isEnded || _hasFinished) return;
            SendQueue.RoomIsLost();
        }

        if (count < 0 || count > _reserved) SendQueue.CommitOutOfRange(count, _reserved);
        int rest = _reserved - count;
        _reserved = 0;
        AddReserved(count);
        if (rest == 0) return;
        _gaveBack = true;
        _connection.GiveBackForeign(rest, _generation);
    }

    private void AddReserved(int count)
    {
        using HeldBatch held = new(this);
        _isRoomLent = _isRoomLost = false;
        if (count == 0) return;
        StrandBlock batch = _batch!;
        batch.Length += count;
        batch.Messages++;
        _sentBytes += count;
        Gathered();
    }

    /// <summary>
    /// Something is sent behind the room that is lent: it cannot be committed any more. Its block stays here until the callback
    /// returns, because somebody may still write into it; what was gathered in front of it goes on in another one. The batch is held.
    /// </summary>
    private void LoseRoom()
    {
        if (!_isRoomLent) return;
        _isRoomLost = true;
        _isRoomLent = false;
        GiveBackReserved();
        StrandBlock lent = _batch!;
        _batch = lent.Written.IsEmpty ? null : CopyOf(lent);
        lent.Next = _lostRooms;
        _lostRooms = lent;
        _lostCount++;
    }

    private StrandBlock CopyOf(StrandBlock batch)
    {
        StrandBlock copy = batch.Bytes.Length > StrandBlock.Capacity ? _loop.StrandBlocks.TakeLarge() : _loop.StrandBlocks.Take();
        batch.Written.CopyTo(copy.Room);
        copy.Length = batch.Written.Length;
        copy.Messages = batch.Messages;
        return copy;
    }

    private void FreeLostRooms()
    {
        while (_lostRooms is { } lost)
        {
            _lostRooms = lost.Next;
            lost.Next = null;
            lost.Dispose();
        }

        _lostCount = 0;
    }

    private void GiveBackReserved()
    {
        if (_reserved == 0) return;
        _gaveBack = true;
        _connection.GiveBackForeign(_reserved, _generation);
        _reserved = 0;
    }

    // ------------------------------------------------------------------ the rest, inside a callback

    internal void SetMinimumBytes(int count)
    {
        Connection.CheckMinimumBytes(count, _host.Options);
        _atLeast = count;
    }

    internal void HandOver(Session next, bool holdsSends)
    {
        _next = next;
        if (!holdsSends || _sendsAreHeld) return;
        FlushBatch();
        _sendsAreHeld = true;
        _loop.Mailbox.PostInOrder(DataKind.HoldSends, _connection, _generation, this);
    }

    /// <summary>The next session's OnConnected has returned, or flushes. Inside a callback.</summary>
    private void ReleaseSends()
    {
        if (!_sendsAreHeld) return;
        _sendsAreHeld = false;
        _loop.Mailbox.PostInOrder(DataKind.HoldSends, _connection, _generation);
    }

    /// <summary>The running callback has handed over. Inside a callback.</summary>
    internal bool HasNext => _next is not null;

    /// <summary>A callback has handed over, and the next session has not been told yet. Inside a callback.</summary>
    internal bool IsSwitching => _isSwitching;

    /// <summary>
    /// The batch belongs to the thread that runs the callback; another one may only post what is whole in it. Held for a copy, or for one system call that does not wait; nothing of
    /// the user's runs inside, and of other locks only those of the mailbox and of the blocks are taken.
    /// </summary>
    private readonly ref struct HeldBatch : IDisposable
    {
        private readonly Strand _strand;

        internal HeldBatch(Strand strand)
        {
            _strand = strand;
            bool isHeld = false;
            strand._batchLock.Enter(ref isHeld);
        }

        public void Dispose() => _strand._batchLock.Exit(useMemoryBarrier: false);
    }
}
