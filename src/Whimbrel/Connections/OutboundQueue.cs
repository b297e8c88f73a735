using System.Buffers;
using System.Diagnostics;
using System.Diagnostics.CodeAnalysis;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using Whimbrel.Buffers;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;
using Whimbrel.Linux;

namespace Whimbrel.Connections;

/// <summary>
/// Everything that a connection has accepted and the kernel has not taken (contracts 5 to 9, 17, 20, 22, 23). A send
/// inside a callback is one comparison and a copy into the open block; the flush at the end of the turn makes one
/// system call of all of them. The connection decides when it opens, closes and ends; this type has no other state of
/// it. Next: OutboundQueue.Foreign.cs for other threads, OutboundQueue.Forms.cs for memory, files and broadcasts,
/// OutboundQueue.Waiting.cs for callers that wait.
/// </summary>
/// <remarks>
/// Loop's thread, except members documented as "any thread". A field of its connection, never copied, and kept for all
/// its uses.
/// </remarks>
// Safe: pointers are into blocks of the queue, or into memory that is pinned or fixed during the call.
[StructLayout(LayoutKind.Auto)]
internal unsafe partial struct OutboundQueue
{
    /// <summary>Size from which bytes are not copied if the queue is empty (docs/design/0002).</summary>
    internal const int ByReferenceBytes = 16 * 1024;

    /// <summary>Size below which a run is copied, if the queue has an open block.</summary>
    private const int CopyRunBelowBytes = 1024;

    /// <summary>
    /// Queued bytes from which runs are copied. A slow member that gets sends and broadcasts by turns would otherwise
    /// hold a block for each send.
    /// </summary>
    private const int CopyRunFromQueuedBytes = 64 * 1024;

    private readonly Connection _connection;
    private SendQueue _queue;
    private bool _isDirty; // in the loop's list
    private bool _isInFlight; // the engine sends
    private bool _isHeld; // queued data waits for OnConnected of the session that takes over
    private bool _isFileFault; // the fault was a file's
    private int _error; // of the system, the first one
    private int _operationCount; // of SendAsync, including those of other threads on their way
    private long _bytesSent;

    // Memory that threw, or a file that could not be sent: the completion phase ends the connection.
    private Exception? _fault;

    // ---- forms
    private FileRead? _fileRead;
    private BroadcastGate _gate;
    private List<(Run Run, int Start, int Length)>? _heldRuns;

    // ---- callers that wait
    private Fifo<SendOperation> _operations;
    private Fifo<SentMark> _marks;
    private Fifo<PacedSend> _paced; // sends that wait until less is pending
    private long _paceTurn; // turn in which awaited sends were last counted
    private int _paceBytes; // bytes of awaited sends in that turn
    private Pipe? _firstFeed; // first pipe into this connection
    private int _waitingFeeds;

    internal OutboundQueue(Connection connection)
    {
        _connection = connection;
        Loop = connection.Loop;
    }

    private Loop Loop { get; }

    private ConnectionState State => _connection.State;

    private bool IsFinishing => _connection.IsFinishing;

    private uint Generation => _connection.Generation;

    private HostShard Shard => _connection.Shard;

    private Session Session => _connection.Session;

    private PoolSession? Pool => _connection.Pool;

    private TlsTransport? Tls => _connection.Tls;

    /// <summary>Error of the system that ended sending; 0 if there was none.</summary>
    internal int Error => _error;

    /// <summary>True if memory that threw, or a file, ends the connection.</summary>
    internal bool HasFault => _fault is not null;

    internal bool IsFileFault => _isFileFault;

    /// <summary>Blocks, counts and limit.</summary>
    [UnscopedRef]
    internal ref SendQueue Queue => ref _queue;

    internal bool HasQueued => !_queue.Blocks.IsEmpty || Tls is { Wire.IsEmpty: false };

    internal bool HasOperations => _operations.First is not null;

    /// <summary>True if a message is being sent in pieces.</summary>
    internal bool IsInPieces => _operations.First is { HasStarted: true };

