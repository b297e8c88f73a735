using System.Net;
using System.Net.Sockets;
using Whimbrel.Connections;
using Whimbrel.Datagrams;
using Whimbrel.Diagnostics;
using Whimbrel.Linux;

namespace Whimbrel.Engines.Uring;

/// <summary>
/// io_uring: one ring per loop, one enter per turn that hands over all operations, waits and brings the completions.
/// Accepts and receives go on by themselves (multishot) into buffers that all connections of the loop share, large receives are
/// calls; sends point at the blocks of the queue. Next to read: <see cref="Wait"/>, then <see cref="Deliver"/>; receives are in
/// UringLoop.Receive.cs, sends in UringLoop.Send.cs, the kernel in <see cref="Ring"/>.
/// </summary>
/// <remarks>
/// Lifetimes: an operation names its resident by kind, slot and generation. Each operation that was pushed is counted in
/// its slot until its last completion, and a slot with a count is not given up: detaching cancels what runs, waits for the
/// count to be zero, closes the descriptor by a last operation, and only then frees the slot. So nothing that the kernel may
/// still touch (a block, a buffer, a descriptor's number) gets another owner.
/// </remarks>
// Safe: every pointer is memory of the ring or of a queued block; what an operation points at lives until its last completion.
internal sealed unsafe partial class UringLoop : Loop, IDatagramEngine
{
    private const int EndTries = 200;
    private const int EndTryMs = 10;
    private const int OpenAgainMs = 10;

    private readonly Func<Ring> _open;
    private readonly SocketCalls _sockets;
    private readonly LargeBlock _largeBlock;
    private readonly Duct _duct;
    private readonly Rests _rests;

    // Residents that were told to stop receiving since the last wait: cancelled then, if nobody started them again.
    private readonly Queue<ulong> _stopped = new();

    // Connections whose receive found no buffer, oldest first.
    private readonly Queue<ulong> _parked = new();

    private Ring _ring = null!;
    private UringSlot[] _slots = new UringSlot[64];
    private bool _isWakeArmed;
    private int _reserveFd = -1;

    // The descriptor accepted last: about as many are open.
    private int _newest;

    // The error of a ring that can be used no more, while there is no other.
    private int _brokenBy;

    internal UringLoop(Engine engine, int index, Func<Ring> open, SocketCalls sockets)
        : base(engine, index)
    {
        (_open, _sockets, _largeBlock) = (open, sockets, new LargeBlock(this));
        (_duct, _rests, SendsFiles) = (new Duct(sockets, _largeBlock), new Rests(this, Rested), true);
    }

    /// <summary>A ring of the running kernel. Throws when there are no descriptors or no memory for one.</summary>
    internal static Ring OpenRing()
    {
        KernelRing? ring = KernelRing.TryOpen(RingCalls.System, UringProbe.Here.CanLimitReceive, out RingFailure failure);
        if (ring is not null) return ring;
        throw new NetworkException(new NetworkError(
            failure.Error,
            ErrorCategory.System,
            $"Cannot make an io_uring queue ({failure.Step}): {ErrorText.Of(failure.Error)}. See docs/symptoms/no-io-uring.md, or: whimbrel explain no-io-uring."));
    }

    private protected override void OpenQueue()
    {
        Volatile.Write(ref _ring, _open());
        _reserveFd = _sockets.OpenReserve();
    }

    // ------------------------------------------------------------------ naming operations

    private static ulong MarkOf(RingOperation operation, int slot, uint generation) => ((ulong)operation << 56) | ((ulong)(uint)slot << 32) | generation;

    private static ulong MarkOf(RingOperation operation, Resident resident) => MarkOf(operation, resident.Slot, resident.SlotGeneration);

    // ------------------------------------------------------------------ waiting and delivering

