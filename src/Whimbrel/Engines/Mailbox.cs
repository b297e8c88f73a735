using System.Buffers;
using Whimbrel.Buffers;
using Whimbrel.Connections;
using Whimbrel.Datagrams;

namespace Whimbrel.Engines;

/// <summary>Something that a loop is to do, with no byte limit: attach, abort, stop, timers, posted actions.</summary>
internal delegate void ControlAction(Loop loop, object? first, object? second, long value);

/// <summary>Kind of an item of the mailbox. Sends to a connection are in its <see cref="SendInbox"/>.</summary>
internal enum DataKind : byte
{
    Join,
    Leave,
    LeaveAll,
    Broadcast,
    FormedBroadcast,
    SharedBroadcast,
    Datagrams,
    DatagramOperation,

    /// <summary>An action that was posted to a session.</summary>
    Call,

    /// <summary>An action that was posted to the loop. It has no receiver.</summary>
    Post,
}

/// <summary>
/// The way into a loop for other threads. Two lanes: control (drained first, no byte limit) and data, which keeps call
/// order for each caller: joins, leaves, broadcasts, posted actions and datagrams. Sends to a connection are in its
/// <see cref="SendInbox"/>, in order with these (Mailbox.Inboxes.cs). Sends are charged to the budget of the engine.
/// Broadcasts have space for <see cref="RunLimitBytes"/>, which they reserve on all loops before the first is posted. A
/// loop never waits: it may use <see cref="LoopFactor"/> times that space, and the session that it posts from is not
/// read while more than <see cref="PaceBytes"/> of sends, or that space, wait here. The loop is woken at most once per
/// turn.
/// A broadcast that follows one of the same group, with the same exclusion or predicate, joins its run. The run keeps
/// the end of each message, so that a member at its limit loses only the messages without room.
/// </summary>
internal sealed partial class Mailbox : IThreadPoolWorkItem
{
    /// <summary>With more sends than this, the sessions of other loops that add to them are held.</summary>
    internal const int PaceBytes = 1024 * 1024;

    /// <summary>
    /// A quarter of the default limit of a send queue: a member that is up to date has room for what one turn brings.
    /// </summary>
    internal const int RunLimitBytes = 256 * 1024;
    internal const int LoopFactor = 4;

    /// <summary>
    /// What an item, and what a message of a run, is charged beside its bytes: empty ones have a limit too.
    /// </summary>
    internal const int ItemBytes = 64;
    internal const int MessageBytes = 16;

    /// <summary>Then the loop does its other work before it drains on.</summary>
    internal const int DrainBytes = 1024 * 1024;

    private const int MessagesKept = 16 * 1024;
    private const int WakePatience = 2;
    private const int MostLingering = 128;

    private readonly Lock _gate = new();
    private readonly Loop _loop;
    private readonly MailboxBudget _budget;

    private (ControlAction Action, object? First, object? Second, long Value)[] _control =
        new (ControlAction, object?, object?, long)[16];
    private (ControlAction Action, object? First, object? Second, long Value)[] _controlDraining =
        new (ControlAction, object?, object?, long)[16];
    private int _controlCount;

    private DataItems _data = new();
    private DataItems _dataDraining = new();
    private int _nextToDrain;
    private long _firstDraining; // numbers of the first items of both lists
    private long _firstWaiting;
    private ByteArena _arena = new();
    private ByteArena _arenaDraining = new();
    private int[] _messageLengths = [];
    private int[] _messageLengthsDraining = [];
    private int _messageCount;
    private long _runBytes; // reserved or posted; without the gate
    private long _runBytesPosted;

    private int _sleeping;
    private int _wakeIsQueued;
    private int _patience; // how often the queued wake lets others go first; renewed by posts
    private int _lingered; // how often it did; the queued wake's own
    private bool _wasQueued; // the watchdog's
    private int _waking;
    private volatile bool _any;
    private volatile bool _isClosed;

    // Sessions on other loops that are not read: released when the lane was drained.
    private List<(Resident Resident, uint Generation)>? _overcommitted;
    private List<(Resident Resident, uint Generation)>? _overcommittedDraining;

    // Callers that wait for room (Broadcast, off-loop): completed when the lane was drained.
    private List<RoomWait>? _waitingForRoom;

