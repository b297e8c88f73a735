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

    private SendQueue _queue;
    private bool _dirty;

    private int _operationCount;

    internal long BytesSent => _tenancy.BytesSent;

    /// <summary>Taken and not yet given to the system. Any thread; exact for one caller (contract 8).</summary>
    internal override long BytesPending => Loop.IsCurrent ? PendingHere : _queue.PendingFromElsewhere();

    /// <summary>The same on the loop's thread.</summary>
    private long PendingHere => _queue.Pending;

    private bool HasRoomFor(long length) =>
        Loop.IsCurrent ? _queue.HasRoomFor(length) : _queue.HasRoomFromElsewhere(length);

    internal int SendLimit => (int)_queue.Limit;

    internal bool AllowsLargeMessages => _queue.AllowsLarge;

    /// <summary>For the next send. Loop's thread.</summary>
    internal void SetSendLimit(int bytes, bool allowsLarge)
    {
        _queue.Limit = bytes;
        _queue.AllowsLarge = allowsLarge;
        // Room that is open was measured by the old one, and who waits for room may fit the new one.
        _queue.CloseFill();
        Loop.Schedule(this);
    }

    /// <summary>The first block to send, with all that was written so far. Null also while a file that comes first is read.</summary>
    internal Block? SendHead
    {
        get
        {
            _queue.CloseFill();
            Block? head = _tenancy.Tls is null ? _queue.Blocks.Head : _tenancy.Tls.Wire.Head;
            return head is not null && MustRead(head) ? null : head;
        }
    }

    internal bool IsSendInFlight => _tenancy.SendInFlight;

    private bool SendQueueIsEmpty => !HasQueued && !_tenancy.SendInFlight && !HasSendsUnderWay;

    /// <summary>Taken, and not in the queue yet: what other threads sent, and what waits for room.</summary>
    private bool HasSendsUnderWay =>
        _tenancy.FirstOperation is not null || _queue.Foreign.Bytes != 0 || _operationCount > 0;

    // ------------------------------------------------------------------ the fast way

    /// <summary>Queues a copy, whole or not at all. Any thread.</summary>
    // Safe: the fill is the loop's thread's, which is checked here.
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    internal SendResult Send(ReadOnlySpan<byte> data, uint generation)
    {
        // What does not fit the fill, nothing at all included, goes the slow way, which knows whether the connection has ended.
        if (_queue.FitsFill(data.Length) && Loop.IsCurrent && generation == Generation && _queue.Foreign.Bytes == 0)
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
        return IsRefused((long)head.Length + body.Length, generation)
            ? SendResult.Refused
            : TakeCopy(head, body, generation, mayWait: false);
    }

    private SendResult TakeCopy(ReadOnlySpan<byte> head, ReadOnlySpan<byte> body, uint generation, bool mayWait)
    {
        if (!Loop.IsCurrent) return SendForeign(head, body, generation, mayWait);
        SendResult result = AdmitOrWait((long)head.Length + body.Length, generation, mayWait);
        if (result != SendResult.Queued) return result;
        SendAdmitted(head, body);
        return _tenancy.SendError == 0 ? SendResult.Queued : SendResult.Closed;
    }

    private void SendAdmitted(ReadOnlySpan<byte> head, ReadOnlySpan<byte> body)
    {
        int length = head.Length + body.Length;
        if (length >= ByReferenceBytes && CanSendNow)
        {
            int sent = TrySendNow(head, body);
            if (_tenancy.SendError != 0) return;
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
        int sent = Loop.TrySend(this, pieces);
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
        if (_tenancy.SendError != 0) return;
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
        generation == Generation && State == ConnectionState.Open && !IsFinishing && _tenancy.SendError == 0
        && _tenancy.QueueFault is null;

    /// <summary>The rules for a send on the loop's thread: open, nobody waiting, within the limit. What can never fit
    /// is the caller's mistake, and throws.</summary>
    private SendResult Admit(long length, uint generation)
    {
        SettleForeign();
        if (!TakesSends(generation)) return SendResult.Closed;
        if (_operationCount == 0 && _queue.HasRoomFor(length)) return SendResult.Queued;
        if (!_queue.MayEverFit(length)) Throw.TooLarge(length, _queue.Limit, Session.BroadcastRefusal is not null);
        if (_operationCount > 0)
        {
            KnowsOfQueue();
            return SendResult.Full;
        }

        OfferQueue(length);
        if (_tenancy.SendError != 0 || State != ConnectionState.Open) return SendResult.Closed;
        // What was offered may have made room for somebody who waited longer.
        if (_operationCount == 0 && _queue.HasRoomFor(length)) return SendResult.Queued;
        KnowsOfQueue();
        return OverLimit();
    }

    /// <summary>The same for a message that may wait: <see cref="SendResult.Full"/> then says that it has to, and judges nobody.</summary>
    private SendResult AdmitOrWait(long length, uint generation, bool mayWait)
    {
        if (!mayWait) return Admit(length, generation);
        SettleForeign();
        if (!TakesSends(generation)) return SendResult.Closed;
        return _operationCount == 0 && _queue.HasRoomFor(length) ? SendResult.Queued : SendResult.Full;
    }

    /// <summary>
    /// Something does not fit: before anybody is judged slow the system is offered what is queued, now instead of at the end of the turn
    /// (contract 9). Until it fits, or the system takes no more.
    /// </summary>
    private void OfferQueue(long length)
    {
        // Under the other policies nobody is judged: Full says that it does not fit now.
        if (_queue.IsLent(Loop.UserCalls) || Shard.Options.CommonLimits.SlowConsumer != SlowConsumer.Disconnect) return;
        while (!_queue.HasRoomFor(length) && TryOffer())
        {
        }
    }

    /// <summary>True when the queue got shorter.</summary>
    private bool TryOffer()
    {
        ReleaseSends();
        _queue.CloseFill();
        long before = _tenancy.BytesSent;
        if (_tenancy.Tls is { } tls)
        {
            if (!tls.TryFillWire() || SendHead is null || _tenancy.SendError != 0) return false;
        }
        else
        {
            while (!_tenancy.SendInFlight && _queue.Blocks.Head is { Length: 0 }) Return(_queue.Blocks.Dequeue());
            if (SendHead is null) return false;
        }

        Loop.StartSend(this, isOffer: true);
        return _tenancy.BytesSent > before && _tenancy.SendError == 0;
    }

    /// <summary>For a callback on the pool, which waits for it: what it has sent so far was offered to the system.</summary>
    internal void DrainOffer(uint generation, long length)
    {
        if (generation == Generation && TakesQueued) OfferQueue(length);
    }

    /// <summary>What is queued is offered to the system now instead of at the end of the turn. Here; not while room is lent.</summary>
    internal void FlushNow(uint generation)
    {
        if (generation != Generation || !TakesQueued || _tenancy.SendError != 0 || _queue.IsLent(Loop.UserCalls))
            return;
        while (TryOffer())
        {
        }
    }

    /// <summary>The engine begins to send: until its CompleteSend no other send is started.</summary>
    internal void BeginSending() => _tenancy.SendInFlight = true;

    private SendResult OverLimit()
    {
        if (Shard.Options.CommonLimits.SlowConsumer != SlowConsumer.Disconnect) return SendResult.Full;
        // In this order: whoever is told may broadcast, and must not find it at its limit once more.
        AbortWith(new CloseReason(CloseCause.SlowConsumer));
        NoteSlowConsumer();
        return SendResult.Closed;
    }

    private void NoteSlowConsumer() => Shard.Host.NoteSlowConsumer(Session, BytesPending, _queue.Limit);

    private bool CanSendNow => !_tenancy.HoldsSends && _queue.Blocks.IsEmpty && _tenancy.Tls is null
        && !_tenancy.SendInFlight && _tenancy.FirstOperation is null && _queue.Foreign.Bytes == 0;

    // ------------------------------------------------------------------ a hand-over that holds

    /// <summary>
    /// Nothing leaves until the next session's OnConnected has returned (<see cref="ReleaseSends"/>): what is sent meanwhile, by whichever thread, is queued in its
    /// order. The hold ends before that when somebody waits for what is queued: for room, or until it has left; and with the connection.
    /// </summary>
    private void HoldSends()
    {
        if (State == ConnectionState.Open && WasConnected && !IsFinishing) _tenancy.HoldsSends = true;
    }

    private void ReleaseSends()
    {
        if (!_tenancy.HoldsSends) return;
        _tenancy.HoldsSends = false;
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
    /// Copies to the end of the queue. The limit was checked. When no other send may follow unasked (an end has begun, one
    /// waits for room, the session wants to be asked), what was admitted before still goes, but no room stays open behind
    /// it: Send looks at nothing else.
    /// </summary>
    private void Append(ReadOnlySpan<byte> data)
    {
        while (!data.IsEmpty)
        {
            if (_queue.Room == 0) OpenFill(data.Length);
            data = data[_queue.CopyPart(data)..];
        }

        if (State != ConnectionState.Open || IsFinishing || _tenancy.FirstOperation is not null || AsksFirst
            || Shard.CountsSends)
            _queue.CloseFill();
    }

    /// <summary>
    /// Only where the option asks for it: the fast way in must not grow. No room stays open behind an append then, so that
    /// every send comes the slow way and is seen.
    /// </summary>
    private void CountMessage(long length, int messages = 1)
    {
        if (Shard.CountsSends && length > 0) Shard.MessagesSent += messages;
    }

    /// <summary>
    /// Opens room at the tail: what is left of the last block, or a new one. Marks the connection dirty. Room that is lent is left
    /// alone: somebody may still write into it.
    /// </summary>
    private void OpenFill(int needed)
    {
        SettleStrand();
        _queue.CloseFill();
        if (!_queue.HasFreeTail(Loop.UserCalls)) _queue.Enqueue(Loop.TakeBlock());
        _queue.OpenFill(needed);
        MarkDirty();
    }

    internal void MarkDirty()
    {
        if (_dirty || _tenancy.SendInFlight) return;
        _dirty = true;
        Loop.AddDirty(this);
    }

    /// <summary>Starts the send of what is queued. From the loop's flush only.</summary>
    internal override void Flush(bool isEndOfTurn)
    {
        _dirty = false;
        if (_tenancy.HoldsSends) return;
        if (_queue.IsLent(Loop.UserCalls) && !isEndOfTurn)
        {
            // Somebody may be writing into a block of the queue right now: it cannot leave, and go to others, yet.
            MarkDirty();
            return;
        }

        _queue.CloseFill();
        if (_tenancy.Tls is { } tls)
        {
            tls.Flush();
            return;
        }

        if (_queue.Blocks.IsEmpty || _tenancy.SendInFlight
            || State is not (ConnectionState.Open or ConnectionState.Draining))
            return;
        // Of room that was reserved and never committed.
        while (_queue.Blocks.Head is { Length: 0 }) Return(_queue.Blocks.Dequeue());
        if (_queue.Blocks.IsEmpty)
        {
            if (State == ConnectionState.Draining || IsFinishing) Loop.Schedule(this);
            return;
        }

        if (_queue.Blocks.Head is { Kind: BlockKind.File } && Loop.SendPace.IsSpentByFiles)
        {
            // The next turn comes at once, and begins with those that wait longest.
            MarkDirty();
            return;
        }

        if (SendHead is null)
        {
            ReadFile(_queue.Blocks.Head!);
            return;
        }

        Loop.StartSend(this, isOffer: false);
    }

    // ------------------------------------------------------------------ completions of a send

    /// <summary>The system took this many bytes from the head of the queue.</summary>
    internal void AdvanceSend(long count)
    {
        _queue.CloseFill();
        if (_tenancy.Tls is { } tls)
        {
            AdvanceWire(tls, count);
            return;
        }

        CountSent(count);
        while (count > 0)
        {
            if (_queue.Advance(ref count) is { } sent) Return(sent);
        }

        if (_tenancy.Marks.First is not null) PassMarks();
        // Whoever waits for room gets it in the completion phase, not only when the queue is empty (contracts 6, 9).
        if (NeedsRoom) Loop.Schedule(this);
    }

    private void CountSent(long count)
    {
        _tenancy.BytesSent += count;
        Shard.BytesSent += count;
        Loop.Counters.BytesSent += count;
        if ((_tenancy.Hooks & (SessionHooks.Sent | SessionHooks.Drained)) != 0) NoteSent(count);
    }

    /// <summary>Gives a block of one of the queues back.</summary>
    internal void Return(Block block)
    {
        if (Loop.Blocks.Return(block) is { } thrown) MemoryThrew(thrown);
    }

    /// <summary>The send has ended: the next may start, and whoever waits for room gets it.</summary>
    internal void CompleteSend()
    {
        _tenancy.SendInFlight = false;
        UseRoom();
        if (HasQueued) MarkDirty();
        else if (State == ConnectionState.Draining || IsFinishing) Loop.Schedule(this);
    }

    /// <summary>The queue got shorter: waiting sends go on, and so does reading.</summary>
    private void UseRoom()
    {
        if (_tenancy.FirstOperation is not null) PumpOperations();
        if (_tenancy.FirstPaced is not null) PassPaced();
        if (WaitsForQueue && PendingHere <= _tenancy.GoesOnAt && _tenancy.FirstOperation is null) EndBackPressure();
        if (HasRoomForFeeds) WakeFeeds();
    }

    /// <summary>The send failed. Noted; the session hears of it in the completion phase, after what the peer still sent.</summary>
    internal void FailSend(int error)
    {
        _tenancy.SendInFlight = false;
        if (_tenancy.SendError != 0) return;
        _tenancy.SendError = error;
        RefuseForeign();
        _tenancy.Life.Loses(_queue.Queued);
        DiscardQueue();
        EndOperations();
        Loop.Schedule(this);
    }

    private void DiscardQueue()
    {
        SettleStrand();
        _queue.CloseFill();
        while (!_queue.Blocks.IsEmpty) Return(_queue.Blocks.Dequeue());
        _tenancy.Tls?.DiscardWire();
        DropHeldRuns();
        _tenancy.FileRead = null;
        _queue.CountOnly(0);
        DropMarks();
        DropPaced();
    }

    // ------------------------------------------------------------------ Reserve and Commit

    internal Span<byte> Reserve(int count, uint generation)
    {
        if (!Loop.IsCurrent) Throw.NotOnLoop(nameof(Reserve));
        SendQueue.CheckReserve(count);
        long call = Loop.UserCalls;
        if (!_queue.TryBeginReserve(call)) SendQueue.TooManyLost();
        if (IsRefused(count, generation) || Admit(count, generation) != SendResult.Queued) return default;
        if (!_queue.HasTailFor(count, call))
        {
            _queue.Enqueue(Loop.TakeBlock());
            MarkDirty();
        }

        return _queue.Reserve(count, call);
    }

    internal void Commit(int count, uint generation)
    {
        if (!Loop.IsCurrent) Throw.NotOnLoop(nameof(Commit));
        if (generation != Generation) return;
        if (!_queue.Commit(count, Loop.UserCalls,
            State == ConnectionState.Open && !IsFinishing && _tenancy.SendError == 0))
            return;
        CountMessage(count);
        MarkDirty();
    }
}