    private protected override int Wait(long timeoutMs)
    {
        if (!_isWakeArmed) ArmWake();
        if (_stopped.Count > 0) CancelStopped();
        if (_parked.Count > 0) Unpark();
        int again = _again.Count;
        if (timeoutMs != 0 && (_parked.Count > 0 || again > 0 || !TrySleep())) timeoutMs = 0;
        int error = _brokenBy != 0 ? _brokenBy : _ring.SubmitAndWait(timeoutMs);
        Woke();
        if (error != 0) RingBroke(error);
        // What completes meanwhile waits for the next turn: the mailbox and the timers have their turn as well.
        int ready = _ring.Ready;
        for (int budget = ready; budget > 0; budget--)
        {
            _ring.Take(out CompletionEntry entry);
            try
            {
                Deliver(in entry);
            }
            catch (Exception e) when (Outlives(e))
            {
                Outlive(e, ResidentAt((int)(entry.UserData >> 32) & 0xFF_FFFF, (uint)entry.UserData));
            }

            GoOn();
        }

        if (_again.Count > 0) ReceiveAgain();
        // The wake-up is none; a ring that broke has disarmed it without one.
        return Math.Max(0, ready + again - (_isWakeArmed ? 0 : 1));
    }

    private protected override void Wake() => Volatile.Read(ref _ring).Wake();

    private protected override void Submit()
    {
        if (_stopped.Count > 0) CancelStopped();
        if (_brokenBy == 0 && _ring.Submit() is not 0 and int error) RingBroke(error);
    }

    private void ArmWake()
    {
        _isWakeArmed = true;
        SubmissionEntry entry = default;
        entry.Opcode = UringAbi.IORING_OP_READ;
        entry.Descriptor = _ring.WakeDescriptor;
        entry.Address = (ulong)_ring.WakeWord;
        entry.Length = sizeof(ulong);
        entry.UserData = MarkOf(RingOperation.Wake, 0, 0);
        _ring.Push(in entry);
    }

    private void Deliver(in CompletionEntry entry)
    {
        RingOperation operation = (RingOperation)(entry.UserData >> 56);
        int slot = (int)(entry.UserData >> 32) & 0xFF_FFFF;
        Resident? resident = ResidentAt(slot);
        if (resident is null || resident.SlotGeneration != (uint)entry.UserData || operation == RingOperation.Wake)
        {
            DeliverToNobody(operation, in entry);
            return;
        }

        bool isLast = (entry.Flags & UringAbi.IORING_CQE_F_MORE) == 0;
        if (isLast)
        {
            _slots[slot].Running--;
            _slots[slot].Has &= ~(OperationSet)(1 << (int)operation);
        }

        switch (operation)
        {
            case RingOperation.Receive:
                Received((Connection)resident, slot, entry.Result, entry.Flags);
                break;
            case RingOperation.ReceiveReady:
                BecameReady((Connection)resident, slot, entry.Result);
                break;
            case RingOperation.Send:
                Sent((Connection)resident, slot, entry.Result);
                break;
            case RingOperation.DatagramsReady or RingOperation.DatagramsWritable:
                DeliverDatagrams((DatagramResident)resident, slot, operation, entry.Result);
                break;
            case RingOperation.Accept:
                Accepted((Listener)resident, slot, entry.Result);
                break;
            case RingOperation.Poll:
                Polled(resident, slot, entry.Result);
                break;
            case RingOperation.HeldError:
                TellHeldError((Connection)resident, slot);
                break;
            case RingOperation.CancelReceive:
                ReceiveCancelled(slot, resident, entry.Result);
                break;
            case RingOperation.CancelSend or RingOperation.CancelPoll or RingOperation.CancelReady or RingOperation.CancelWritable or RingOperation.CancelReceiveReady:
                CancelAgain(resident, operation, entry.Result);
                break;
            case RingOperation.Close:
                Closed(resident, slot, entry.Result);
                return;
        }

        if (isLast && _slots[slot].IsDetaching && _slots[slot].Running == 0) CloseDescriptor(resident, slot);
    }