    /// <summary>True if a SendAsync waits for space, or is on its way to. Any thread.</summary>
    internal bool HasCallers => Volatile.Read(ref _operationCount) > 0;

    /// <summary>Number of bytes pending here, without sends of other threads in progress.</summary>
    internal long Queued => _queue.Queued;

    internal long Limit => _queue.Limit;

    /// <summary>True if sends of this generation are accepted. Any thread.</summary>
    internal bool IsOpenFor(uint generation) => _queue.Foreign.IsOpenFor(generation);

    // ------------------------------------------------------------------ begin and end of a use

    /// <summary>Prepares the queue for a connection that is not open for sends yet.</summary>
    internal void Begin(ConnectionLimits limits)
    {
        Debug.Assert(_error == 0 && _fault is null && _bytesSent == 0, "the state of the last use is left");
        _queue.Limit = limits.SendBytes;
        _queue.AllowsLarge = limits.AllowLargeMessages;
        _queue.Foreign.Begin(Generation, isClosed: true);
    }

    /// <summary>Accepts sends of all threads from now on.</summary>
    internal void Open() => _queue.Foreign.Begin(Generation, isClosed: false);

    /// <summary>Prepares the object for its next use, after everything was sent, discarded or reported.</summary>
    internal void Recycle()
    {
        Debug.Assert(_operations.First is null && _marks.First is null && _paced.First is null && _firstFeed is null,
            "a caller waits for a queue that has ended");
        Debug.Assert(_fileRead is null, "a file is read for a queue that has ended");
        _queue.Recycle(Generation);
        (_error, _fault, _bytesSent) = (0, null, 0);
        _isInFlight = _isHeld = _isFileFault = false;
        (_paceTurn, _paceBytes, _waitingFeeds, _gate) = (0, 0, 0, BroadcastGate.Open);
    }

    internal long BytesSent => _bytesSent;

    /// <summary>
    /// Number of bytes accepted and not passed to the system. Any thread; exact for one caller (contract 8).
    /// </summary>
    internal long BytesPending => Loop.IsCurrent ? PendingHere : _queue.PendingFromElsewhere();

    /// <summary>The same on the loop's thread.</summary>
    internal long PendingHere => _queue.Pending;

    private bool HasRoomFor(long length) =>
        Loop.IsCurrent ? _queue.HasRoomFor(length) : _queue.HasRoomFromElsewhere(length);

    internal int SendLimit => (int)_queue.Limit;

    internal bool AllowsLargeMessages => _queue.AllowsLarge;

    /// <summary>For the next send. Loop's thread.</summary>
    internal void SetSendLimit(int bytes, bool allowsLarge)
    {
        _queue.Limit = bytes;
        _queue.AllowsLarge = allowsLarge;
        // The open block was measured by the old limit, and a waiting caller may fit the new one.
        _queue.CloseFill();
        Loop.Schedule(_connection);
    }

    /// <summary>
    /// First block to send, with all bytes written so far. Null also while a file at the head is read.
    /// </summary>
    internal Block? SendHead
    {
        get
        {
            _queue.CloseFill();
            Block? head = Tls is null ? _queue.Blocks.Head : Tls.Wire.Head;
            return head is not null && MustRead(head) ? null : head;
        }
    }

    internal bool IsSendInFlight => _isInFlight;

    internal bool IsEmpty => !HasQueued && !_isInFlight && !HasSendsUnderWay;

    /// <summary>True if sends of other threads, or callers that wait for space, are not in the queue yet.</summary>
    internal bool HasSendsUnderWay =>
        _operations.First is not null || _queue.Foreign.Bytes != 0 || _operationCount > 0;

    // ------------------------------------------------------------------ the fast way

    /// <summary>Queues a copy, whole or not at all. Any thread.</summary>
    // Safe: the fill is the loop's thread's, which is checked here.
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    internal SendResult Send(ReadOnlySpan<byte> data, uint generation)
    {
        // Other messages, and empty ones, take the slow path, which checks whether the connection has ended.
        if (_queue.FitsFill(data.Length) && Loop.IsCurrent && _queue.Foreign.IsIdleFor(generation))
        {
            _queue.Copy(data);
            return SendResult.Queued;
        }

        return SendSlow(data, default, generation);
    }

