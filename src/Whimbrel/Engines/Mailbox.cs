using System.Buffers;
using Whimbrel.Buffers;
using Whimbrel.Connections;
using Whimbrel.Datagrams;

namespace Whimbrel.Engines;

/// <summary>Something that a loop is to do, with no byte limit: attach, abort, stop, timers, posted actions.</summary>
internal delegate void ControlAction(Loop loop, object? first, object? second, long value);

/// <summary>What a data item does when the loop drains it.</summary>
internal enum DataKind : byte
{
    Send,
    SendOwned,
    SendOperation,
    Close,
    FinishSending,
    Join,
    Leave,
    LeaveAll,
    Broadcast,
    BroadcastGate,
    Upgrade,
    Datagrams,
    DatagramOperation,
    Offer,
}

internal struct DataItem
{
    internal DataKind Kind;
    internal uint Generation;
    internal int Offset;
    internal int Length;
    internal Connection? Connection;
    internal object? Payload;
    internal object? Extra;

    /// <summary>Of a broadcast: where the lengths of its messages begin, and how many they are (docs/design/0013). Of datagrams: bytes of each.</summary>
    internal int FirstMessage;
    internal int Messages;
}

/// <summary>
/// The only place where threads meet. Two lanes: control (drained first, no byte limit) and data, which keeps call
/// order for each caller: sends, closes, joins, leaves and broadcasts. The data lane holds at most
/// <see cref="LimitBytes"/> of sends and <see cref="RunLimitBytes"/> of broadcasts; a loop may go to four times that,
/// because a loop never waits. The loop is woken at most once per turn.
/// A broadcast that follows one of the same group, with the same exclusion or predicate, joins its run; where its
/// messages end is kept, so that a member at its limit loses no more of them than it has no room for.
/// </summary>
internal sealed class Mailbox : IThreadPoolWorkItem
{
    internal const int LimitBytes = 1024 * 1024;
    internal const int RunLimitBytes = Buffers.Run.FixedCapacity;
    internal const int LoopFactor = 4;

    private const int MessagesKept = 16 * 1024;

    private readonly Lock _gate = new();
    private readonly Loop _loop;

    private (ControlAction Action, object? First, object? Second, long Value)[] _control = new (ControlAction, object?, object?, long)[16];
    private (ControlAction Action, object? First, object? Second, long Value)[] _controlDraining = new (ControlAction, object?, object?, long)[16];
    private int _controlCount;

    private DataItem[] _data = new DataItem[64];
    private DataItem[] _dataDraining = new DataItem[64];
    private int _dataCount;
    private ByteArena _arena = new();
    private ByteArena _arenaDraining = new();
    private int[] _messageLengths = [];
    private int[] _messageLengthsDraining = [];
    private int _messageCount;
    private int _sendBytes;
    private int _runBytes;

    private int _sleeping;
    private int _wakeIsQueued;
    private int _waking;
    private volatile bool _any;
    private volatile bool _isClosed;

    // Loops that were refused room or let above the limit: told when the lane was drained.
    private List<(Loop Loop, Connection Connection, uint Generation)>? _overcommitted;

    // Callers that wait for room (Broadcast, off-loop): completed when the lane was drained.
    private List<RoomWait>? _waitingForRoom;

    internal Mailbox(Loop loop) => _loop = loop;

    internal bool Any => _any;

    internal long Wakes { get; private set; }

    internal long Refused { get; private set; }

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

    /// <summary>Copies the bytes in. The caller has reserved them on the connection.</summary>
    internal SendResult PostSend(Connection connection, uint generation, ReadOnlySpan<byte> head, ReadOnlySpan<byte> body)
    {
        int length = head.Length + body.Length;
        Loop? caller = Loop.Current;
        bool above;
        lock (_gate)
        {
            if (_isClosed) return SendResult.Closed;
            above = _sendBytes > 0 && _sendBytes + length > LimitBytes;
            if (above && (caller is null || _sendBytes + length > LoopFactor * LimitBytes))
            {
                Refused++;
                return SendResult.Full;
            }

            int offset = _arena.Append(head, body);
            _sendBytes += length;
            Add() = new DataItem { Kind = DataKind.Send, Connection = connection, Generation = generation, Offset = offset, Length = length };
            if (above) Overcommit(caller!);
        }

        if (above) caller!.HoldActiveSession();
        WakeIfSleeping();
        return SendResult.Queued;
    }

