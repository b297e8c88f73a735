using System.Net;
using System.Net.Sockets;
using Whimbrel.Connections;
using Whimbrel.Datagrams;
using Whimbrel.Diagnostics;
using Whimbrel.Linux;

namespace Whimbrel.Engines.Uring;

/// <summary>
/// Engine on io_uring: one ring per loop, and one enter per turn that submits all operations, waits, and returns
/// completions. Accepts and receives are multishot, into buffers that all connections of the loop share; large receives
/// are direct calls. Sends point at blocks of the queue. Next to read: <see cref="Wait"/>, then <see cref="Deliver"/>;
/// receives are in UringLoop.Receive.cs, sends in UringLoop.Send.cs, the kernel in <see cref="Ring"/>.
/// </summary>
/// <remarks>
/// Lifetimes: an operation identifies its handle by kind, slot and generation. Each pushed operation is counted in its
/// slot until its last completion, and a slot with a count is not freed. Detaching cancels running operations, waits
/// until the count is zero, closes the descriptor by a last operation, and only then frees the slot. Memory, buffers
/// and descriptor numbers that the kernel may still use therefore never get another owner.
/// </remarks>
// Safe: every pointer is memory of the ring or of a queued block; memory that an operation points at lives until its
// last completion.
internal sealed unsafe partial class UringLoop : Loop, IDatagramEngine
{
    private const int EndTries = 200;
    private const int EndTryMs = 10;
    private const int OpenAgainMs = 10;
    private const int AcceptsPerTurn = 64; // of a shared listener

    private readonly Func<Ring> _open;
    private readonly SocketCalls _sockets;
    private readonly LargeBlock _largeBlock;
    private readonly Duct _duct;
    private readonly Rests _rests;

    // Handles that have stopped receiving since the last wait. Their receives are then cancelled, unless they were
    // started again.
    private readonly Queue<ulong> _stopped = new();

    // Connections with a receive that found no buffer, oldest first.
    private readonly Queue<ulong> _parked = new();

    private Ring _ring = null!;
    private UringSlot[] _slots = new UringSlot[64];
    private bool _isWakeArmed;
    private int _reserveFd = -1;

    // The descriptor accepted last, an estimate of the number of open descriptors.
    private int _newest;

    // The error of a ring that is no longer usable, until there is a new one.
    private int _brokenBy;

    internal UringLoop(Engine engine, int index, Func<Ring> open, SocketCalls sockets)
        : base(engine, index)
    {
        (_open, _sockets, _largeBlock) = (open, sockets, new LargeBlock(this));
        (_duct, _rests) = (new Duct(sockets, _largeBlock), new Rests(this, Rested));
        SendsFiles = StrandsSend = true;
    }

    /// <summary>Creates a ring of the running kernel. Throws if there is no descriptor or no memory for it.</summary>
    internal static Ring OpenRing()
    {
        KernelRing? ring = KernelRing.TryOpen(RingCalls.System, UringProbe.Here.CanLimitReceive,
            out RingFailure failure);
        if (ring is not null) return ring;
        throw new NetworkException(new NetworkError(
            failure.Error,
            ErrorCategory.System,
            $"Cannot make an io_uring queue ({failure.Step}): {ErrorText.Of(failure.Error)}. "
            + $"See docs/symptoms/no-io-uring.md, or: whimbrel explain no-io-uring."));
    }

    private protected override void OpenQueue()
    {
        Volatile.Write(ref _ring, _open());
        Counters.EngineBytes += _ring.HeldBytes;
        _reserveFd = _sockets.OpenReserve();
    }

    // ------------------------------------------------------------------ naming operations

    private static ulong MarkOf(RingOperation operation, int slot, uint generation) =>
        ((ulong)operation << 56) | ((ulong)(uint)slot << 32) | generation;

