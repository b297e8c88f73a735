using System.Buffers;
using System.Runtime.CompilerServices;
using Whimbrel.Buffers;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;
using Whimbrel.Linux;

namespace Whimbrel.Connections;

/// <summary>
/// The sending half: the queue of blocks, its limit, and the way in for other threads (contracts 5, 6, 7, 8).
/// A send inside a callback is one comparison and a copy into the fill block; the flush at the end of the turn makes
/// one system call of all of them.
/// </summary>
internal sealed unsafe partial class Connection
{
    internal const int BackPressureMark = 256 * 1024;

    /// <summary>From here on, with an empty queue, bytes are not copied (docs/design/0002).</summary>
    internal const int ByReferenceBytes = 16 * 1024;

    /// <summary>A shorter run is copied, but only into a block the member already has.</summary>
    private const int CopyRunBelowBytes = 1024;

    /// <summary>A slow member that gets sends and broadcasts in turn: with references, each send would hold a block of its own.</summary>
    private const int CopyRunFromQueuedBytes = 64 * 1024;

    /// <summary>Rooms of one callback that were reserved and then sent past: each holds a block of its own until it returns.</summary>
    internal const int MostLostRooms = 64;

    internal const uint GenerationMask = 0x7FFF_FFFF;
    private const ulong ClosedBit = 1UL << 32;

    // The fill block: while _room > 0 a flush is certain to follow, so Send need look at nothing else.
    private byte* _fillPointer;
    private int _room;
    private int _granted;
    private int _moves;
    private int _moveDepth;
    private bool _dirty;
    private bool _sendInFlight;

    private Block? _head;
    private Block? _tail;
    private long _queued; // without what lies in the open fill: + _granted - _room
    private long _limit;
    private long _bytesSent;
    private int _sendError;
    private Exception? _memoryFault;

    // What Reserve gave: room at the end of this block. Lent until the user's code that runs now returns (its Loop.UserCalls).
    private int _reserved;
    private int _reservedAt;
    private Block? _reservedBlock;
    private long _lentIn;
    private int _lostRooms;

    private SendOperation? _firstOperation;
    private SendOperation? _lastOperation;
    private int _operationCount;

    /// <summary>generation (31 bits) | closed (1) | bytes that other threads have under way (32).</summary>
    private long _foreign;

    internal long BytesSent => _bytesSent;

    /// <summary>Taken and not yet given to the system. Any thread; exact for one caller (contract 8).</summary>
    internal long BytesPending => Loop.IsCurrent ? PendingHere : PendingFromElsewhere();

    /// <summary>The same on the loop's thread, where nothing moves meanwhile but what other threads add.</summary>
    private long PendingHere => _queued + _granted - _room + (uint)Volatile.Read(ref _foreign);

    /// <summary>Reads again while the loop moves bytes from one count to another, so that none is seen twice or not at all.</summary>
    private long PendingFromElsewhere()
    {
        SpinWait spin = default;
        while (true)
        {
            int moves = Volatile.Read(ref _moves);
            long pending = Volatile.Read(ref _queued) + Volatile.Read(ref _granted) - Volatile.Read(ref _room) + (uint)Volatile.Read(ref _foreign);
            Volatile.ReadBarrier();
            if ((moves & 1) == 0 && moves == Volatile.Read(ref _moves)) return pending;
            spin.SpinOnce(sleep1Threshold: -1);
        }
    }

    /// <summary>Odd while bytes are between two counts. Loop's thread.</summary>
    private void BeginMove()
    {
        if (_moveDepth++ > 0) return;
        _moves++;
        Volatile.WriteBarrier();
    }

    private void EndMove()
    {
        if (--_moveDepth > 0) return;
        Volatile.WriteBarrier();
        _moves++;
    }

    /// <summary>The first block to send, with all that was written so far.</summary>
    internal Block? SendHead
    {
        get
        {
            CloseFill();
            return _tls is null ? _head : _tls.Head;
        }
    }

    internal bool IsSendInFlight => _sendInFlight;

    private bool SendQueueIsEmpty => !HasQueued && !_sendInFlight && !HasSendsUnderWay;

    /// <summary>Taken, and not in the queue yet: what other threads sent, and what waits for room.</summary>
    private bool HasSendsUnderWay => _firstOperation is not null || (uint)Volatile.Read(ref _foreign) != 0 || _operationCount > 0;

