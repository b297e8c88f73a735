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
    internal const int BackPressureResume = BackPressureMark / 4;

    /// <summary>From here on, with an empty queue, bytes are not copied (docs/design/0002).</summary>
    internal const int ByReferenceBytes = 16 * 1024;

    /// <summary>A shorter run is copied, but only into a block the member already has.</summary>
    private const int CopyRunBelowBytes = 1024;

    /// <summary>A slow member that gets sends and broadcasts in turn: with references, each send would hold a block of its own.</summary>
    private const int CopyRunFromQueuedBytes = 64 * 1024;

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
    private int _reserved;

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
            return _head;
        }
    }

    internal bool IsSendInFlight => _sendInFlight;

    private bool SendQueueIsEmpty => _head is null && !_sendInFlight && _firstOperation is null && (uint)Volatile.Read(ref _foreign) == 0 && _operationCount == 0;

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
        if (!Loop.IsCurrent) return SendForeign(head, body, generation);
        SendResult result = Admit((long)head.Length + body.Length, generation);
        if (result != SendResult.Queued) return result;
        SendAdmitted(head, body);
        return _sendError == 0 ? SendResult.Queued : SendResult.Closed;
    }

    private void SendAdmitted(ReadOnlySpan<byte> head, ReadOnlySpan<byte> body)
    {
        if (body.IsEmpty && head.Length >= ByReferenceBytes && CanSendNow)
        {
            int sent = Loop.TrySendNow(this, head);
            if (_sendError != 0) return;
            CountSent(sent);
            head = head[sent..];
        }

        Append(head);
        Append(body);
        Loop.FlushIfMany();
    }

    /// <summary>The rules for a send on the loop's thread: open, nobody waiting, within the limit.</summary>
    private SendResult Admit(long length, uint generation)
    {
        if (generation != Generation || _state != ConnectionState.Open || _finishRequested || _sendError != 0) return SendResult.Closed;
        if (_operationCount > 0) return SendResult.Full;
        if (PendingHere + length <= _limit) return SendResult.Queued;
        return OverLimit();
    }

    private SendResult OverLimit()
    {
        if (_shard.Options.SlowConsumer != SlowConsumer.Disconnect) return SendResult.Full;
        // In this order: whoever is told may broadcast, and must not find it at its limit once more.
        AbortWith(new CloseReason(CloseCause.SlowConsumer));
        NoteSlowConsumer();
        return SendResult.Closed;
    }

    private void NoteSlowConsumer() => _shard.Host.NoteSlowConsumer(_session, BytesPending, _limit);

    private bool CanSendNow => _head is null && !_sendInFlight && _firstOperation is null && (uint)Volatile.Read(ref _foreign) == 0;

    // ------------------------------------------------------------------ the queue

    /// <summary>Copies to the end of the queue. The limit was checked.</summary>
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
    }

    /// <summary>Opens room at the tail: what is left of the last block, or a new one. Marks the connection dirty.</summary>
    private void OpenFill(int needed)
    {
        CloseFill();
        if (_tail is not { Kind: BlockKind.Pooled } tail || tail.End == tail.Capacity)
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
        if (_reserved > 0 && ReferenceEquals(Loop.ActiveConnection, this))
        {
            if (!isEndOfTurn)
            {
                // Somebody may be writing into the fill block right now: it cannot leave yet.
                MarkDirty();
                return;
            }

            // No user code is on the stack: what was reserved and not committed is given back.
            _reserved = 0;
        }

        // Room that was reserved and not committed before the callback returned is given back.
        _reserved = 0;
        CloseFill();
        if (_head is null || _sendInFlight || _state is not (ConnectionState.Open or ConnectionState.Draining)) return;
        if (_head.Length == 0)
        {
            PopSent();
            if (_head is null)
            {
                if (_state == ConnectionState.Draining || _finishRequested) Loop.Schedule(this);
                return;
            }
        }

        _sendInFlight = true;
        Loop.StartSend(this);
    }

    // ------------------------------------------------------------------ completions of a send

    /// <summary>The system took this many bytes from the head of the queue.</summary>
    internal void AdvanceSend(long count)
    {
        CloseFill();
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
        if (_firstOperation is not null || (_gate & ReceiveGate.BackPressure) != 0) Loop.Schedule(this);
    }

    private void CountSent(long count)
    {
        _bytesSent += count;
        _shard.BytesSent += count;
        Loop.Counters.BytesSent += count;
    }

    private void PopSent()
    {
        Block block = _head!;
        _head = block.Next;
        if (_head is null) _tail = null;
        block.Next = null;
        Loop.Blocks.Return(block);
    }

    /// <summary>The send has ended: the next may start, and whoever waits for room gets it.</summary>
    internal void CompleteSend()
    {
        _sendInFlight = false;
        UseRoom();
        if (_head is not null) MarkDirty();
        else if (_state == ConnectionState.Draining || _finishRequested) Loop.Schedule(this);
    }

    /// <summary>The queue got shorter: waiting sends go on, and so does reading.</summary>
    private void UseRoom()
    {
        if (_firstOperation is not null) PumpOperations();
        if ((_gate & ReceiveGate.BackPressure) != 0 && PendingHere < BackPressureResume) Open(ReceiveGate.BackPressure);
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
        DropHeldRuns();
        _queued = 0;
    }

    // ------------------------------------------------------------------ Reserve and Commit

    internal Span<byte> Reserve(int count, uint generation)
    {
        if (!Loop.IsCurrent) Throw.NotOnLoop(nameof(Reserve));
        if (count is < 1 or > BlockPool.BlockBytes) Throw.OutOfRange(nameof(count), count, $"between 1 and {BlockPool.BlockBytes}");
        if (Admit(count, generation) != SendResult.Queued) return default;
        if (_room < count)
        {
            CloseFill();
            Block block = Loop.TakeBlock();
            Enqueue(block);
            OpenFill(count);
        }

        if (_room < count) return default;
        _reserved = count;
        return new Span<byte>(_fillPointer, count);
    }

    internal void Commit(int count, uint generation)
    {
        if (generation != Generation) return;
        if (count < 0 || count > _reserved) Throw.OutOfRange(nameof(count), count, $"between 0 and the {_reserved} reserved");
        _reserved = 0;
        if (_granted == 0) return; // ended in between
        _fillPointer += count;
        _room -= count;
    }

    // ------------------------------------------------------------------ memory whose ownership is passed

    internal SendResult SendOwned(IMemoryOwner<byte> owner, int length, uint generation)
    {
        if (!Loop.IsCurrent) return SendOwnedForeign(owner, length, generation);
        SendResult result = Admit(length, generation);
        if (result == SendResult.Queued) EnqueueOwned(owner, length);
        return result;
    }

    private void EnqueueOwned(IMemoryOwner<byte> owner, int length)
    {
        if (length == 0)
        {
            owner.Dispose();
            return;
        }

        if (length < ByReferenceBytes)
        {
            // A small piece between two sends would cost each of those a block of its own.
            Append(owner.Memory.Span[..length]);
            owner.Dispose();
            return;
        }

        Enqueue(Loop.Blocks.TakeOwned(owner, length));
        _queued += length;
        MarkDirty();
    }

    private SendResult SendOwnedForeign(IMemoryOwner<byte> owner, int length, uint generation)
    {
        SendResult result = TryReserveForeign(length, generation);
        if (result != SendResult.Queued) return result;
        if (Loop.Mailbox.PostOwned(this, generation, owner, length)) return SendResult.Queued;
        ReleaseForeign(length, generation);
        return SendResult.Closed;
    }

    internal void DrainOwned(uint generation, IMemoryOwner<byte> owner, int length)
    {
        BeginMove();
        try
        {
            if (generation == Generation && _state is ConnectionState.Open or ConnectionState.Draining && _sendError == 0) EnqueueOwned(owner, length);
            else owner.Dispose();
        }
        finally
        {
            // Also when the user's memory throws.
            ReleaseForeign(length, generation);
            EndMove();
        }

        ForeignArrived(generation);
    }

    // ------------------------------------------------------------------ other threads

    private SendResult SendForeign(ReadOnlySpan<byte> head, ReadOnlySpan<byte> body, uint generation, bool mayWait = false)
    {
        int length = checked(head.Length + body.Length);
        SendResult result = TryReserveForeign(length, generation, mayWait);
        if (result != SendResult.Queued) return result;
        result = Loop.Mailbox.PostSend(this, generation, head, body);
        if (result != SendResult.Queued) ReleaseForeign(length, generation);
        return result;
    }

    /// <summary>Reserves first: the limit must hold, and BytesPending be true, from the moment the caller returns (contract 8).</summary>
    private SendResult TryReserveForeign(int length, uint generation, bool mayWait = false)
    {
        while (true)
        {
            long word = Volatile.Read(ref _foreign);
            if ((uint)((ulong)word >> 33) != generation || ((ulong)word & ClosedBit) != 0) return SendResult.Closed;
            if (Volatile.Read(ref _operationCount) > 0) return SendResult.Full;
            if (BytesPending + length > _limit) return mayWait ? SendResult.Full : OverLimitForeign(generation);
            if (Interlocked.CompareExchange(ref _foreign, word + length, word) == word) break;
        }

        if (Volatile.Read(ref _operationCount) == 0) return SendResult.Queued;
        // A SendAsync came in between. If it saw these bytes it waits for them; if it did not, it may already be sending
        // its pieces. Either way they are given back, and it is told.
        ReleaseForeign(length, generation);
        Loop.PostControl(static (_, connection, _, g) => ((Connection)connection!).ForeignGone((uint)g), this, null, generation);
        return SendResult.Full;
    }

    /// <summary>Nothing of other threads is under way: what waited for that goes on.</summary>
    private void ForeignGone(uint generation)
    {
        if (generation != Generation) return;
        if (_firstOperation is not null && _state is ConnectionState.Open or ConnectionState.Draining) PumpOperations();
        if (_state == ConnectionState.Draining || _finishRequested) Loop.Schedule(this);
    }

    private SendResult OverLimitForeign(uint generation)
    {
        // The shard is read once: the object may be recycled under a caller that comes late.
        if (_shard is not { } shard || shard.Options.SlowConsumer != SlowConsumer.Disconnect) return SendResult.Full;
        if (!CloseForeign(generation)) return SendResult.Closed;
        Loop.PostControl(
            static (_, connection, _, g) =>
            {
                Connection c = (Connection)connection!;
                if (c.Generation != (uint)g) return;
                if (c.State is not (ConnectionState.Open or ConnectionState.Draining)) return;
                c.AbortWith(new CloseReason(CloseCause.SlowConsumer));
                c.NoteSlowConsumer();
            },
            this,
            null,
            generation);
        return SendResult.Closed;
    }

    /// <summary>Sets the closed bit: this caller's later sends are refused from here on. False when it was set or the tenant is gone.</summary>
    internal bool CloseForeign(uint generation)
    {
        while (true)
        {
            long word = Volatile.Read(ref _foreign);
            if ((uint)((ulong)word >> 33) != generation || ((ulong)word & ClosedBit) != 0) return false;
            if (Interlocked.CompareExchange(ref _foreign, (long)((ulong)word | ClosedBit), word) == word) return true;
        }
    }

    private void RefuseForeign() => CloseForeign(Generation);

    private void ReleaseForeign(int length, uint generation)
    {
        while (true)
        {
            long word = Volatile.Read(ref _foreign);
            if ((uint)((ulong)word >> 33) != generation) return;
            if (Interlocked.CompareExchange(ref _foreign, word - length, word) == word) return;
        }
    }

    internal void DrainSend(uint generation, ReadOnlySpan<byte> data)
    {
        BeginMove();
        if (generation == Generation && _state is ConnectionState.Open or ConnectionState.Draining && _sendError == 0) Append(data);
        ReleaseForeign(data.Length, generation);
        EndMove();
        // Taken before the end began: this still goes, but it leaves no room for a send that comes after.
        if (_state != ConnectionState.Open || _finishRequested || _firstOperation is not null) CloseFill();
        ForeignArrived(generation);
    }

    private void ForeignArrived(uint generation)
    {
        ForeignGone(generation);
        Loop.FlushIfMany();
    }

    internal void DrainClose(uint generation)
    {
        if (generation == Generation) CloseWith(new CloseReason(CloseCause.LocalClose));
    }

    internal void DrainFinishSending(uint generation)
    {
        if (generation == Generation) FinishSending();
    }

    // ------------------------------------------------------------------ SendAsync (contract 6)

    internal ValueTask<SendResult> SendAsync(ReadOnlyMemory<byte> data, uint generation, CancellationToken cancellation)
    {
        if (cancellation.IsCancellationRequested) return ValueTask.FromCanceled<SendResult>(cancellation);
        bool onLoop = Loop.IsCurrent;
        if (onLoop)
        {
            if (generation != Generation || _state != ConnectionState.Open || _finishRequested || _sendError != 0) return new(SendResult.Closed);
            // Looked at here and not left to Send: another thread may take the room in between, and then this one waits.
            if (_operationCount == 0 && BytesPending + data.Length <= _limit)
            {
                SendAdmitted(data.Span, default);
                return new(_sendError == 0 ? SendResult.Queued : SendResult.Closed);
            }
        }
        else
        {
            long word = Volatile.Read(ref _foreign);
            if ((uint)((ulong)word >> 33) != generation || ((ulong)word & ClosedBit) != 0) return new(SendResult.Closed);
            if (Volatile.Read(ref _operationCount) == 0 && BytesPending + data.Length <= _limit)
            {
                SendResult result = SendForeign(data.Span, default, generation, mayWait: true);
                if (result != SendResult.Full) return new(result);
            }
        }

        SendOperation operation = SendOperation.Take(Loop);
        operation.Begin(this, generation, data);
        Interlocked.Increment(ref _operationCount);
        if (onLoop)
        {
            Enqueue(operation);
            PumpOperations();
        }
        else if (!Loop.Mailbox.PostItem(DataKind.SendOperation, this, generation, operation)) operation.End(SendResult.Closed);
        ValueTask<SendResult> task = operation.Task;
        if (cancellation.CanBeCanceled) operation.CancelWith(cancellation);
        return task;
    }

    internal void DrainOperation(uint generation, SendOperation operation)
    {
        if (generation != Generation || _state is not (ConnectionState.Open or ConnectionState.Draining) || _sendError != 0)
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
        if (_lastOperation is null) _firstOperation = operation;
        else _lastOperation.Next = operation;
        _lastOperation = operation;
    }

    internal void OperationEnded()
    {
        Interlocked.Decrement(ref _operationCount);
        // It may have been the last thing that an end waited for; also the end of the next tenant, when it came too late
        // for the one it was meant for.
        if (Loop.IsCurrent && (_state == ConnectionState.Draining || _finishRequested)) Loop.Schedule(this);
    }

    /// <summary>First come first served: whole messages while they fit; one above the limit in pieces with nothing between.</summary>
    private void PumpOperations()
    {
        while (_firstOperation is { } operation)
        {
            long room = _limit - PendingHere;
            int rest = operation.Rest.Length;
            bool inPieces = operation.HasStarted || rest > _limit;
            // What other threads were promised already comes before the first piece: nothing may come between the pieces.
            if (inPieces && !operation.HasStarted && (uint)Volatile.Read(ref _foreign) != 0) break;
            if (rest > room && (!inPieces || room < Math.Min(rest, Math.Min(BlockPool.BlockBytes, _limit)) / 2)) break;
            int count = (int)Math.Min(rest, room);
            Append(operation.Rest.Span[..count]);
            operation.Advance(count);
            if (operation.Rest.Length > 0) break;
            RemoveFirstOperation();
            operation.End(SendResult.Queued);
            ReleaseHeldRuns();
        }

        // While one waits nobody may use the room that is open: Send looks at nothing else.
        if (_firstOperation is not null) CloseFill();
    }

    private void RemoveFirstOperation()
    {
        SendOperation first = _firstOperation!;
        _firstOperation = first.Next;
        if (_firstOperation is null) _lastOperation = null;
        first.Next = null;
    }

    /// <summary>Gives up one operation. Before its first piece nothing was sent; after it the message cannot be taken back.</summary>
    internal void CancelOperation(SendOperation operation)
    {
        SendOperation? previous = null;
        for (SendOperation? o = _firstOperation; o is not null; previous = o, o = o.Next)
        {
            if (!ReferenceEquals(o, operation)) continue;
            if (previous is null) RemoveFirstOperation();
            else
            {
                previous.Next = o.Next;
                if (ReferenceEquals(_lastOperation, o)) _lastOperation = previous;
                o.Next = null;
            }

            bool started = operation.HasStarted;
            operation.EndCancelled();
            if (started) AbortWith(new CloseReason(CloseCause.Cancelled));
            else
            {
                PumpOperations();
                if (_state == ConnectionState.Draining || _finishRequested) Loop.Schedule(this);
            }

            return;
        }

        operation.IsCancelRequested = true;
    }

    private void EndOperations()
    {
        while (_firstOperation is { } operation)
        {
            RemoveFirstOperation();
            operation.End(SendResult.Closed);
        }
    }

    // ------------------------------------------------------------------ broadcasts (contract 17)

    private BroadcastGate _broadcastGate;
    private List<(Run Run, int Start, int Length)>? _heldRuns;

    internal BroadcastGate BroadcastGate
    {
        get => _broadcastGate;
        set
        {
            _broadcastGate = value;
            ReleaseHeldRuns();
            UseRoom();
        }
    }

    /// <summary>The gate is not held any more: what waited at it goes on or is dropped.</summary>
    private void ReleaseHeldRuns()
    {
        if (_heldRuns is not { Count: > 0 } held || _broadcastGate == BroadcastGate.Held) return;
        // A message that goes in pieces is finished first; there was room for it beside what is held.
        if (_firstOperation is { HasStarted: true }) return;
        foreach ((Run run, int start, int length) in held)
        {
            _queued -= length;
            if (_broadcastGate == BroadcastGate.Open && _state == ConnectionState.Open && !_finishRequested && _sendError == 0) QueueRun(run, start, length);
            Loop.Blocks.Release(run);
        }

        held.Clear();
    }

    /// <summary>Queues a stretch of a run by reference. False when this member does not get it.</summary>
    internal bool AppendRun(Run run, int start, int length)
    {
        if (_state != ConnectionState.Open || _finishRequested || _sendError != 0 || _broadcastGate == BroadcastGate.Shut) return false;
        if (_firstOperation is not null)
        {
            // Between the pieces of a message, or before one that came first, there is no place for it (contracts 6, 7).
            Loop.Counters.BroadcastsDropped++;
            return false;
        }

        if (PendingHere + length > _limit)
        {
            Loop.Counters.BroadcastsDropped++;
            OverLimit();
            return false;
        }

        if (_broadcastGate == BroadcastGate.Held)
        {
            (_heldRuns ??= []).Add((run, start, length));
            run.References++;
            _queued += length;
            return true;
        }

        QueueRun(run, start, length);
        return true;
    }

    private void QueueRun(Run run, int start, int length)
    {
        if (_queued >= CopyRunFromQueuedBytes && length < ByReferenceBytes && _tail is { Kind: BlockKind.Pooled })
        {
            Append(new ReadOnlySpan<byte>(run.Memory + start, length));
            return;
        }

        if (length < CopyRunBelowBytes && length <= _room)
        {
            new ReadOnlySpan<byte>(run.Memory + start, length).CopyTo(new Span<byte>(_fillPointer, length));
            _fillPointer += length;
            _room -= length;
            return;
        }

        CloseFill();
        if (_tail is { Kind: BlockKind.Run } tail && ReferenceEquals(tail.Run, run) && tail.End == start) tail.End += length;
        else Enqueue(Loop.Blocks.TakeReference(run, start, length));
        _queued += length;
        MarkDirty();
    }

    // ------------------------------------------------------------------ memberships

    private List<(GroupShard Shard, int Index)>? _memberships;

    internal List<(GroupShard Shard, int Index)> Memberships => _memberships ??= new(2);

    private void LeaveGroups()
    {
        if (_shard.Members.Contains(this)) _shard.Members.Remove(this);
        while (_memberships is { Count: > 0 } memberships) memberships[^1].Shard.Remove(this);
    }

    private void DropHeldRuns()
    {
        if (_heldRuns is null) return;
        foreach ((Run run, _, _) in _heldRuns) Loop.Blocks.Release(run);
        _heldRuns.Clear();
    }
}