    /// <summary>The wake-up, or what a kernel should not send any more: only what it holds is given back.</summary>
    private void DeliverToNobody(RingOperation operation, in CompletionEntry entry)
    {
        if (operation == RingOperation.Wake)
        {
            _isWakeArmed = false;
            return;
        }

        Counters.StaleCompletions++;
        if ((entry.Flags & UringAbi.IORING_CQE_F_BUFFER) != 0) _ring.ReturnBuffer((int)(entry.Flags >> UringAbi.IORING_CQE_BUFFER_SHIFT));
        if (operation == RingOperation.Accept && entry.Result >= 0) _sockets.Close(entry.Result);
    }

    /// <summary>Counts an operation of a resident and queues it.</summary>
    private void Push(Resident resident, RingOperation operation, ref SubmissionEntry entry)
    {
        ref UringSlot slot = ref _slots[resident.Slot];
        slot.Running++;
        slot.Has |= (OperationSet)(1 << (int)operation);
        entry.UserData = MarkOf(operation, resident);
        _ring.Push(in entry);
    }

    /// <summary>Asks for the end of a running operation. Both complete, in either order.</summary>
    private void PushCancel(Resident resident, RingOperation canceller, RingOperation target)
    {
        SubmissionEntry entry = default;
        entry.Opcode = UringAbi.IORING_OP_ASYNC_CANCEL;
        entry.Descriptor = -1;
        entry.Address = MarkOf(target, resident);
        Push(resident, canceller, ref entry);
    }

    /// <summary>A cancel that did nothing: its target has completed, or else it could run for ever, and the descriptor with it.</summary>
    private void CancelAgain(Resident resident, RingOperation canceller, int result)
    {
        RingOperation target = canceller switch
        {
            RingOperation.CancelSend => RingOperation.Send,
            RingOperation.CancelPoll => RingOperation.Poll,
            RingOperation.CancelReady => RingOperation.DatagramsReady,
            RingOperation.CancelReceiveReady => RingOperation.ReceiveReady,
            _ => RingOperation.DatagramsWritable,
        };
        if (result < 0 && (_slots[resident.Slot].Has & (OperationSet)(1 << (int)target)) != 0) PushCancel(resident, canceller, target);
    }

    private void PushPoll(Resident resident, uint events, RingOperation operation = RingOperation.Poll, bool isMultishot = false)
    {
        SubmissionEntry entry = default;
        entry.Opcode = UringAbi.IORING_OP_POLL_ADD;
        entry.Descriptor = _slots[resident.Slot].Fd;
        entry.OperationFlags = events;
        if (isMultishot) entry.Length = UringAbi.IORING_POLL_ADD_MULTI;
        Push(resident, operation, ref entry);
    }

    // ------------------------------------------------------------------ attach and detach

    private protected override void StartAttach(Resident resident)
    {
        if (resident.Slot >= _slots.Length) Array.Resize(ref _slots, _slots.Length * 2);
        ref UringSlot slot = ref _slots[resident.Slot];
        slot = default;
        switch (resident)
        {
            case Connection connection:
                slot.Fd = connection.AdoptedSocket.Descriptor;
                slot.Opening = new DeferredOpen(connection.AdoptedSocket.IsDeferred);
                if (slot.Opening.IsUnderWay) PushPoll(connection, EpollAbi.EPOLLOUT);
                connection.CompleteAttach(0);
                break;
            case Listener listener:
                slot.Fd = _sockets.Open(listener);
                if (slot.Fd >= 0) MakeBlocking(slot.Fd);
                Opened(listener, slot.Fd);
                break;
            case ConnectAttempt connector:
                AttachConnector(connector, ref slot);
                break;
            case DatagramResident socket:
                _datagrams ??= new DatagramBatch();
                Opened(socket, slot.Fd = SocketCalls.Open(socket));
                break;
        }
    }

    /// <summary>Calls on it wait from now on: io_uring gives EAGAIN for a descriptor that does not, instead of waiting itself.</summary>
    private void MakeBlocking(int fd) => _ = _sockets.SetWaits(fd, true);