    private static long ForeignWord(uint generation, bool closed) => (long)(((ulong)generation << 33) | (closed ? ClosedBit : 0));

    // ------------------------------------------------------------------ the fast way

    /// <summary>Queues a copy, whole or not at all. Any thread.</summary>
    // Safe: _room > 0 only while _fillPointer points at that many free bytes of the fill block, and only the loop's
    // thread, checked here, changes either.
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    internal SendResult Send(ReadOnlySpan<byte> data, uint generation)
    {
        // One comparison for both: nothing to send goes the slow way too, which knows whether the connection has ended.
        if ((uint)(data.Length - 1) < (uint)_room && Loop.IsCurrent && generation == Generation)
        {
            Unsafe.CopyBlockUnaligned(ref *_fillPointer, ref Unsafe.AsRef(in System.Runtime.InteropServices.MemoryMarshal.GetReference(data)), (uint)data.Length);
            _fillPointer += data.Length;
            _room -= data.Length;
            return SendResult.Queued;
        }

        return SendSlow(data, default, generation);
    }

    internal SendResult Send(ReadOnlySpan<byte> head, ReadOnlySpan<byte> body, uint generation) => SendSlow(head, body, generation);

    [MethodImpl(MethodImplOptions.NoInlining)]
    private SendResult SendSlow(ReadOnlySpan<byte> head, ReadOnlySpan<byte> body, uint generation)
    {
        return IsRefused((long)head.Length + body.Length, generation) ? SendResult.Refused : TakeCopy(head, body, generation, mayWait: false);
    }

    private SendResult TakeCopy(ReadOnlySpan<byte> head, ReadOnlySpan<byte> body, uint generation, bool mayWait)
    {
        if (!Loop.IsCurrent) return SendForeign(head, body, generation, mayWait);
        SendResult result = AdmitOrWait((long)head.Length + body.Length, generation, mayWait);
        if (result != SendResult.Queued) return result;
        SendAdmitted(head, body);
        return _sendError == 0 ? SendResult.Queued : SendResult.Closed;
    }

    private void SendAdmitted(ReadOnlySpan<byte> head, ReadOnlySpan<byte> body)
    {
        int length = head.Length + body.Length;
        if (length >= ByReferenceBytes && CanSendNow)
        {
            int sent = TrySendNow(head, body);
            if (_sendError != 0) return;
            CountSent(sent);
            int ofHead = Math.Min(sent, head.Length);
            head = head[ofHead..];
            body = body[(sent - ofHead)..];
        }

        Append(head);
        Append(body);
        CountMessage(length);
        Loop.FlushIfMany();
    }

    /// <summary>Out of the caller's memory, with nothing queued. How much the system took.</summary>
    private int TrySendNow(ReadOnlySpan<byte> head, ReadOnlySpan<byte> body)
    {
        fixed (byte* first = head)
        fixed (byte* second = body)
        {
            IoVector* vectors = stackalloc IoVector[2];
            int count = 0;
            if (head.Length > 0) vectors[count++] = new IoVector { Base = first, Length = (nuint)head.Length };
            if (body.Length > 0) vectors[count++] = new IoVector { Base = second, Length = (nuint)body.Length };
            return Loop.TrySendNow(this, new ReadOnlySpan<IoVector>(vectors, count));
        }
    }

    /// <summary>Pinned pieces, with nothing queued when they were admitted.</summary>
    private void SendAdmitted(ReadOnlySpan<IoVector> pieces, int length)
    {
        long sent = CanSendNow ? Loop.TrySendNow(this, pieces) : 0;
        if (_sendError != 0) return;
        CountSent(sent);
        foreach (IoVector piece in pieces)
        {
            int ofPiece = (int)Math.Min(sent, (long)piece.Length);
            Append(new ReadOnlySpan<byte>(piece.Base, (int)piece.Length)[ofPiece..]);
            sent -= ofPiece;
        }

        CountMessage(length);
        Loop.FlushIfMany();
    }

    /// <summary>Open for sends of the session's own thread.</summary>
    private bool TakesSends(uint generation) =>
        generation == Generation && _state == ConnectionState.Open && !_finishRequested && _sendError == 0 && _memoryFault is null;