    internal SendResult Send(ReadOnlySpan<byte> head, ReadOnlySpan<byte> body, uint generation) =>
        SendSlow(head, body, generation);

    [MethodImpl(MethodImplOptions.NoInlining)]
    private SendResult SendSlow(ReadOnlySpan<byte> head, ReadOnlySpan<byte> body, uint generation)
    {
        return _connection.IsRefused((long)head.Length + body.Length, generation)
            ? SendResult.Refused
            : TakeCopy(head, body, generation, mayWait: false);
    }

    private SendResult TakeCopy(ReadOnlySpan<byte> head, ReadOnlySpan<byte> body, uint generation, bool mayWait)
    {
        if (!Loop.IsCurrent) return SendForeign(head, body, generation, mayWait);
        SendResult result = AdmitOrWait((long)head.Length + body.Length, generation, mayWait);
        if (result != SendResult.Queued) return result;
        SendAdmitted(head, body);
        return _error == 0 ? SendResult.Queued : SendResult.Closed;
    }

    private void SendAdmitted(ReadOnlySpan<byte> head, ReadOnlySpan<byte> body)
    {
        int length = head.Length + body.Length;
        if (length >= ByReferenceBytes && CanSendNow)
        {
            int sent = TrySendNow(head, body);
            if (_error != 0) return;
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
            int count = Describe(first, head.Length, second, body.Length, vectors);
            return TrySendNow(new ReadOnlySpan<IoVector>(vectors, count));
        }
    }

    private int TrySendNow(ReadOnlySpan<IoVector> pieces)
    {
        int sent = Loop.TrySend(_connection, pieces);
        if (sent < 0) FailSend(-sent);
        return Math.Max(sent, 0);
    }

    /// <summary>Two pieces for a system call, without empty ones. How many.</summary>
    private static int Describe(byte* first, int firstLength, byte* second, int secondLength, IoVector* vectors)
    {
        int count = 0;
        if (firstLength > 0) vectors[count++] = new IoVector { Base = first, Length = (nuint)firstLength };
        if (secondLength > 0) vectors[count++] = new IoVector { Base = second, Length = (nuint)secondLength };
        return count;
    }