    // Sessions and sockets with sends that the budget rejected: notified when it has space.
    private List<(Resident Resident, uint Generation)>? _refused;

    internal Mailbox(Loop loop)
    {
        _loop = loop;
        _budget = loop.Engine.MailboxBudget;
    }

    internal bool Any => _any;

    /// <summary>The loop has ended.</summary>
    internal bool IsClosed => _isClosed;

    /// <summary>The loop waits, or is about to: a post wakes it.</summary>
    internal bool IsLoopAsleep => Volatile.Read(ref _sleeping) == 1;

    internal long Wakes { get; private set; }

    /// <summary>Data items that the next drain takes.</summary>
    internal int WaitingItems => _data.Count;

    /// <summary>Memory that it holds for bytes and items now: two arenas, two lists.</summary>
    internal (long Bytes, int Items) Capacity => (_arena.Capacity + _arenaDraining.Capacity,
        (_data.SegmentCount + _dataDraining.SegmentCount) * DataItems.SegmentItems);

    // ------------------------------------------------------------------ posting, any thread

    /// <summary>False when the loop has ended; nothing is done then.</summary>
    internal bool PostControl(ControlAction action, object? first = null, object? second = null, long value = 0)
    {
        lock (_gate)
        {
            if (_isClosed) return false;
            if (_controlCount == _control.Length) Array.Resize(ref _control, _controlCount * 2);
            _control[_controlCount++] = (action, first, second, value);
            _any = true;
        }

        WakeIfSleeping();
        return true;
    }

    /// <summary>
    /// Copies the bytes of one datagram, or of a run of one size, in; the peer goes before them. The caller has
    /// reserved them on the socket. A caller on another loop is not held: it has no reading to stop.
    /// </summary>
    internal SendResult PostDatagrams<TSocket>(TSocket socket, int datagramBytes, in DatagramPeer peer,
        ReadOnlySpan<byte> data, bool mayWait = false)
        where TSocket : Resident, IMailboxReceiver
    {
        Span<byte> head = stackalloc byte[DatagramPeer.PackedBytes];
        peer.Pack(head);
        int length = head.Length + data.Length;
        if (_isClosed) return SendResult.Closed;
        if (!TryCharge((long)length + ItemBytes, socket, socket.Generation, mayWait)) return Refused(mayWait);
        bool isClosed;
        lock (_gate)
        {
            isClosed = _isClosed;
            if (!isClosed)
            {
                (int chunk, int offset) = _arena.Append(head, data);
                Add() = new DataItem
                {
                    Kind = DataKind.Datagrams,
                    Receiver = socket,
                    Extra = peer.Name,
                    Chunk = chunk,
                    Offset = offset,
                    Length = length,
                    Value = datagramBytes
                };
            }
        }

        if (isClosed)
        {
            _budget.GiveBack(length + ItemBytes);
            return SendResult.Closed;
        }

        WakeIfSleeping();
        return SendResult.Queued;
    }

    // ------------------------------------------------------------------ the budget

    /// <summary>
    /// Charges a send. Returns false if the budget is used up; the target is notified when there is space, unless the
    /// caller may wait. The thread that owns an adopted loop is never rejected between its turns, because only it
    /// drains the mailbox. Not under the gate.
    /// </summary>
    private bool TryCharge(long cost, Resident target, uint generation, bool mayWait)
    {
        if (_budget.TryTake(cost)) return true;
        if (_loop.IsOwnedHere)
        {
            _budget.Overdraw(cost);
            return true;
        }

        if (mayWait) return false;
        OweRoom(target, generation);
        return _budget.TryTake(cost);
    }

    /// <summary>
    /// Records the connection to notify. The caller then checks the budget again, so that no space is missed.
    /// </summary>
    private void OweRoom(Resident target, uint generation)
    {
        lock (_gate)
        {
            if (target.RoomOwedTo != generation)
            {
                target.RoomOwedTo = generation;
                (_refused ??= []).Add((target, generation));
            }

            _budget.OweRoom();
        }
    }

    private SendResult Refused(bool mayWait)
    {
        if (!mayWait) _budget.NoteRefusal();
        return SendResult.Full;
    }