    /// <summary>The rules for a send on the loop's thread: open, nobody waiting, within the limit.</summary>
    private SendResult Admit(long length, uint generation)
    {
        if (!TakesSends(generation)) return SendResult.Closed;
        if (_operationCount > 0)
        {
            _knowsOfQueue = true;
            return SendResult.Full;
        }

        if (PendingHere + length <= _limit) return SendResult.Queued;
        OfferQueue(length);
        if (_sendError != 0 || _state != ConnectionState.Open) return SendResult.Closed;
        // What was offered may have made room for somebody who waited longer.
        if (_operationCount == 0 && PendingHere + length <= _limit) return SendResult.Queued;
        _knowsOfQueue = true;
        return OverLimit();
    }

    /// <summary>The same for a message that may wait: <see cref="SendResult.Full"/> then says that it has to, and judges nobody.</summary>
    private SendResult AdmitOrWait(long length, uint generation, bool mayWait)
    {
        if (!mayWait) return Admit(length, generation);
        if (!TakesSends(generation)) return SendResult.Closed;
        return _operationCount == 0 && PendingHere + length <= _limit ? SendResult.Queued : SendResult.Full;
    }

    /// <summary>
    /// Something does not fit: before anybody is judged slow the system is offered what is queued, now instead of at the end of the turn
    /// (contract 9). Until it fits, or the system takes no more.
    /// </summary>
    private void OfferQueue(long length)
    {
        // Under the other policies nobody is judged: Full says that it does not fit now.
        if (length > _limit || IsRoomLent || _shard.Options.SlowConsumer != SlowConsumer.Disconnect) return;
        while (PendingHere + length > _limit && TryOffer())
        {
        }
    }

    /// <summary>True when the queue got shorter.</summary>
    private bool TryOffer()
    {
        CloseFill();
        long before = _bytesSent;
        if (_tls is { } tls)
        {
            // In a callback that the layer's delivery made, the layer sends as well, unless an answer of its own must go first.
            if (tls.IsInCall && Loop.Tls.Answer.Length > 0) return false;
            while (!_sendInFlight && tls.Head is { Length: 0 }) PopWire(tls);
            if (!_sendInFlight && tls.Head is null && _head is not null && tls.CanSend && !tls.SaidGoodbye) Encrypt(tls);
            if (tls.Head is null || _sendError != 0) return false;
        }
        else
        {
            while (!_sendInFlight && _head is { Length: 0 }) PopSent();
            if (_head is null) return false;
        }

        Loop.OfferSend(this);
        return _bytesSent > before && _sendError == 0;
    }

    /// <summary>For a callback on the pool, which waits for it: what it has sent so far was offered to the system.</summary>
    internal void DrainOffer(uint generation, long length)
    {
        if (generation == Generation && TakesQueued) OfferQueue(length);
    }

    /// <summary>The engine begins to send: until its CompleteSend no other send is started.</summary>
    internal void BeginSending() => _sendInFlight = true;

    private SendResult OverLimit()
    {
        if (_shard.Options.SlowConsumer != SlowConsumer.Disconnect) return SendResult.Full;
        // In this order: whoever is told may broadcast, and must not find it at its limit once more.
        AbortWith(new CloseReason(CloseCause.SlowConsumer));
        NoteSlowConsumer();
        return SendResult.Closed;
    }

    private void NoteSlowConsumer() => _shard.Host.NoteSlowConsumer(_session, BytesPending, _limit);

    private bool CanSendNow => _head is null && _tls is null && !_sendInFlight && _firstOperation is null && (uint)Volatile.Read(ref _foreign) == 0;

    // ------------------------------------------------------------------ the queue

    /// <summary>
    /// Copies to the end of the queue. The limit was checked. When no other send may follow unasked (an end has begun, one
    /// waits for room, the session wants to be asked), what was admitted before still goes, but no room stays open behind
    /// it: Send looks at nothing else.
    /// </summary>
    private void Append(ReadOnlySpan<byte> data)
    {
        while (!data.IsEmpty)
        {
            if (_room == 0) OpenFill(data.Length);
            int count = Math.Min(_room, data.Length);
            data[..count].CopyTo(new Span<byte>(_fillPointer, count));
            _fillPointer += count;
            _room -= count;
            data = data[count..];
            if (_room == 0) CloseFill();
        }

        if (_state != ConnectionState.Open || _finishRequested || _firstOperation is not null || AsksFirst || _shard.CountsSends) CloseFill();
    }

    /// <summary>
    /// Only where the option asks for it: the fast way in must not grow. No room stays open behind an append then, so that
    /// every send comes the slow way and is seen.
    /// </summary>
    private void CountMessage(int length)
    {
        if (_shard.CountsSends && length > 0) _shard.MessagesSent++;
    }