    private static ulong MarkOf(RingOperation operation, Resident resident) =>
        MarkOf(operation, resident.Slot, resident.SlotGeneration);

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
        // Operations that complete meanwhile wait for the next turn, so that the mailbox and the timers get theirs.
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
        // The wake-up does not count as a completion; a ring that broke has disarmed it without one.
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
            case RingOperation.CancelSend or RingOperation.CancelPoll or RingOperation.CancelReady
                or RingOperation.CancelWritable or RingOperation.CancelReceiveReady:
                CancelAgain(resident, operation, entry.Result);
                break;
            case RingOperation.Close:
                Closed(resident, slot, entry.Result);
                return;
        }

        if (isLast && _slots[slot].IsDetaching && _slots[slot].Running == 0) CloseDescriptor(resident, slot);
    }

    /// <summary>
    /// Handles the wake-up, and completions of operations without a handle: only their resources are released.
    /// </summary>
    private void DeliverToNobody(RingOperation operation, in CompletionEntry entry)
    {
        if (operation == RingOperation.Wake)
        {
            _isWakeArmed = false;
            return;
        }

        Counters.StaleCompletions++;
        if ((entry.Flags & UringAbi.IORING_CQE_F_BUFFER) != 0)
            _ring.ReturnBuffer((int)(entry.Flags >> UringAbi.IORING_CQE_BUFFER_SHIFT));
        if (operation == RingOperation.Accept && entry.Result >= 0) _sockets.Close(entry.Result);
    }

    /// <summary>Counts an operation of a handle and queues it.</summary>
    private void Push(Resident resident, RingOperation operation, ref SubmissionEntry entry)
    {
        ref UringSlot slot = ref _slots[resident.Slot];
        slot.Running++;
        slot.Has |= (OperationSet)(1 << (int)operation);
        entry.UserData = MarkOf(operation, resident);
        _ring.Push(in entry);
    }

    /// <summary>Requests the end of a running operation. Both complete, in either order.</summary>
    private void PushCancel(Resident resident, RingOperation canceller, RingOperation target)
    {
        SubmissionEntry entry = default;
        entry.Opcode = UringAbi.IORING_OP_ASYNC_CANCEL;
        entry.Descriptor = -1;
        entry.Address = MarkOf(target, resident);
        Push(resident, canceller, ref entry);
    }

    /// <summary>
    /// Repeats a cancel that had no effect while its target still runs. Otherwise the target could run forever and keep
    /// the descriptor open.
    /// </summary>
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
        if (result < 0 && (_slots[resident.Slot].Has & (OperationSet)(1 << (int)target)) != 0)
            PushCancel(resident, canceller, target);
    }

    private void PushPoll(Resident resident, uint events, RingOperation operation = RingOperation.Poll,
        bool isMultishot = false)
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
                if (slot.Fd >= 0) MakeBlocking(listener, slot.Fd);
                Opened(listener, slot.Fd);
                break;
            case ConnectAttempt connector:
                AttachConnector(connector, ref slot);
                break;
            case DatagramResident socket:
                _datagrams ??= new DatagramBatch(Counters);
                Opened(socket, slot.Fd = SocketCalls.Open(socket));
                break;
        }
    }

    /// <summary>
    /// Makes the socket blocking: for a non-blocking descriptor io_uring returns EAGAIN instead of waiting.
    /// </summary>
    private void MakeBlocking(int fd) => _ = _sockets.SetWaits(fd, true);

    /// <summary>The same for a listener, unless another process, which must not block, shares its socket.</summary>
    private void MakeBlocking(Listener listener, int fd)
    {
        if (!listener.IsShared) MakeBlocking(fd);
    }

    /// <summary>Called before an operation is pushed that waits in the kernel.</summary>
    private void MakeWaiting(ref UringSlot slot)
    {
        if (!slot.DoesNotWait) return;
        slot.DoesNotWait = false;
        MakeBlocking(slot.Fd);
    }

    /// <summary>
    /// Makes direct calls on the socket non-blocking until an operation is pushed. Returns false if an operation is in
    /// progress, which may not have been submitted yet.
    /// </summary>
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
            if (_slots[slot].IsWanted && listener.IsShared) AcceptShared(listener, slot);
            if (NeedsReceive(slot)) StartReceive(listener);
            return;
        }

        if (result is -Errno.EINTR or -Errno.EAGAIN or -Errno.ENOMEM or -Errno.ECANCELED)
        {
            // The result is unknown, for a connect as for the answer to a fast open.
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
        if (_slots[slot].IsDetaching) return;
        if (resident is Listener { AcceptsRest: true } listener) AcceptRest(listener);
        ref UringSlot s = ref _slots[slot];
        s.IsDetaching = true;
        s.IsWanted = false;
        if (resident.ResetOnClose) _sockets.ResetOnClose(s.Fd);
        OperationSet has = s.Has;
        if ((has & (OperationSet.Receive | OperationSet.CancelReceive)) == OperationSet.Receive)
            PushCancel(resident, RingOperation.CancelReceive, RingOperation.Receive);
        if ((has & OperationSet.Send) != 0) PushCancel(resident, RingOperation.CancelSend, RingOperation.Send);
        if ((has & (OperationSet.Accept | OperationSet.CancelReceive)) == OperationSet.Accept)
            PushCancel(resident, RingOperation.CancelReceive, RingOperation.Accept);
        if ((has & OperationSet.Poll) != 0) PushCancel(resident, RingOperation.CancelPoll, RingOperation.Poll);
        if ((has & (OperationSet.ReceiveReady | OperationSet.CancelReceiveReady)) == OperationSet.ReceiveReady)
            PushCancel(resident, RingOperation.CancelReceiveReady, RingOperation.ReceiveReady);
        if ((has & OperationSet.DatagramsReady) != 0)
            PushCancel(resident, RingOperation.CancelReady, RingOperation.DatagramsReady);
        if ((has & OperationSet.DatagramsWritable) != 0)
            PushCancel(resident, RingOperation.CancelWritable, RingOperation.DatagramsWritable);
        if (_slots[slot].Running == 0) CloseDescriptor(resident, slot);
    }

    /// <summary>Closes the descriptor by the last operation of a handle. Nothing refers to it any more.</summary>
    private void CloseDescriptor(Resident resident, int slot)
    {
        SubmissionEntry entry = default;
        entry.Opcode = UringAbi.IORING_OP_CLOSE;
        entry.Descriptor = _slots[slot].Fd;
        Push(resident, RingOperation.Close, ref entry);
    }

    private void Closed(Resident resident, int slot, int result)
    {
        // The close was not executed, for lack of memory. With any other result the descriptor is closed.
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
        // The memory of a ring with running operations is never freed.
        if (isIdle) Counters.EngineBytes -= _ring.HeldBytes;
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
    /// Ends the read of the wake descriptor, the only operation without a handle. A wake-up ends it reliably, which a
    /// cancel does not. Returns false if the kernel does not complete it.
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
    /// Replaces a ring after an error that leaves it unusable, or after lost completions. Operations of the old ring
    /// are abandoned, with all connections; listeners continue with a new ring.
    /// </summary>
    private void RingBroke(int error)
    {
        Ring broken = _ring;
        // Completions that it has already reported are valid, especially those of closed descriptors.
        for (int budget = broken.Ready; budget > 0; budget--)
        {
            broken.Take(out CompletionEntry entry);
            Deliver(in entry);
        }

        if (TryOpenAnother(error) is not { } fresh) return;
        for (int slot = 0; slot < _slots.Length; slot++)
        {
            // Before the old ring is closed: its sends must not find blocks that have new owners by then. If the
            // kernel has accepted the close of a descriptor, the number may already have a new owner.
            if (ResidentAt(slot) is Connection && (_slots[slot].Has & OperationSet.Close) == 0)
                _sockets.BreakOff(_slots[slot].Fd);
        }

        CloseUntaken(broken);
        Volatile.Write(ref _ring, fresh);
        Counters.EngineBytes += fresh.HeldBytes;
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
            $"{this}: io_uring failed: {ErrorText.Of(error)}. Its connections were ended; the loop continues "
            + $"with a new ring.",
            "no-io-uring.md"));
    }

    /// <summary>
    /// Returns null if the system has no ring now. The next turn tries again; until then nothing runs on this loop.
    /// </summary>
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
            if (_brokenBy == 0)
                Engine.Report(new DiagnosticEvent(DiagnosticEventKind.System, $"{this}: io_uring failed: "
                    + $"{ErrorText.Of(error)}. {e.Error.Message} It is retried until a ring can be created.",
                    "no-io-uring.md"));
            _brokenBy = error;
            Thread.Sleep(OpenAgainMs);
            return null;
        }
    }

    /// <summary>
    /// Closes descriptors if their close operation never reached the kernel. The others are already closed.
    /// </summary>
    private void CloseUntaken(Ring broken)
    {
        for (int slot = 0; slot < _slots.Length; slot++)
        {
            if ((_slots[slot].Has & OperationSet.Close) == 0 || ResidentAt(slot) is not { } resident) continue;
            if (broken.IsUntaken(MarkOf(RingOperation.Close, resident))) _sockets.Close(_slots[slot].Fd);
        }
    }

    /// <summary>Ends the operations of a handle, which will not complete.</summary>
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
        if (resident is DatagramResident { IsSendInFlight: true } socket && resident.Slot == slot
            && !_slots[slot].IsDetaching)
            ArmWritable(socket);
    }

    // ------------------------------------------------------------------ accept

    /// <summary>
    /// Starts an accept. A multishot accept takes all waiting connections before the loop sees the first. It is
    /// therefore used only if a full backlog would leave the margin of descriptors free; otherwise accepts are single.
    /// Descriptors that the program opens meanwhile are not counted, so the kernel must stop before the margin.
    /// </summary>
    private void StartAccept(Listener listener)
    {
        if (listener.IsShared)
        {
            PushPoll(listener, EpollAbi.EPOLLIN);
            return;
        }

        bool goesOn = HasRoomForBacklog(listener);
        SubmissionEntry entry = default;
        entry.Opcode = UringAbi.IORING_OP_ACCEPT;
        if (goesOn) entry.Priority = UringAbi.IORING_ACCEPT_MULTISHOT;
        entry.Descriptor = _slots[listener.Slot].Fd;
        entry.OperationFlags = SocketAbi.SOCK_CLOEXEC;
        Push(listener, RingOperation.Accept, ref entry);
        // A ring that is no longer usable reports that again at the end of the turn.
        if (goesOn && Engine.Descriptors.IsOn) _ = Engine.Descriptors.HandOver(_ring.Submit);
    }

    /// <summary>True if there are descriptors for a full backlog, of each loop if every loop accepts.</summary>
    private bool HasRoomForBacklog(Listener listener)
    {
        int listeners = listener.Sharing == PortSharing.None ? 1 : Engine.LoopCount;
        return Engine.Descriptors.HasRoom(Math.Max(_newest, _slots[listener.Slot].Fd),
            (long)listener.Options.Socket.Backlog * listeners);
    }

    private void AcceptRest(Listener listener)
    {
        int fd = _slots[listener.Slot].Fd;
        _sockets.RefuseNewcomers(fd, listener.EndPoint);
        // Connections that the ring has already accepted arrive as completions, before the descriptor is closed.
        while (true)
        {
            int accepted = AcceptNow(fd);
            if (accepted >= 0) Hand(listener, accepted);
            else if (accepted is not (-Errno.EINTR or -Errno.ECONNABORTED)) return;
        }
    }

    /// <summary>
    /// Accepts from a socket that another process shares, by direct calls. An accept of the ring would return at once
    /// on this non-blocking descriptor. The other process may have taken the connection that a poll reported.
    /// </summary>
    private void AcceptShared(Listener listener, int slot)
    {
        for (int i = 0; i < AcceptsPerTurn && listener.Slot == slot && _slots[slot].IsWanted; i++)
        {
            int accepted = _sockets.Accept(_slots[slot].Fd, null, null, SocketAbi.SOCK_CLOEXEC);
            if (accepted == -Errno.EAGAIN) return;
            if (accepted >= 0)
            {
                _newest = accepted;
                Hand(listener, accepted);
            }
            else if (accepted is not (-Errno.EINTR or -Errno.ECONNABORTED))
            {
                AcceptFailed(listener, slot, -accepted);
                return;
            }
        }
    }

    /// <summary>
    /// Accepts a waiting connection as a blocking socket. Returns a negated error number otherwise; EAGAIN if there is
    /// none.
    /// </summary>
    private int AcceptNow(int listener)
    {
        _ = _sockets.SetWaits(listener, false);
        int fd = _sockets.Accept(listener, null, null, SocketAbi.SOCK_CLOEXEC);
        MakeBlocking(listener);
        return fd;
    }

    private ShedResult Shed(Listener listener, int fd)
    {
        _ = _sockets.SetWaits(fd, false);
        ShedResult result = _sockets.Shed(fd, ref _reserveFd);
        MakeBlocking(listener, fd);
        return result;
    }

    /// <summary>
    /// Passes an accepted socket on. A multishot accept has one place for all addresses, so each socket is queried for
    /// its own.
    /// </summary>
    private void Hand(Listener listener, int fd)
    {
        PeerAddress peer = listener.EndPoint is IPEndPoint ? _sockets.PeerAddressOf(fd) : default;
        listener.CompleteAccept(new RawSocket(fd, null), peer,
            listener.IsWildcard ? _sockets.LocalEndPointOf(fd) : null);
    }

    private void Accepted(Listener listener, int slot, int result)
    {
        // Also while the listener is being closed: it may still take an accepted connection, and otherwise discards it.
        if (result >= 0)
        {
            _newest = result;
            Hand(listener, result);
            // A multishot accept is still running, without descriptors for all connections that it may take.
            bool goesOn = listener.Slot == slot && !_slots[slot].IsDetaching
                && (_slots[slot].Has & (OperationSet.Accept | OperationSet.CancelReceive)) == OperationSet.Accept;
            if (goesOn && !HasRoomForBacklog(listener))
                PushCancel(listener, RingOperation.CancelReceive, RingOperation.Accept);
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
                MakeBlocking(listener, _slots[slot].Fd);
                return;
            case Errno.EMFILE or Errno.ENFILE:
                ShedResult shed = Shed(listener, _slots[slot].Fd);
                // The kernel takes a descriptor before it looks for a connection: without a waiting connection nothing
                // is wrong yet.
                if (shed == ShedResult.NobodyWaits) PushPoll(listener, EpollAbi.EPOLLIN);
                else listener.CompleteAcceptError(error, shed == ShedResult.Shed);
                return;
            default:
                listener.CompleteAcceptError(error, shed: false);
                return;
        }
    }
}

/// <summary>Purpose of an operation; the top byte of its user_data.</summary>
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

/// <summary>Running operations of a slot, by bit.</summary>
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