    /// <summary>
    /// Checks the limit for memory that a callback on the pool reserves: it is charged at the commit, which cannot be
    /// rejected. Returns false as <see cref="PostSend"/> does.
    /// </summary>
    internal bool HasRoomFor(Resident connection, uint generation)
    {
        if (!_budget.IsUsedUp) return true;
        OweRoom(connection, generation);
        if (!_budget.IsUsedUp) return true;
        _budget.NoteRefusal();
        return false;
    }

    /// <summary>
    /// Called when the budget has space again: notifies, on this loop, the connections and sockets after a rejected
    /// send. Any thread.
    /// </summary>
    internal void TellOfRoom()
    {
        lock (_gate)
        {
            if (_refused is null) return;
        }

        PostControl(static (loop, _, _, _) => loop.Mailbox.TellRefused());
    }

    private void TellRefused()
    {
        List<(Resident Resident, uint Generation)>? refused;
        lock (_gate)
        {
            refused = _refused;
            _refused = null;
            if (refused is null) return;
            foreach ((Resident resident, _) in refused) resident.RoomOwedTo = 0;
        }

        foreach ((Resident resident, uint generation) in refused)
        {
            if (resident.Generation == generation) resident.RoomAgain();
        }
    }

    // ------------------------------------------------------------------ posting, any thread, what has no bytes here

    /// <summary>
    /// Posts an item without bytes, in order with the caller's other posts. Returns false only if the loop has ended.
    /// </summary>
    /// <param name="item">The item.</param>
    /// <param name="atOnce">True to wake the loop now, because the caller may block the thread that would run a batched
    /// wake-up.</param>
    internal bool Post(in DataItem item, bool atOnce = false)
    {
        lock (_gate)
        {
            if (_isClosed) return false;
            Add() = item;
        }

        WakeIfSleeping(atOnce);
        return true;
    }

    void IThreadPoolWorkItem.Execute()
    {
        // A program that waits for these posts posts again in a callback or two. A concurrent renewal may be missed
        // once.
        if (_patience > 0 && _lingered < MostLingering && IsLoopAsleep)
        {
            _patience--;
            _lingered++;
            _loop.Engine.Offload(this);
            return;
        }

        _lingered = 0;
        // First, because a later post queues the next wake-up.
        Interlocked.Exchange(ref _wakeIsQueued, 0);
        WakeIfSleeping();
    }

    // ------------------------------------------------------------------ broadcasts, any thread

    /// <summary>
    /// Takes room for one broadcast, before anything is copied anywhere, so that all loops take it or none. Ends in
    /// <see cref="PostBroadcast"/> or <see cref="GiveBackRun"/>.
    /// </summary>
    internal bool TryReserveRun(int length)
    {
        long limit = Loop.Current is null ? RunLimitBytes : LoopFactor * RunLimitBytes;
        if (_loop.IsOwnedHere) limit = Math.Max(_budget.Limit, LoopFactor * RunLimitBytes);
        long taken = Volatile.Read(ref _runBytes);
        while (HasRunRoom(taken, length, limit))
        {
            long seen = Interlocked.CompareExchange(ref _runBytes, taken + RunCost(length), taken);
            if (seen == taken) return true;
            taken = seen;
        }

        return false;
    }

    /// <summary>
    /// A larger one than half of the room needs that half: small ones without end do not keep it out.
    /// </summary>
    private static bool HasRunRoom(long taken, int length, long limit) =>
        taken + Math.Min(RunCost(length), limit / 2) <= limit;

    private static long RunCost(int length) => (long)length + MessageBytes;

    /// <summary>Another loop had no room for it.</summary>
    internal void GiveBackRun(int length)
    {
        Interlocked.Add(ref _runBytes, -RunCost(length));
        List<RoomWait>? waiting;
        lock (_gate) waiting = TakeWaiting();
        Complete(waiting);
    }