    /// <summary>An operation is about to be pushed that waits in the kernel.</summary>
    private void MakeWaiting(ref UringSlot slot)
    {
        if (!slot.DoesNotWait) return;
        slot.DoesNotWait = false;
        MakeBlocking(slot.Fd);
    }

    /// <summary>Calls on it do not wait until an operation is pushed. False: one is under way, and may not have been handed over yet.</summary>
    private bool TryStopWaiting(ref UringSlot slot)
    {
        if (slot.DoesNotWait) return true;
        if ((slot.Has & (OperationSet.Send | OperationSet.Receive)) != 0) return false;
        return slot.DoesNotWait = _sockets.SetWaits(slot.Fd, false) == 0;
    }

    private void AttachConnector(ConnectAttempt connector, ref UringSlot slot)
    {
        int fd = slot.Fd = _sockets.Connect(connector, out bool pending);
        if (fd >= 0 && pending)
        {
            PushPoll(connector, EpollAbi.EPOLLOUT);
            return;
        }

        slot.Opening = new DeferredOpen(connector.MayDefer);
        if (fd >= 0) connector.LocalEndPoint = _sockets.LocalEndPointOf(fd);
        Opened(connector, fd);
    }

    private void Polled(Resident resident, int slot, int result)
    {
        if (_slots[slot].IsDetaching) return;
        if (resident is Listener listener)
        {
            if (_slots[slot].IsWanted) StartReceive(listener);
            return;
        }

        if (result is -Errno.EINTR or -Errno.EAGAIN or -Errno.ENOMEM or -Errno.ECANCELED)
        {
            // Nothing was found out: it says nothing about the dial, nor about the answer to a fast open.
            PushPoll(resident, EpollAbi.EPOLLOUT);
            return;
        }

        ref UringSlot s = ref _slots[slot];
        if (resident is ConnectAttempt connector)
        {
            connector.CompleteAttach(result < 0 ? -result : _sockets.EndConnect(connector, s.Fd));
            return;
        }

        bool hasEnded = result < 0 || (result & (int)(EpollAbi.EPOLLERR | EpollAbi.EPOLLHUP)) != 0;
        if (!s.Opening.TryEnd(_sockets, s.Fd, hasEnded)) PushPoll(resident, EpollAbi.EPOLLOUT);
    }

    internal override RawSocket Release(Resident resident)
    {
        UringSlot slot = _slots[resident.Slot];
        MakeBlocking(slot.Fd);
        FreeSlot(resident);
        return new RawSocket(slot.Fd, null, slot.Opening.IsUnderWay);
    }

    internal override void Discard(RawSocket socket) => _sockets.Close(socket.Descriptor);

    private protected override void StartDetach(Resident resident)
    {
        int slot = resident.Slot;
        ref UringSlot s = ref _slots[slot];
        if (s.IsDetaching) return;
        s.IsDetaching = true;
        s.IsWanted = false;
        if (resident.ResetOnClose) _sockets.ResetOnClose(s.Fd);
        OperationSet has = s.Has;
        if ((has & (OperationSet.Receive | OperationSet.CancelReceive)) == OperationSet.Receive) PushCancel(resident, RingOperation.CancelReceive, RingOperation.Receive);
        if ((has & OperationSet.Send) != 0) PushCancel(resident, RingOperation.CancelSend, RingOperation.Send);
        if ((has & (OperationSet.Accept | OperationSet.CancelReceive)) == OperationSet.Accept) PushCancel(resident, RingOperation.CancelReceive, RingOperation.Accept);
        if ((has & OperationSet.Poll) != 0) PushCancel(resident, RingOperation.CancelPoll, RingOperation.Poll);
        if ((has & (OperationSet.ReceiveReady | OperationSet.CancelReceiveReady)) == OperationSet.ReceiveReady) PushCancel(resident, RingOperation.CancelReceiveReady, RingOperation.ReceiveReady);
        if ((has & OperationSet.DatagramsReady) != 0) PushCancel(resident, RingOperation.CancelReady, RingOperation.DatagramsReady);
        if ((has & OperationSet.DatagramsWritable) != 0) PushCancel(resident, RingOperation.CancelWritable, RingOperation.DatagramsWritable);
        if (_slots[slot].Running == 0) CloseDescriptor(resident, slot);
    }