    /// <summary>
    /// Opens room at the tail: what is left of the last block, or a new one. Marks the connection dirty. Room that is lent is left
    /// alone: somebody may still write into it.
    /// </summary>
    private void OpenFill(int needed)
    {
        CloseFill();
        if (_tail is not { Kind: BlockKind.Pooled } tail || tail.End == tail.Capacity || (IsRoomLent && ReferenceEquals(tail, _reservedBlock)))
        {
            tail = Loop.TakeBlock();
            Enqueue(tail);
        }

        _fillPointer = tail.Memory + tail.End;
        // No more room than the limit allows (and what was admitted already), so that the one comparison in Send checks
        // the limit as well.
        int room = (int)Math.Min(tail.Capacity - tail.End, Math.Max(_limit - PendingHere, needed));
        BeginMove();
        _granted = room;
        _room = room;
        EndMove();
        MarkDirty();
    }

    /// <summary>Counts what was written into the open fill. The room is gone until it is opened again.</summary>
    private void CloseFill()
    {
        if (_granted == 0) return;
        int written = _granted - _room;
        _tail!.End += written;
        _fillPointer = null;
        BeginMove();
        _granted = 0;
        _room = 0;
        _queued += written;
        EndMove();
    }

    private void Enqueue(Block block)
    {
        CloseFill();
        if (_tail is null) _head = block;
        else _tail.Next = block;
        _tail = block;
    }

    private void MarkDirty()
    {
        if (_dirty || _sendInFlight) return;
        _dirty = true;
        Loop.AddDirty(this);
    }

    /// <summary>Starts the send of what is queued. From the loop's flush only.</summary>
    internal void Flush(bool isEndOfTurn)
    {
        _dirty = false;
        if (IsRoomLent && !isEndOfTurn)
        {
            // Somebody may be writing into a block of the queue right now: it cannot leave, and go to others, yet.
            MarkDirty();
            return;
        }

        CloseFill();
        if (_tls is { } tls)
        {
            FlushTls(tls);
            return;
        }

        if (_head is null || _sendInFlight || _state is not (ConnectionState.Open or ConnectionState.Draining)) return;
        // Of room that was reserved and never committed.
        while (_head is { Length: 0 }) PopSent();
        if (_head is null)
        {
            if (_state == ConnectionState.Draining || _finishRequested) Loop.Schedule(this);
            return;
        }

        _sendInFlight = true;
        Loop.StartSend(this);
    }

    // ------------------------------------------------------------------ completions of a send

    /// <summary>The system took this many bytes from the head of the queue.</summary>
    internal void AdvanceSend(long count)
    {
        CloseFill();
        if (_tls is { } tls)
        {
            AdvanceWire(tls, count);
            return;
        }

        _queued -= count;
        CountSent(count);
        while (count > 0)
        {
            Block block = _head!;
            int part = (int)Math.Min(count, block.Length);
            block.Start += part;
            count -= part;
            if (block.Length == 0) PopSent();
        }

        // Whoever waits for room gets it in the completion phase, not only when the queue is empty (contracts 6, 9).
        if (_firstOperation is not null || WaitsForQueue) Loop.Schedule(this);
    }

    private void CountSent(long count)
    {
        _bytesSent += count;
        _shard.BytesSent += count;
        Loop.Counters.BytesSent += count;
        if ((_hooks & (SessionHooks.Sent | SessionHooks.Drained)) != 0) NoteSent(count);
    }

    private void PopSent()
    {
        Block block = _head!;
        _head = block.Next;
        if (_head is null) _tail = null;
        block.Next = null;
        Return(block);
    }

    /// <summary>Gives a block of one of the queues back.</summary>
    private void Return(Block block)
    {
        if (Loop.Blocks.Return(block) is { } thrown) MemoryThrew(thrown);
    }

    /// <summary>The send has ended: the next may start, and whoever waits for room gets it.</summary>
    internal void CompleteSend()
    {
        _sendInFlight = false;
        UseRoom();
        if (HasQueued) MarkDirty();
        else if (_state == ConnectionState.Draining || _finishRequested) Loop.Schedule(this);
    }

    /// <summary>The queue got shorter: waiting sends go on, and so does reading.</summary>
    private void UseRoom()
    {
        if (_firstOperation is not null) PumpOperations();
        if (WaitsForQueue && PendingHere <= _goesOnAt && _firstOperation is null) EndBackPressure();
    }