    /// <summary>
    /// Copies the bytes of one datagram, or of a run of one size, in; the peer goes before them. The caller has reserved them on the socket.
    /// A caller on another loop may go above the limit as with sends, but is not held: it has no reading to stop.
    /// </summary>
    internal SendResult PostDatagrams(DatagramResident socket, int datagramBytes, in DatagramPeer peer, ReadOnlySpan<byte> data)
    {
        Span<byte> head = stackalloc byte[DatagramPeer.PackedBytes];
        peer.Pack(head);
        int length = head.Length + data.Length;
        int limit = Loop.Current is null ? LimitBytes : LoopFactor * LimitBytes;
        lock (_gate)
        {
            if (_isClosed) return SendResult.Closed;
            if (_sendBytes > 0 && _sendBytes + length > limit)
            {
                Refused++;
                return SendResult.Full;
            }

            int offset = _arena.Append(head, data);
            _sendBytes += length;
            Add() = new DataItem { Kind = DataKind.Datagrams, Payload = socket, Extra = peer.Name, Offset = offset, Length = length, FirstMessage = datagramBytes };
        }

        WakeIfSleeping();
        return SendResult.Queued;
    }

    /// <summary>A datagram that waits for room in its caller's memory: never refused while the loop lives.</summary>
    internal bool PostDatagramOperation(DatagramResident socket, DatagramSendOperation operation)
    {
        lock (_gate)
        {
            if (_isClosed) return false;
            Add() = new DataItem { Kind = DataKind.DatagramOperation, Payload = socket, Extra = operation };
        }

        WakeIfSleeping();
        return true;
    }

    /// <summary>An item without bytes of its own: never refused while the loop lives.</summary>
    internal bool PostItem(DataKind kind, Connection? connection, uint generation, object? payload = null)
    {
        lock (_gate)
        {
            if (_isClosed) return false;
            Add() = new DataItem { Kind = kind, Connection = connection, Generation = generation, Payload = payload };
        }

        WakeIfSleeping();
        return true;
    }

    /// <summary>Memory whose ownership moves with the item: nothing is copied, so no byte limit of the mailbox applies.</summary>
    internal bool PostOwned(Connection connection, uint generation, IMemoryOwner<byte> owner, int length)
    {
        if (!AddOwned(connection, generation, owner, length)) return false;
        WakeIfSleeping();
        return true;
    }

    /// <summary>
    /// The same for what a callback on the thread pool has sent. A loop that sleeps is woken behind the callbacks that are
    /// queued already: one wake for all of them instead of one for each. If they block, another thread of the pool does it.
    /// </summary>
    internal bool PostOwnedFromPool(Connection connection, uint generation, IMemoryOwner<byte> owner, int length)
    {
        if (!AddOwned(connection, generation, owner, length)) return false;
        Interlocked.MemoryBarrier();
        if (Volatile.Read(ref _sleeping) == 1 && Interlocked.Exchange(ref _wakeIsQueued, 1) == 0) _loop.Engine.Offload(this);
        return true;
    }

    /// <summary>
    /// An upgrade to TLS, and in front of it what the same callback has sent: nobody drains the one without the other, so no
    /// answer of the peer can come in between. False: neither was taken.
    /// </summary>
    internal bool PostUpgrade(Connection connection, uint generation, IMemoryOwner<byte>? owner, int length, TlsUpgrade upgrade)
    {
        lock (_gate)
        {
            if (_isClosed) return false;
            if (owner is not null) Add() = new DataItem { Kind = DataKind.SendOwned, Connection = connection, Generation = generation, Payload = owner, Length = length };
            Add() = new DataItem { Kind = DataKind.Upgrade, Connection = connection, Generation = generation, Payload = upgrade };
        }

        WakeIfSleeping();
        return true;
    }

    /// <summary>Offers the queue of a connection to the system, behind what the caller has sent, so that so many bytes fit; then sets the event, in any case. False: the loop has ended.</summary>
    internal bool PostOffer(Connection connection, uint generation, long length, ManualResetEventSlim offered)
    {
        lock (_gate)
        {
            if (_isClosed) return false;
            Add() = new DataItem { Kind = DataKind.Offer, Connection = connection, Generation = generation, Payload = offered, Length = (int)length };
        }

        WakeIfSleeping();
        return true;
    }

    void IThreadPoolWorkItem.Execute()
    {
        // First: whoever posts from here on queues the next one.
        Interlocked.Exchange(ref _wakeIsQueued, 0);
        WakeIfSleeping();
    }