    /// <summary>Nothing refers to the descriptor any more: the last operation of a resident closes it.</summary>
    private void CloseDescriptor(Resident resident, int slot)
    {
        SubmissionEntry entry = default;
        entry.Opcode = UringAbi.IORING_OP_CLOSE;
        entry.Descriptor = _slots[slot].Fd;
        Push(resident, RingOperation.Close, ref entry);
    }

    private void Closed(Resident resident, int slot, int result)
    {
        // Not carried out at all, for lack of memory: otherwise the number is free, whatever it said.
        if (result is -Errno.ECANCELED or -Errno.EAGAIN or -Errno.ENOMEM) _sockets.Close(_slots[slot].Fd);
        FreeSlot(resident);
        _sockets.DeletePathOf(resident);
        resident.CompleteClose();
    }

    private protected override void CloseQueue()
    {
        _rests.Clear();
        bool isIdle = _brokenBy == 0 && (!_isWakeArmed || EndWake());
        _ring.Close(isIdle);
        if (_reserveFd >= 0) _sockets.Close(_reserveFd);
        _largeBlock.Free();
        _duct.Free();
        _brokenBy = 0;
        FreeDatagrams();
        _isWakeArmed = false;
        _stopped.Clear();
        _parked.Clear();
        _again.Clear();
    }

    /// <summary>
    /// The one operation that belongs to nobody. A wake ends it for certain, which a cancel does not. False when the kernel does
    /// not give it back.
    /// </summary>
    private bool EndWake()
    {
        _ring.Wake();
        for (int i = 0; i < EndTries && _isWakeArmed; i++)
        {
            if (_ring.SubmitAndWait(EndTryMs) != 0) return false;
            for (int budget = _ring.Ready; budget > 0; budget--)
            {
                _ring.Take(out CompletionEntry entry);
                if ((RingOperation)(entry.UserData >> 56) == RingOperation.Wake) _isWakeArmed = false;
            }
        }

        return !_isWakeArmed;
    }

    // ------------------------------------------------------------------ a ring that cannot be used any more

    /// <summary>
    /// The kernel gave an answer that leaves nothing to work with, or lost completions. What was running on the old ring is given
    /// up, with all connections; listeners listen on with a new ring.
    /// </summary>
    private void RingBroke(int error)
    {
        Ring broken = _ring;
        // What it still told is true: above all which descriptors are closed.
        for (int budget = broken.Ready; budget > 0; budget--)
        {
            broken.Take(out CompletionEntry entry);
            Deliver(in entry);
        }

        if (TryOpenAnother(error) is not { } fresh) return;
        for (int slot = 0; slot < _slots.Length; slot++)
        {
            // Before the old one ends: its sends must not find blocks that belong to others by then. A descriptor whose close
            // was taken is another's already.
            if (ResidentAt(slot) is Connection && (_slots[slot].Has & OperationSet.Close) == 0) _sockets.BreakOff(_slots[slot].Fd);
        }

        CloseUntaken(broken);
        Volatile.Write(ref _ring, fresh);
        broken.Close(isIdle: false);
        _isWakeArmed = false;
        _stopped.Clear();
        _parked.Clear();
        _again.Clear();
        for (int slot = 0; slot < _slots.Length; slot++)
        {
            if (ResidentAt(slot) is { } resident) GiveUp(resident, slot);
        }

        Engine.Report(new DiagnosticEvent(
            DiagnosticEventKind.System,
            $"{this}: io_uring does not go on: {ErrorText.Of(error)}. Its connections were ended, and it works on with a new ring.",
            "no-io-uring.md"));
    }