    /// <summary>
    /// Posts a broadcast, which joins the run of the previous item if that is of the same group. The space was
    /// reserved. Returns false if the loop has ended, and has no members.
    /// </summary>
    /// <param name="shard">The members.</param>
    /// <param name="data">One message.</param>
    /// <param name="extra">Session that does not get it, predicate, or operation of an awaited broadcast; or null. For
    /// shared bytes a <see cref="SharedBroadcast"/> that contains it.</param>
    internal bool PostBroadcast(IMailboxReceiver shard, in BroadcastData data, object? extra)
    {
        IMemoryOwner<byte>? loan = data.Shared?.LendMore();
        Loop? caller = Loop.Current;
        bool above = false;
        bool isClosed;
        lock (_gate)
        {
            isClosed = _isClosed;
            if (!isClosed)
            {
                if (loan is not null)
                    Add() = new DataItem
                    {
                        Kind = DataKind.SharedBroadcast,
                        Receiver = shard,
                        Payload = extra
                    };
                else if (data.Forms.Length > 0) AppendFormed(shard, data, extra);
                else AppendBroadcast(shard, data.Bytes, extra);
                _runBytesPosted += RunCost(data.Length);
                above = caller is not null && _runBytesPosted > RunLimitBytes;
                if (above) Overcommit(caller!);
            }
        }

        if (isClosed)
        {
            GiveBackRun(data.Length);
            loan?.Dispose();
            return false;
        }

        if (above) caller!.HoldActiveSession();
        WakeIfSleeping();
        return true;
    }

    /// <summary>
    /// Its forms are stored one after the other. Joins no run, because the forms of one class would not be adjacent.
    /// </summary>
    private void AppendFormed(IMailboxReceiver shard, in BroadcastData data, object? extra)
    {
        (int chunk, int offset) = _arena.Append(data.Bytes, default);
        int first = _messageCount;
        foreach (int length in data.Forms) AddMessage(length);
        Add() = new DataItem
        {
            Kind = DataKind.FormedBroadcast,
            Receiver = shard,
            Extra = extra,
            Chunk = chunk,
            Offset = offset,
            Length = data.Length,
            FirstMessage = first,
            Messages = data.Forms.Length
        };
    }

    private void AddMessage(int length)
    {
        if (_messageCount == _messageLengths.Length) Array.Resize(ref _messageLengths, Math.Max(64, _messageCount * 2));
        _messageLengths[_messageCount++] = length;
    }

    private void AppendBroadcast(IMailboxReceiver shard, ReadOnlySpan<byte> data, object? extra)
    {
        (int chunk, int offset) = _arena.Append(data, default);
        AddMessage(data.Length);
        if (_data.Count > 0)
        {
            // An operation counts for itself: it is a new object each time, and so never joins.
            ref DataItem last = ref _data[_data.Count - 1];
            if (last.Kind == DataKind.Broadcast && !_wasStamped && ReferenceEquals(last.Receiver, shard)
                && ReferenceEquals(last.Extra, extra) && TryJoin(ref last, chunk, data.Length))
                return;
        }

        Add() = new DataItem
        {
            Kind = DataKind.Broadcast,
            Receiver = shard,
            Extra = extra,
            Chunk = chunk,
            Offset = offset,
            Length = data.Length,
            FirstMessage = _messageCount - 1,
            Messages = 1
        };
    }

    /// <summary>
    /// Its bytes are the arena's last ones: the new ones follow directly, unless a chunk has ended in between. Not more
    /// than a run holds.
    /// </summary>
    private static bool TryJoin(ref DataItem last, int chunk, int length)
    {
        if (last.Chunk != chunk || last.Length + length > Buffers.Run.FixedCapacity) return false;
        last.Length += length;
        last.Messages++;
        return true;
    }

    private void Overcommit(Loop caller)
    {
        if (caller.Active is { } resident) (_overcommitted ??= []).Add((resident, resident.Generation));
    }

    private ref DataItem Add()
    {
        _any = true;
        _wasStamped = false;
        Volatile.Write(ref _posted, _posted + 1);
        return ref _data.Add();
    }

    /// <summary>For what was posted before.</summary>
    /// <param name="atOnce">Whatever the thread gathers (<see cref="WakeUpBatch"/>).</param>
    internal void WakeIfSleeping(bool atOnce = false)
    {
        // The item must be visible before the flag is looked at, or the loop could miss both (see TrySleep).
        Interlocked.MemoryBarrier();
        if (Volatile.Read(ref _sleeping) == 0) return;
        if (WakeUpBatch.IsWanted && !atOnce) WakeByPool(WakeUpBatch.MayLinger);
        else Wake();
    }