    private bool AddOwned(Connection connection, uint generation, IMemoryOwner<byte> owner, int length)
    {
        lock (_gate)
        {
            if (_isClosed) return false;
            Add() = new DataItem { Kind = DataKind.SendOwned, Connection = connection, Generation = generation, Payload = owner, Length = length };
            return true;
        }
    }

    /// <summary>Joins the run of the previous item if it is the same group's, else starts one.</summary>
    /// <param name="shard">The members.</param>
    /// <param name="data">One message.</param>
    /// <param name="extra">The session that does not get it, a predicate, or the operation of somebody who waits; or null.</param>
    internal SendResult PostBroadcast(GroupShard shard, ReadOnlySpan<byte> data, object? extra)
    {
        Loop? caller = Loop.Current;
        bool above;
        lock (_gate)
        {
            if (_isClosed) return SendResult.Closed;
            above = _runBytes > 0 && _runBytes + data.Length > RunLimitBytes;
            if (above && (caller is null || _runBytes + data.Length > LoopFactor * RunLimitBytes))
            {
                Refused++;
                return SendResult.Full;
            }

            AppendBroadcast(shard, data, extra);
            _runBytes += data.Length;
            if (above) Overcommit(caller!);
        }

        if (above) caller!.HoldActiveSession();
        WakeIfSleeping();
        return SendResult.Queued;
    }

    private void AppendBroadcast(GroupShard shard, ReadOnlySpan<byte> data, object? extra)
    {
        int offset = _arena.Append(data, default);
        if (_messageCount == _messageLengths.Length) Array.Resize(ref _messageLengths, Math.Max(64, _messageCount * 2));
        _messageLengths[_messageCount++] = data.Length;
        if (_dataCount > 0)
        {
            // An operation counts for itself: it is a new object each time, and so never joins.
            ref DataItem last = ref _data[_dataCount - 1];
            if (last.Kind == DataKind.Broadcast && ReferenceEquals(last.Payload, shard) && ReferenceEquals(last.Extra, extra))
            {
                // Its bytes are the arena's last ones: the new ones follow directly.
                last.Length += data.Length;
                last.Messages++;
                return;
            }
        }

        Add() = new DataItem { Kind = DataKind.Broadcast, Payload = shard, Extra = extra, Offset = offset, Length = data.Length, FirstMessage = _messageCount - 1, Messages = 1 };
    }

    private void Overcommit(Loop caller)
    {
        if (caller.ActiveConnection is { } connection)
        {
            (_overcommitted ??= []).Add((caller, connection, connection.Generation));
        }
    }

    private ref DataItem Add()
    {
        if (_dataCount == _data.Length) Array.Resize(ref _data, _dataCount * 2);
        _any = true;
        return ref _data[_dataCount++];
    }