    /// <summary>Pinned pieces, with nothing queued when they were admitted.</summary>
    private void SendAdmitted(ReadOnlySpan<IoVector> pieces, int length)
    {
        long sent = CanSendNow ? TrySendNow(pieces) : 0;
        if (_error != 0) return;
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
    internal bool TakesSends(uint generation) =>
        generation == Generation && State == ConnectionState.Open && !IsFinishing && _error == 0
        && _fault is null;

    /// <summary>
    /// Checks a send on the loop's thread: the connection is open, no caller waits, and the limit allows it. Throws for
    /// a message that can never fit.
    /// </summary>
    private SendResult Admit(long length, uint generation)
    {
        SettleForeign();
        if (!TakesSends(generation)) return SendResult.Closed;
        if (_operationCount == 0 && _queue.HasRoomFor(length)) return SendResult.Queued;
        if (!_queue.MayEverFit(length)) Throw.TooLarge(length, _queue.Limit, Session.BroadcastRefusal is not null);
        if (_operationCount > 0)
        {
            _connection.KnowsOfQueue();
            return SendResult.Full;
        }

        OfferQueue(length);
        if (_error != 0 || State != ConnectionState.Open) return SendResult.Closed;
        // A caller that waited longer may have got the space.
        if (_operationCount == 0 && _queue.HasRoomFor(length)) return SendResult.Queued;
        _connection.KnowsOfQueue();
        return OverLimit();
    }

    /// <summary>
    /// The same for a message that may wait. <see cref="SendResult.Full"/> then means that it has to; the slow-consumer
    /// policy is not applied.
    /// </summary>
    private SendResult AdmitOrWait(long length, uint generation, bool mayWait)
    {
        if (!mayWait) return Admit(length, generation);
        SettleForeign();
        if (!TakesSends(generation)) return SendResult.Closed;
        return _operationCount == 0 && _queue.HasRoomFor(length) ? SendResult.Queued : SendResult.Full;
    }

    /// <summary>
    /// Sends queued data now instead of at the end of the turn, until a message fits or the system takes no more,
    /// before the peer is judged slow (contract 9).
    /// </summary>
    private void OfferQueue(long length)
    {
        // The other policies return Full.
        if (Shard.Options.CommonLimits.SlowConsumer != SlowConsumer.Disconnect) return;
        while (!_queue.HasRoomFor(length) && TryOffer())
        {
        }
    }

    /// <summary>Returns true if the queue got shorter.</summary>
    private bool TryOffer()
    {
        ReleaseSends();
        _queue.CloseFill();
        long before = _bytesSent;
        if (Tls is { } tls)
        {
            if (!tls.TryFillWire() || SendHead is null || _error != 0) return false;
        }
        else
        {
            while (!_isInFlight && _queue.Blocks.Head is { Length: 0 }) Return(_queue.Blocks.Dequeue());
            if (SendHead is null) return false;
        }

        Loop.StartSend(_connection, isOffer: true);
        return _bytesSent > before && _error == 0;
    }

    /// <summary>The same for a callback on the pool, which waits for it.</summary>
    internal void DrainOffer(uint generation, long length)
    {
        if (generation == Generation && TakesQueued) OfferQueue(length);
    }

    /// <summary>Sends queued data now instead of at the end of the turn.</summary>
    internal void FlushNow(uint generation)
    {
        if (generation != Generation || !TakesQueued || _error != 0) return;
        while (TryOffer())
        {
        }
    }

    /// <summary>Called when the engine begins to send. No other send is started before its CompleteSend.</summary>
    internal void BeginSending() => _isInFlight = true;

    private SendResult OverLimit()
    {
        if (Shard.Options.CommonLimits.SlowConsumer != SlowConsumer.Disconnect) return SendResult.Full;
        // In this order: the event handler may broadcast, and must not find the queue at its limit again.
        _connection.AbortWith(new CloseReason(CloseCause.SlowConsumer));
        NoteSlowConsumer();
        return SendResult.Closed;
    }

    private void NoteSlowConsumer() => Shard.Host.NoteSlowConsumer(Session, BytesPending, _queue.Limit);

    internal bool CanSendNow => !_isHeld && _queue.Blocks.IsEmpty && Tls is null
        && !_isInFlight && _operations.First is null && _queue.Foreign.Bytes == 0;

    // ------------------------------------------------------------------ a hand-over that holds

    /// <summary>
    /// Sends nothing until OnConnected of the next session has returned (<see cref="ReleaseSends"/>). Sends of all
    /// threads are queued in order meanwhile. The hold ends earlier if a caller waits for space or for the data to be
    /// sent, and with the connection.
    /// </summary>
    internal void HoldSends()
    {
        if (State == ConnectionState.Open && _connection.WasConnected && !IsFinishing) _isHeld = true;
    }

    internal void ReleaseSends()
    {
        if (!_isHeld) return;
        _isHeld = false;
        if (HasQueued) MarkDirty();
    }

    internal void DrainHoldSends(uint generation, bool holds)
    {
        if (generation != Generation) return;
        if (holds) HoldSends();
        else ReleaseSends();
    }

    // ------------------------------------------------------------------ the queue

    /// <summary>
    /// Copies to the end of the queue; the limit was checked. No block stays open if the next send must be checked: the
    /// connection is ending, a caller waits for space, or the session overrides OnSending. The fast path checks only
    /// the open block.
    /// </summary>
    private void Append(ReadOnlySpan<byte> data)
    {
        while (!data.IsEmpty)
        {
            if (_queue.Room == 0) OpenFill(data.Length);
            data = data[_queue.CopyPart(data)..];
        }

        if (State != ConnectionState.Open || IsFinishing || _operations.First is not null || _connection.AsksFirst
            || Shard.CountsSends)
            _queue.CloseFill();
    }

    /// <summary>
    /// Counts messages if the option requires it. No block stays open then, so that every send takes the slow path and
    /// is counted.
    /// </summary>
    internal void CountMessage(long length, int messages = 1)
    {
        if (Shard.CountsSends && length > 0) Shard.MessagesSent += messages;
    }

    /// <summary>
    /// Opens a block at the tail: the rest of the last block, or a new one. Marks the queue dirty.
    /// </summary>
    private void OpenFill(int needed)
    {
        SettleStrand();
        _queue.CloseFill();
        if (!_queue.HasFreeTail) _queue.Enqueue(Loop.TakeBlock());
        _queue.OpenFill(needed);
        MarkDirty();
    }

    internal void MarkDirty()
    {
        if (_isDirty || _isInFlight) return;
        _isDirty = true;
        Loop.AddDirty(_connection);
    }

    /// <summary>Starts the send of what is queued. From the loop's flush only.</summary>
    internal void Flush()
    {
        _isDirty = false;
        if (_isHeld) return;
        _queue.CloseFill();
        if (Tls is { } tls)
        {
            tls.Flush();
            return;
        }

        if (_queue.Blocks.IsEmpty || _isInFlight
            || State is not (ConnectionState.Open or ConnectionState.Draining))
            return;
        while (_queue.Blocks.Head is { Length: 0 }) Return(_queue.Blocks.Dequeue());
        if (_queue.Blocks.IsEmpty)
        {
            if (State == ConnectionState.Draining || IsFinishing) Loop.Schedule(_connection);
            return;
        }

        if (_queue.Blocks.Head is { Kind: BlockKind.File } && Loop.SendPace.IsSpentByFiles)
        {
            // The next turn starts at once, with connections that have waited longest.
            MarkDirty();
            return;
        }

        if (SendHead is null)
        {
            ReadFile(_queue.Blocks.Head!);
            return;
        }

        Loop.StartSend(_connection, isOffer: false);
    }

    // ------------------------------------------------------------------ completions of a send

    /// <summary>Called when the system has taken this number of bytes from the head of the queue.</summary>
    internal void AdvanceSend(long count)
    {
        _queue.CloseFill();
        if (Tls is { } tls)
        {
            AdvanceWire(tls, count);
            return;
        }

        CountSent(count);
        while (count > 0)
        {
            if (_queue.Advance(ref count) is { } sent) Return(sent);
        }

        if (_marks.First is not null) PassMarks();
        // Waiting callers get space in the completion phase, not only when the queue is empty (contracts 6, 9).
        if (NeedsRoom) Loop.Schedule(_connection);
    }

    internal void CountSent(long count)
    {
        _bytesSent += count;
        Shard.BytesSent += count;
        Loop.Counters.BytesSent += count;
        if (_connection.ReportsSent) _connection.NoteSent(count);
    }

    /// <summary>Gives a block of one of the queues back.</summary>
    internal void Return(Block block)
    {
        if (Loop.Blocks.Return(block) is { } thrown) MemoryThrew(thrown);
    }

    /// <summary>Called when a send has ended: the next may start, and waiting callers get the space.</summary>
    internal void CompleteSend()
    {
        _isInFlight = false;
        UseRoom();
        if (HasQueued) MarkDirty();
        else if (State == ConnectionState.Draining || IsFinishing) Loop.Schedule(_connection);
    }

    /// <summary>Continues waiting sends, and reading, after the queue got shorter.</summary>
    internal void UseRoom()
    {
        if (_operations.First is not null) PumpOperations();
        if (_paced.First is not null) PassPaced();
        if (_operations.First is null) _connection.QueueShrank(PendingHere);
        if (HasRoomForFeeds) WakeFeeds();
    }

    /// <summary>
    /// Called when a send has failed. The session is notified in the completion phase, after data that the peer has
    /// sent.
    /// </summary>
    internal void FailSend(int error)
    {
        _isInFlight = false;
        if (_error != 0) return;
        _error = error;
        Refuse();
        _connection.Loses(_queue.Queued);
        DiscardQueue();
        EndOperations();
        Loop.Schedule(_connection);
    }

    private void DiscardQueue()
    {
        SettleStrand();
        _queue.CloseFill();
        while (!_queue.Blocks.IsEmpty) Return(_queue.Blocks.Dequeue());
        Tls?.DiscardWire();
        DropHeldRuns();
        _fileRead = null;
        _queue.CountOnly(0);
        DropMarks();
        DropPaced();
    }

    // ------------------------------------------------------------------ Reserve and Commit

    internal Span<byte> Reserve(int count, uint generation)
    {
        if (!Loop.IsCurrent) Throw.NotOnLoop(nameof(Reserve));
        CheckReserve(count);
        Loop.Lent.Release(Loop);
        return _connection.IsRefused(count, generation) || Admit(count, generation) != SendResult.Queued
            ? default
            : Loop.Lent.Lend(_connection, count);
    }

    /// <summary>
    /// Copies a small message to the end of the queue, and queues the block itself for a larger one. It fits: the limit
    /// was checked by Reserve.
    /// </summary>
    internal void Commit(int count, uint generation)
    {
        if (!Loop.IsCurrent) Throw.NotOnLoop(nameof(Commit));
        if (generation != Generation) return;
        ref LentRoom lent = ref Loop.Lent;
        bool isOpen = TakesSends(generation);
        // A SendAsync of the callback that waits precedes it.
        CheckCommit(count, _operations.First is null ? lent.LengthOf(_connection) : 0, isOpen);
        if (count > 0 && isOpen)
        {
            if (count < (_queue.Queued < CopyRunFromQueuedBytes ? CopyRunBelowBytes : ByReferenceBytes))
            {
                Append(lent.Written(count));
            }
            else
            {
                _queue.Enqueue(lent.Take(count));
                MarkDirty();
            }

            CountMessage(count);
        }

        lent.Release(Loop);
    }

    internal static void CheckReserve(int count)
    {
        if (count is < 1 or > BlockPool.BlockBytes)
            Throw.OutOfRange(nameof(count), count, $"between 1 and {BlockPool.BlockBytes}");
    }

    /// <summary>Throws if these bytes cannot be committed. After the end, nothing is reported (contract 5).</summary>
    internal static void CheckCommit(int count, int reserved, bool isOpen)
    {
        if (count < 0 || (count > reserved && isOpen))
            Throw.OutOfRange(nameof(count), count, $"between 0 and the {reserved} reserved. A reservation ends with "
                + "its callback, with the next Reserve on the loop, and with a SendAsync of the session that waits");
    }

    /// <summary>Records that the system took this many bytes of the wire queue.</summary>
    private void AdvanceWire(TlsTransport tls, long count)
    {
        long plain = tls.Advance(count, out long ofFiles);
        if (plain > 0)
        {
            CountSent(plain);
            _queue.Count(ofFiles - plain);
            _queue.CountFiles(-ofFiles);
            if (NeedsRoom) Loop.Schedule(_connection);
        }

        if (_marks.First is not null) PassMarks();
    }

    /// <summary>
    /// Called before the loop queues something, or closes. A direct send of the strand may be running, and the bytes
    /// that the kernel does not accept of it come first.
    /// </summary>
    internal void SettleStrand()
    {
        if (Pool is { } pool && pool.Sends.Direct.IsActive) pool.Sends.Direct.Settle();
    }

    /// <summary>Discards everything but plaintext that is on the wire queue already, and ends what waits.</summary>
    internal void DiscardPlain(long onWire)
    {
        Refuse();
        _queue.CloseFill();
        _connection.Loses(_queue.Queued - onWire);
        while (!_queue.Blocks.IsEmpty) Return(_queue.Blocks.Dequeue());
        DropHeldRuns();
        _fileRead = null;
        _queue.CountOnly(onWire);
        EndOperations();
    }

    /// <summary>Ends what waits and discards the rest, because the connection has ended.</summary>
    internal void End()
    {
        DiscardQueue();
        EndOperations();
    }
}