    /// <summary>
    /// Queues the wake-up on the pool, after the callbacks that are queued there already: one wake-up for the posts of
    /// all of them. If they block, another thread of the pool runs it.
    /// </summary>
    /// <param name="mayLinger">True to queue it again after work that those callbacks queue, while they post
    /// more.</param>
    private void WakeByPool(bool mayLinger)
    {
        _patience = mayLinger ? WakePatience : 0;
        if (Interlocked.Exchange(ref _wakeIsQueued, 1) == 0) _loop.Engine.Offload(this);
    }

    /// <summary>
    /// Looked at by the watchdog now and then: a wake that was queued at its last look already is done here, for all
    /// threads of the pool may be blocked. True: one is queued.
    /// </summary>
    internal bool WakeIfLate()
    {
        if (Volatile.Read(ref _wakeIsQueued) == 0)
        {
            _wasQueued = false;
            return false;
        }

        if (_wasQueued) WakeIfSleeping();
        _wasQueued = true;
        return true;
    }

    private void Wake()
    {
        // Counted before the flag is taken, so that the queue is not closed under a wake (see Close).
        Interlocked.Increment(ref _waking);
        if (Interlocked.Exchange(ref _sleeping, 0) == 1)
        {
            Wakes++;
            _loop.WakeUp();
        }

        Interlocked.Decrement(ref _waking);
    }

    // ------------------------------------------------------------------ waiting for room, any thread but a loop's

    /// <summary>
    /// Completes when the lane was drained. At once when there is room for <paramref name="length"/> bytes of
    /// broadcast.
    /// </summary>
    internal ValueTask<bool> WaitForRoom(int length, CancellationToken cancellation) =>
        WaitForRoom(length, Timeout.InfiniteTimeSpan, cancellation);

    /// <summary>The same, for at most so long: then it gives false.</summary>
    internal ValueTask<bool> WaitForRoom(int length, TimeSpan timeout, CancellationToken cancellation)
    {
        if (BeginWaitForRoom(length) is not { } wait) return new ValueTask<bool>(true);
        ValueTask<bool> task = wait.Task;
        wait.WatchTime(timeout);
        wait.WatchCancellation(cancellation);
        return task;
    }

    /// <summary>What is completed when there is room; null when there is.</summary>
    internal RoomWait? BeginWaitForRoom(int length)
    {
        lock (_gate)
        {
            if (_isClosed || HasRunRoom(Volatile.Read(ref _runBytes), length, RunLimitBytes)) return null;
            RoomWait wait = new(_loop.Engine);
            (_waitingForRoom ??= []).Add(wait);
            return wait;
        }
    }

    // ------------------------------------------------------------------ the loop's side

    /// <summary>
    /// Announces that the loop is about to block. False when something arrived in between: do not block.
    /// </summary>
    internal bool TrySleep()
    {
        Interlocked.Exchange(ref _sleeping, 1);
        if (!_any) return true;
        Volatile.Write(ref _sleeping, 0);
        return false;
    }

    internal void Woke() => Volatile.Write(ref _sleeping, 0);

    /// <summary>
    /// Runs what was posted before the call, control first. Of data at most some <see cref="DrainBytes"/>: what is left
    /// then is drained on by the next call, before what was posted after it.
    /// </summary>
    internal void Drain()
    {
        int controls;
        List<RoomWait>? waiting = null;
        bool isNext = _nextToDrain == 0;
        lock (_gate)
        {
            // With a rest to drain first, what was posted since stays where it is.
            _any = !isNext;
            (_control, _controlDraining) = (_controlDraining, _control);
            controls = _controlCount;
            _controlCount = 0;
            if (isNext) waiting = SwapData();
        }

        for (int i = 0; i < controls; i++)
        {
            (ControlAction action, object? first, object? second, long value) = _controlDraining[i];
            _controlDraining[i] = default;
            _loop.RunControl(action, first, second, value);
        }

        DrainData();
        MoveInboxes();
        if (_nextToDrain == 0 && _firstToMove is null && _overcommittedDraining is { } overcommitted)
        {
            _overcommittedDraining = null;
            Release(overcommitted);
        }

        Complete(waiting);
    }