    private void WakeIfSleeping()
    {
        // The item must be visible before the flag is looked at, or the loop could miss both (see TrySleep).
        Interlocked.MemoryBarrier();
        if (Volatile.Read(ref _sleeping) == 1) Wake();
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

    /// <summary>Completes when the lane was drained. At once when there is room for <paramref name="length"/> bytes of broadcast.</summary>
    internal ValueTask<bool> WaitForRoom(int length, CancellationToken cancellation)
    {
        RoomWait wait;
        lock (_gate)
        {
            if (_isClosed) return new ValueTask<bool>(false);
            if (_runBytes == 0 || _runBytes + length <= RunLimitBytes) return new ValueTask<bool>(true);
            wait = new RoomWait(_loop.Engine);
            (_waitingForRoom ??= []).Add(wait);
        }

        ValueTask<bool> task = wait.Task;
        wait.WatchCancellation(cancellation);
        return task;
    }

    // ------------------------------------------------------------------ the loop's side

    /// <summary>Announces that the loop is about to block. False when something arrived in between: do not block.</summary>
    internal bool TrySleep()
    {
        Interlocked.Exchange(ref _sleeping, 1);
        if (!_any) return true;
        Volatile.Write(ref _sleeping, 0);
        return false;
    }

    internal void Woke() => Volatile.Write(ref _sleeping, 0);

    /// <summary>Runs everything that was posted before the call. Control first.</summary>
    internal void Drain()
    {
        int controls;
        int items;
        List<(Loop Loop, Connection Connection, uint Generation)>? overcommitted;
        List<RoomWait>? waiting;
        lock (_gate)
        {
            _any = false;
            (_control, _controlDraining) = (_controlDraining, _control);
            (_data, _dataDraining) = (_dataDraining, _data);
            (_arena, _arenaDraining) = (_arenaDraining, _arena);
            (_messageLengths, _messageLengthsDraining) = (_messageLengthsDraining, _messageLengths);
            controls = _controlCount;
            items = _dataCount;
            _controlCount = 0;
            _dataCount = 0;
            _messageCount = 0;
            _sendBytes = 0;
            _runBytes = 0;
            overcommitted = _overcommitted;
            _overcommitted = null;
            waiting = _waitingForRoom;
            _waitingForRoom = null;
        }

        for (int i = 0; i < controls; i++)
        {
            (ControlAction action, object? first, object? second, long value) = _controlDraining[i];
            _controlDraining[i] = default;
            _loop.RunControl(action, first, second, value);
        }

        for (int i = 0; i < items; i++)
        {
            DataItem item = _dataDraining[i];
            _dataDraining[i] = default;
            _loop.RunItem(this, item);
        }

        _arenaDraining.Reset();
        // As the arena: what a burst of tiny messages made it grow to is not kept.
        if (_messageLengthsDraining.Length > MessagesKept) _messageLengthsDraining = [];
        if (overcommitted is not null) Release(overcommitted);
        if (waiting is not null)
        {
            foreach (RoomWait wait in waiting) wait.TryComplete();
        }
    }

    internal void Run(in DataItem item)
    {
        switch (item.Kind)
        {
            case DataKind.Send:
                item.Connection!.DrainSend(item.Generation, _arenaDraining.Slice(item.Offset, item.Length));
                break;
            case DataKind.SendOwned:
                item.Connection!.DrainOwned(item.Generation, (IMemoryOwner<byte>)item.Payload!, item.Length);
                break;
            case DataKind.SendOperation:
                item.Connection!.DrainOperation(item.Generation, (SendOperation)item.Payload!);
                break;
            case DataKind.Close:
                item.Connection!.DrainClose(item.Generation, item.Payload);
                break;
            case DataKind.FinishSending:
                item.Connection!.DrainFinishSending(item.Generation);
                break;
            case DataKind.Join:
                ((GroupShard)item.Payload!).DrainJoin(item.Connection!, item.Generation);
                break;
            case DataKind.Leave:
                ((GroupShard)item.Payload!).DrainLeave(item.Connection!, item.Generation);
                break;
            case DataKind.Broadcast:
                ((GroupShard)item.Payload!).DrainBroadcast(
                    _arenaDraining.Slice(item.Offset, item.Length),
                    _messageLengthsDraining.AsSpan(item.FirstMessage, item.Messages),
                    item.Extra);
                break;
            case DataKind.LeaveAll:
                ((GroupShard)item.Payload!).DrainLeaveAll();
                break;
            case DataKind.BroadcastGate:
                item.Connection!.DrainBroadcastGate(item.Generation, (BroadcastGate)item.Payload!);
                break;
            case DataKind.Upgrade:
                item.Connection!.DrainUpgrade(item.Generation, (TlsUpgrade)item.Payload!);
                break;
            case DataKind.Datagrams:
                ReadOnlySpan<byte> datagrams = _arenaDraining.Slice(item.Offset, item.Length);
                ((DatagramResident)item.Payload!).DrainDatagrams(datagrams[DatagramPeer.PackedBytes..], item.FirstMessage, DatagramPeer.Unpack(datagrams, (UnixName?)item.Extra));
                break;
            case DataKind.Offer:
                item.Connection!.DrainOffer(item.Generation, item.Length);
                ((ManualResetEventSlim)item.Payload!).Set();
                break;
            case DataKind.DatagramOperation:
                ((DatagramResident)item.Payload!).DrainOperation((DatagramSendOperation)item.Extra!);
                break;
        }
    }

    private static void Release(List<(Loop Loop, Connection Connection, uint Generation)> overcommitted)
    {
        foreach ((Loop loop, Connection connection, uint generation) in overcommitted)
        {
            loop.Mailbox.PostControl(static (_, c, _, g) => ((Connection)c!).ReleaseMailboxHold((uint)g), connection, null, generation);
        }
    }

    /// <summary>
    /// The loop has ended: refuses everything from now on and runs what is left, so that nobody waits for ever. When it
    /// returns, no other thread is about to wake the loop: the descriptor that wakes it may be closed.
    /// </summary>
    internal void Close()
    {
        lock (_gate) _isClosed = true;
        Drain();
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
    }
}