    /// <summary>Null when the system has none now: the next turn asks again, and until then everything on this loop stands still.</summary>
    private Ring? TryOpenAnother(int error)
    {
        try
        {
            Ring fresh = _open();
            _brokenBy = 0;
            return fresh;
        }
        catch (NetworkException e)
        {
            if (_brokenBy == 0) Engine.Report(new DiagnosticEvent(DiagnosticEventKind.System, $"{this}: io_uring does not go on: {ErrorText.Of(error)}. {e.Error.Message} It is tried again until there is one.", "no-io-uring.md"));
            _brokenBy = error;
            Thread.Sleep(OpenAgainMs);
            return null;
        }
    }

    /// <summary>Descriptors whose close never reached the kernel. Of those that did, the number is free.</summary>
    private void CloseUntaken(Ring broken)
    {
        for (int slot = 0; slot < _slots.Length; slot++)
        {
            if ((_slots[slot].Has & OperationSet.Close) == 0 || ResidentAt(slot) is not { } resident) continue;
            if (broken.IsUntaken(MarkOf(RingOperation.Close, resident))) _sockets.Close(_slots[slot].Fd);
        }
    }

    /// <summary>Nothing that ran for it will complete.</summary>
    private void GiveUp(Resident resident, int slot)
    {
        bool wasClosing = (_slots[slot].Has & OperationSet.Close) != 0;
        _slots[slot].Running = 0;
        _slots[slot].Has = OperationSet.None;
        _slots[slot].IsParked = false;
        _slots[slot].IsAgain = false;
        _slots[slot].IsResting = false;
        if (wasClosing) Closed(resident, slot, 0);
        else if (_slots[slot].IsDetaching) CloseDescriptor(resident, slot);
        else if (resident is Connection connection) connection.CompleteReceiveError(Errno.EIO);
        else if (resident is ConnectAttempt connector) connector.CompleteAttach(Errno.EIO);
        else if (NeedsReceive(slot)) StartReceive(resident);
        if (resident is DatagramResident { IsSendInFlight: true } socket && resident.Slot == slot && !_slots[slot].IsDetaching) ArmWritable(socket);
    }

    // ------------------------------------------------------------------ accept

    /// <summary>
    /// One that goes on accepts all that wait before the loop sees the first: only where the margin of descriptors would survive a full
    /// backlog. Else one at a time. What the program opens for itself meanwhile is not seen here, so the kernel is to stop before the margin.
    /// </summary>
    private void StartAccept(Listener listener)
    {
        bool goesOn = HasRoomForBacklog(listener);
        SubmissionEntry entry = default;
        entry.Opcode = UringAbi.IORING_OP_ACCEPT;
        if (goesOn) entry.Priority = UringAbi.IORING_ACCEPT_MULTISHOT;
        entry.Descriptor = _slots[listener.Slot].Fd;
        entry.OperationFlags = SocketAbi.SOCK_CLOEXEC;
        Push(listener, RingOperation.Accept, ref entry);
        // A ring that does not go on says so again at the end of the turn.
        if (goesOn && Engine.Descriptors.IsOn) _ = Engine.Descriptors.HandOver(_ring.Submit);
    }

    /// <summary>Of each loop, where every loop accepts.</summary>
    private bool HasRoomForBacklog(Listener listener)
    {
        int listeners = listener.Sharing == PortSharing.None ? 1 : Engine.LoopCount;
        return Engine.Descriptors.HasRoom(Math.Max(_newest, _slots[listener.Slot].Fd), (long)listener.Options.Backlog * listeners);
    }

    internal override void AcceptRest(Listener listener)
    {
        int fd = _slots[listener.Slot].Fd;
        _sockets.RefuseNewcomers(fd, listener.EndPoint);
        // Those that the ring has accepted already come as completions, before the descriptor is closed.
        while (true)
        {
            int accepted = AcceptNow(fd);
            if (accepted >= 0) Hand(listener, accepted);
            else if (accepted is not (-Errno.EINTR or -Errno.ECONNABORTED)) return;
        }
    }