    /// <summary>What was posted is to be drained now, and there is room for more. Under the gate.</summary>
    private List<RoomWait>? SwapData()
    {
        (_data, _dataDraining) = (_dataDraining, _data);
        (_arena, _arenaDraining) = (_arenaDraining, _arena);
        (_messageLengths, _messageLengthsDraining) = (_messageLengthsDraining, _messageLengths);
        _messageCount = 0;
        _firstDraining = _firstWaiting;
        _firstWaiting += _dataDraining.Count;
        Volatile.Write(ref _bytesOfLoops, 0);
        Interlocked.Add(ref _runBytes, -_runBytesPosted);
        _runBytesPosted = 0;
        if (_overcommittedDraining is null) _overcommittedDraining = _overcommitted;
        else if (_overcommitted is not null) _overcommittedDraining.AddRange(_overcommitted);
        _overcommitted = null;
        return TakeWaiting();
    }

    private void DrainData()
    {
        long bytes = 0;
        while (_nextToDrain < _dataDraining.Count)
        {
            if (bytes >= DrainBytes)
            {
                // Nobody sleeps over it: the loop looks at this before it does.
                _any = true;
                return;
            }

            ref DataItem place = ref _dataDraining[_nextToDrain++];
            DataItem item = place;
            place = default;
            bytes += item.Length + ItemBytes;
            _staysInPlace = true;
            _loop.RunItem(this, item);
            _staysInPlace = false;
            Volatile.Write(ref _drained, _drained + 1);
        }

        _nextToDrain = 0;
        _dataDraining.Reset();
        _arenaDraining.Reset();
        // As the arena: what a burst of tiny messages made it grow to is not kept.
        if (_messageLengthsDraining.Length > MessagesKept) _messageLengthsDraining = [];
    }

    private List<RoomWait>? TakeWaiting()
    {
        List<RoomWait>? waiting = _waitingForRoom;
        _waitingForRoom = null;
        return waiting;
    }

    private static void Complete(List<RoomWait>? waiting)
    {
        if (waiting is null) return;
        foreach (RoomWait wait in waiting) wait.TryComplete();
    }

    internal void Run(in DataItem item)
    {
        if (item.Receiver is not { } receiver)
        {
            // It may continue code of other threads, so its sends follow all that these have sent.
            _staysInPlace = false;
            _loop.RunControl((ControlAction)item.Payload!, item.Extra, item.Subject, 0);
            return;
        }

        if (item.Kind == DataKind.Datagrams) _budget.GiveBack(item.Length + ItemBytes);
        receiver.RunItem(
            item,
            item.Length == 0 ? default : _arenaDraining.Slice(item.Chunk, item.Offset, item.Length),
            _messageLengthsDraining.AsSpan(item.FirstMessage, item.Messages));
    }

    private static void Release(List<(Resident Resident, uint Generation)> overcommitted)
    {
        foreach ((Resident resident, uint generation) in overcommitted)
        {
            resident.Loop.PostControl(
                static (_, r, _, g) => ((Resident)r!).Release(ReceiveGate.Mailbox, (uint)g),
                resident,
                null,
                generation);
        }
    }

    /// <summary>
    /// Rejects all posts after the end of the loop and runs the remaining items, so that no caller waits permanently.
    /// When it returns, no other thread is about to wake the loop: the descriptor for wake-ups may be closed.
    /// </summary>
    internal void Close()
    {
        lock (_gate) _isClosed = true;
        // From here on no inbox is listed; what is listed already is drained below.
        SendInbox? listed = Interlocked.Exchange(ref _listed, s_closed);
        if (!ReferenceEquals(listed, s_closed)) AddListed(listed);
        do Drain();
        while (_any);
        CloseUnusedBlock(isLast: true);
        lock (_gate)
        {
            _arena.Free();
            _arenaDraining.Free();
        }

        Interlocked.Exchange(ref _sleeping, 0);
        SpinWait spin = default;
        while (Volatile.Read(ref _waking) != 0) spin.SpinOnce();
    }

    /// <summary>The engine is started again.</summary>
    internal void Open()
    {
        lock (_gate) _isClosed = false;
        Volatile.Write(ref _listed, null);
    }
}