    /// <summary>The send failed. Noted; the session hears of it in the completion phase, after what the peer still sent.</summary>
    internal void FailSend(int error)
    {
        _sendInFlight = false;
        if (_sendError != 0) return;
        _sendError = error;
        RefuseForeign();
        DiscardQueue();
        EndOperations();
        Loop.Schedule(this);
    }

    private void DiscardQueue()
    {
        CloseFill();
        while (_head is not null) PopSent();
        if (_tls?.Clear(Loop.Blocks) is { } thrown) MemoryThrew(thrown);
        DropHeldRuns();
        _queued = 0;
    }

    // ------------------------------------------------------------------ Reserve and Commit

    internal static void CheckReserve(int count)
    {
        if (count is < 1 or > BlockPool.BlockBytes) Throw.OutOfRange(nameof(count), count, $"between 1 and {BlockPool.BlockBytes}");
    }

    /// <summary>What was reserved may be written into until the user's code that runs now returns: until then nothing of the queue leaves.</summary>
    private bool IsRoomLent => _lentIn == Loop.UserCalls;

    internal Span<byte> Reserve(int count, uint generation)
    {
        if (!Loop.IsCurrent) Throw.NotOnLoop(nameof(Reserve));
        CheckReserve(count);
        if (!IsRoomLent) _lostRooms = 0;
        else if (_reserved > 0 && !IsReservedAtEnd) LoseRoom();
        _reserved = 0;
        if (_lostRooms >= MostLostRooms) TooManyLost();
        if (IsRefused(count, generation) || Admit(count, generation) != SendResult.Queued) return default;
        CloseFill();
        if (_tail is not { Kind: BlockKind.Pooled } tail || tail.Capacity - tail.End < count)
        {
            if (_reservedBlock is not null && IsRoomLent) LoseRoom();
            tail = Loop.TakeBlock();
            Enqueue(tail);
            MarkDirty();
        }

        _reserved = count;
        _reservedAt = tail.End;
        _reservedBlock = tail;
        _lentIn = Loop.UserCalls;
        return new Span<byte>(tail.Memory + tail.End, count);
    }

    internal void Commit(int count, uint generation)
    {
        if (!Loop.IsCurrent) Throw.NotOnLoop(nameof(Commit));
        if (generation != Generation) return;
        int reserved = _reserved;
        if (count < 0 || (count > reserved && reserved == 0)) CommitOutOfRange(count, reserved);
        if (reserved == 0 || (count > 0 && (_state != ConnectionState.Open || _finishRequested || _sendError != 0)))
        {
            // Nothing to give back, or ended in between.
            _reserved = 0;
            return;
        }

        if (count > 0 && !(IsRoomLent && IsReservedAtEnd))
        {
            _reserved = 0;
            if (IsRoomLent) LoseRoom();
            RoomIsLost();
        }

        if (count > reserved) CommitOutOfRange(count, reserved);
        _reserved = 0;
        if (!IsReservedAtEnd)
        {
            if (IsRoomLent) LoseRoom();
            return;
        }

        _reservedBlock = null;
        if (_lostRooms == 0) _lentIn = 0;
        if (count == 0) return;
        _tail!.End += count;
        _queued += count;
        CountMessage(count);
        MarkDirty();
    }

    private bool IsReservedAtEnd => _granted == 0 && ReferenceEquals(_tail, _reservedBlock) && _reservedBlock is { } block && block.End == _reservedAt;

    /// <summary>Something was sent behind the room. Its block stays until the user's code returns, and so does the next one's.</summary>
    private void LoseRoom()
    {
        _reservedBlock = null;
        _lostRooms++;
    }

    internal static void CommitOutOfRange(int count, int reserved) => Throw.OutOfRange(nameof(count), count, $"between 0 and the {reserved} reserved");

    internal static void RoomIsLost() => Throw.State("The room of Reserve is not at the end of the queue any more: something was sent behind it, or the callback that reserved it has returned. Nothing of it is sent. Commit before any other send, and in the same callback.");

    internal static void TooManyLost() => Throw.State($"{MostLostRooms} rooms of Reserve were neither committed nor given back before the next send of this callback. Call Commit, with 0 when nothing was written.");

    private void ForgetReserved()
    {
        _reserved = 0;
        _reservedAt = 0;
        _reservedBlock = null;
        _lentIn = 0;
        _lostRooms = 0;
    }
}