    /// <summary>One that waits, whose calls wait; or minus the error number, EAGAIN when there is none.</summary>
    private int AcceptNow(int listener)
    {
        _ = _sockets.SetWaits(listener, false);
        int fd = _sockets.Accept(listener, null, null, SocketAbi.SOCK_CLOEXEC);
        MakeBlocking(listener);
        return fd;
    }

    private ShedResult Shed(int listener)
    {
        _ = _sockets.SetWaits(listener, false);
        ShedResult result = _sockets.Shed(listener, ref _reserveFd);
        MakeBlocking(listener);
        return result;
    }

    /// <summary>A multishot accept has one place for all addresses: each socket is asked for its own.</summary>
    private void Hand(Listener listener, int fd)
    {
        PeerAddress peer = listener.EndPoint is IPEndPoint ? _sockets.PeerAddressOf(fd) : default;
        listener.CompleteAccept(new RawSocket(fd, null), peer, listener.IsWildcard ? _sockets.LocalEndPointOf(fd) : null);
    }

    private void Accepted(Listener listener, int slot, int result)
    {
        // Also when it is being closed: it may still take what was accepted, and discards it otherwise.
        if (result >= 0)
        {
            _newest = result;
            Hand(listener, result);
            // Still there is one that goes on, and no room for all that it may bring.
            bool goesOn = listener.Slot == slot && !_slots[slot].IsDetaching && (_slots[slot].Has & (OperationSet.Accept | OperationSet.CancelReceive)) == OperationSet.Accept;
            if (goesOn && !HasRoomForBacklog(listener)) PushCancel(listener, RingOperation.CancelReceive, RingOperation.Accept);
        }
        else if (!_slots[slot].IsDetaching) AcceptFailed(listener, slot, -result);
        if (NeedsReceive(slot)) StartReceive(listener);
    }

    private void AcceptFailed(Listener listener, int slot, int error)
    {
        switch (error)
        {
            case Errno.ECANCELED or Errno.EINTR or Errno.ECONNABORTED:
                return;
            case Errno.EAGAIN:
                MakeBlocking(_slots[slot].Fd);
                return;
            case Errno.EMFILE or Errno.ENFILE:
                ShedResult shed = Shed(_slots[slot].Fd);
                // The kernel takes a descriptor before it looks for a connection: with nobody waiting nothing is wrong yet.
                if (shed == ShedResult.NobodyWaits) PushPoll(listener, EpollAbi.EPOLLIN);
                else listener.CompleteAcceptError(error, shed == ShedResult.Shed);
                return;
            default:
                listener.CompleteAcceptError(error, shed: false);
                return;
        }
    }
}

/// <summary>What an operation is for; the top byte of its user_data.</summary>
internal enum RingOperation : byte
{
    Wake,
    Receive,
    Send,
    Accept,
    Poll,
    HeldError,
    CancelReceive,
    CancelSend,
    CancelPoll,
    Close,
    DatagramsReady,
    DatagramsWritable,
    CancelReady,
    CancelWritable,
    ReceiveReady,
    CancelReceiveReady,
}

/// <summary>The operations that a slot has running, by bit.</summary>
[Flags]
internal enum OperationSet : ushort
{
    None = 0,
    Receive = 1 << RingOperation.Receive,
    Send = 1 << RingOperation.Send,
    Accept = 1 << RingOperation.Accept,
    Poll = 1 << RingOperation.Poll,
    HeldError = 1 << RingOperation.HeldError,
    CancelReceive = 1 << RingOperation.CancelReceive,
    CancelSend = 1 << RingOperation.CancelSend,
    CancelPoll = 1 << RingOperation.CancelPoll,
    Close = 1 << RingOperation.Close,
    DatagramsReady = 1 << RingOperation.DatagramsReady,
    DatagramsWritable = 1 << RingOperation.DatagramsWritable,
    CancelReady = 1 << RingOperation.CancelReady,
    CancelWritable = 1 << RingOperation.CancelWritable,
    ReceiveReady = 1 << RingOperation.ReceiveReady,
    CancelReceiveReady = 1 << RingOperation.CancelReceiveReady,
}
