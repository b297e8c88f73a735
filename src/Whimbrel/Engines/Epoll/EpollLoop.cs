using System.Net;
using System.Runtime.InteropServices;
using Whimbrel.Buffers;
using Whimbrel.Connections;
using Whimbrel.Datagrams;
using Whimbrel.Diagnostics;
using Whimbrel.Linux;

namespace Whimbrel.Engines.Epoll;

/// <summary>
/// Converts epoll's readiness to completions. Level-triggered; one receive per event into one shared buffer. Sends are
/// tried at once, and EPOLLOUT is registered only while the socket is full. Closing a descriptor removes it from the
/// epoll set, unless a duplicate of it exists. Next to read: <see cref="Wait"/>, then <see cref="Deliver"/>.
/// </summary>
// Safe: every pointer here is memory of this loop (events, receive buffer) or of a queued block, and no system call
// keeps one after it has returned.
internal sealed unsafe partial class EpollLoop : Loop, IDatagramEngine
{
    private const int EventCount = 256;
    private const int ReceiveBytes = 64 * 1024;
    private static readonly int s_ownBytes = (EventCount * EpollEvents.Size) + ReceiveBytes;
    private const int MaxVectors = 64;
    private const int AcceptsPerTurn = 64;
    private const ulong WakeMark = ulong.MaxValue;

    /// <summary>
    /// Number of consecutive turns with events of unknown descriptors after which the set is created again. An event of
    /// a connection that has just closed comes once only.
    /// </summary>
    private const int MostStrayTurns = 256;

    private readonly EpollCalls _calls;
    private readonly SocketCalls _sockets;
    private readonly LargeBlock _largeBlock;
    private readonly Duct _duct;
    private readonly Rests _rests;
    private int _epoll = -1;
    private int _wakeFd = -1;
    private int _reserveFd = -1;
    private byte* _events;
    private byte* _buffer;
    private EpollSlot[] _slots = new EpollSlot[64];
    private int _strayTurns;
    private bool _isFull; // the last wait filled the whole event array

    /// <summary>Engine data of one slot.</summary>
    private struct EpollSlot
    {
        internal int Fd;
        internal uint Registered; // event mask registered in the kernel
        internal uint Wanted;
        internal int Accepts; // of a listener: number of accepts tried in turn AcceptTurn
        internal long AcceptTurn;
        internal ReceiveSize Size;
        internal bool IsRegistered;
        internal bool IsResting; // no memory to receive: EPOLLIN is registered again after a pause
        internal DeferredOpen Opening;
    }

    internal EpollLoop(Engine engine, int index, EpollCalls calls, SocketCalls sockets)
        : base(engine, index)
    {
        (_calls, _sockets, _largeBlock) = (calls, sockets, new LargeBlock(this));
        (_duct, _rests) = (new Duct(sockets, _largeBlock), new Rests(this, Rested));
        SendsFiles = StrandsSend = true;
    }

    private protected override void OpenQueue()
    {
        _epoll = _calls.Create();
        if (_epoll < 0) throw NoQueue(-_epoll);
        _wakeFd = _calls.CreateWake();
        if (_wakeFd < 0)
        {
            _calls.Close(_epoll);
            throw NoQueue(-_wakeFd);
        }

        int refused = Control(EpollAbi.EPOLL_CTL_ADD, _wakeFd, EpollAbi.EPOLLIN, WakeMark);
        if (refused != 0)
        {
            // Without the wake descriptor, no other thread could wake the loop.
            _calls.Close(_wakeFd);
            _calls.Close(_epoll);
            throw NoQueue(refused);
        }

        _events = (byte*)NativeMemory.AlignedAlloc((nuint)(EventCount * EpollEvents.Size), 64);
        _buffer = (byte*)NativeMemory.AlignedAlloc(ReceiveBytes, 4096);
        Counters.EngineBytes += s_ownBytes;
        _reserveFd = _sockets.OpenReserve();
    }

    private static NetworkException NoQueue(int error) =>
        new(new NetworkError(error, ErrorCategory.System, $"Cannot make an epoll queue: {ErrorText.Of(error)}. "
            + $"See docs/symptoms/descriptor-limit.md, or: whimbrel explain descriptor-limit."));

    // ------------------------------------------------------------------ waiting and delivering

    private protected override int Wait(long timeoutMs)
    {
        int timeout = timeoutMs < 0 ? -1 : (int)Math.Min(timeoutMs, int.MaxValue);
        if (timeout != 0 && !TrySleep()) timeout = 0;
        int count = _calls.Wait(_epoll, _events, EventCount, timeout);
        _isFull = count == EventCount;
        Woke();
        int delivered = 0;
        long strays = Counters.StaleCompletions;
        // Only EINTR can occur here; the next turn waits again.
        for (int i = 0; i < count; i++)
        {
            EpollEvents.Read(_events, i, out uint mask, out ulong data);
            if (data == WakeMark)
            {
                _calls.TakeWake(_wakeFd);
                continue;
            }

            delivered++;
            try
            {
                Deliver(mask, (int)(uint)data, (uint)(data >> 32));
            }
            catch (Exception e) when (Outlives(e))
            {
                Outlive(e, ResidentAt((int)(uint)data, (uint)(data >> 32)));
            }

            GoOn();
        }

        if (Counters.StaleCompletions != strays)
        {
            if (++_strayTurns >= MostStrayTurns) RenewSet();
        }
        else if (count is >= 0 and < EventCount)
        {
            // A wait that was interrupted or filled the whole array does not prove that there are no stray events.
            _strayTurns = 0;
        }

        return delivered;
    }

    /// <summary>
    /// Replaces the epoll set. A closed descriptor is reported repeatedly because an unknown duplicate of it exists (in
    /// a child process or native code). It therefore stays in the set, and its number no longer removes it. A new set
    /// does not contain it.
    /// </summary>
    private void RenewSet()
    {
        _strayTurns = 0;
        int old = _epoll;
        int fresh = _calls.Create();
        if (fresh < 0) return;
        _epoll = fresh;
        if (Control(EpollAbi.EPOLL_CTL_ADD, _wakeFd, EpollAbi.EPOLLIN, WakeMark) != 0)
        {
            _epoll = old;
            _calls.Close(fresh);
            return;
        }

        for (int slot = 0; slot < _slots.Length; slot++)
        {
            if (!_slots[slot].IsRegistered || ResidentAt(slot) is not { } resident) continue;
            _slots[slot].IsRegistered = false;
            Apply(slot, resident);
        }

        _calls.Close(old);
    }

    private protected override void Wake() => _calls.Wake(_wakeFd);

    private void Deliver(uint mask, int slot, uint generation)
    {
        Resident? resident = ResidentAt(slot);
        if (resident is null || resident.SlotGeneration != generation)
        {
            Counters.StaleCompletions++;
            return;
        }

        switch (resident)
        {
            case Connection connection:
                DeliverConnection(connection, mask, slot, generation);
                break;
            case Listener listener:
                AcceptSome(listener, slot);
                break;
            case ConnectAttempt connector:
                Connected(connector);
                break;
            case DatagramResident socket:
                DeliverDatagrams(socket, mask, slot, generation);
                break;
        }
    }

    private void DeliverConnection(Connection connection, uint mask, int slot, uint generation)
    {
        uint ended = mask & (EpollAbi.EPOLLERR | EpollAbi.EPOLLHUP);
        if ((mask & EpollAbi.EPOLLOUT) != 0 || (ended != 0 && connection.Outbound.IsSendInFlight))
        {
            SetWanted(slot, _slots[slot].Wanted & ~EpollAbi.EPOLLOUT);
            bool sends = connection.Outbound.IsSendInFlight;
            if (_slots[slot].Opening.IsUnderWay && !_slots[slot].Opening.TryEnd(_sockets, _slots[slot].Fd, ended != 0))
                SetWanted(slot, _slots[slot].Wanted | EpollAbi.EPOLLOUT);
            if (sends) SendQueue(connection);
        }

        if ((_slots[slot].Wanted & EpollAbi.EPOLLIN) != 0)
        {
            if ((mask & (EpollAbi.EPOLLIN | EpollAbi.EPOLLERR | EpollAbi.EPOLLHUP)) != 0) Receive(connection);
        }
        else if (ended != 0)
        {
            // The session is not reading now, and epoll reports these events continuously, so the descriptor is
            // removed. Data that the peer sent before its end stays in the socket and is read when receiving starts
            // again (contract 10).
            Unregister(slot);
        }

        // The callbacks may have ended the connection, and the slot may already have a new owner.
        if (connection.Slot == slot && connection.SlotGeneration == generation) Apply(slot, connection);
    }

    private void Receive(Connection connection)
    {
        int slot = connection.Slot;
        bool isMuch = _slots[slot].Size.IsLarge;
        if (isMuch && connection.SpliceTarget is { } target && TrySplice(connection, target)) return;
        IReceiveBuffer? own = isMuch ? connection.BulkBuffer(_largeBlock) : null;
        Span<byte> room = own is null ? default : own.Get();
        if (room.IsEmpty)
        {
            own = null;
            room = new Span<byte>(_buffer, ReceiveBytes);
        }

        int count;
        fixed (byte* buffer = room) count = _sockets.Receive(_slots[slot].Fd, buffer, room.Length);
        if (count <= 0)
        {
            own?.Done(connection, default);
            ReceivedNone(connection, count);
            return;
        }

        uint generation = connection.SlotGeneration;
        Span<byte> received = room[..count];
        if (own is not null)
        {
            own.Done(connection, received);
        }
        else
        {
            connection.CompleteReceive(received);
            Poison(received);
        }

        if (isMuch || count >= Duct.FromBytes) NoteSize(connection, slot, generation, count);
    }

    /// <summary>Handles a receive without data: the end of the stream, or a negated error number.</summary>
    private void ReceivedNone(Connection connection, int result)
    {
        if (result == 0)
        {
            // A socket at its end of stream stays readable.
            SetWanted(connection.Slot, _slots[connection.Slot].Wanted & ~EpollAbi.EPOLLIN);
            connection.CompleteReceiveEnd();
            return;
        }

        if (result is -Errno.ENOMEM or -Errno.ENOBUFS) RestReceive(connection);
        else if (result is not (-Errno.EAGAIN or -Errno.EINTR)) FailReceive(connection, -result);
    }

    /// <summary>Records the size of this receive for the next one, if the connection still has its slot.</summary>
    private void NoteSize(Connection connection, int slot, uint generation, int count)
    {
        if (connection.Slot != slot || connection.SlotGeneration != generation) return;
        _slots[slot].Size.Report(count, connection.MuchFrom(ReceiveBytes));
    }

    /// <summary>
    /// Moves data from one socket to the other inside the kernel. Returns false if nothing was moved; the socket may
    /// still have data.
    /// </summary>
    private bool TrySplice(Connection connection, Connection target)
    {
        int slot = connection.Slot;
        if (_slots[slot].Opening.IsUnderWay || _slots[target.Slot].Opening.IsUnderWay) return false;
        uint generation = connection.SlotGeneration;
        int count = _duct.Pass(connection, _slots[slot].Fd, target, _slots[target.Slot].Fd);
        if (count > 0) NoteSize(connection, slot, generation, count);
        else if (count < 0) FailReceive(connection, -count);
        return count != 0;
    }

    private void FailReceive(Connection connection, int error)
    {
        _sockets.ReceiveBroke(_slots[connection.Slot].Fd, error);
        connection.CompleteReceiveError(error);
    }

    // ------------------------------------------------------------------ registering

    private void SetWanted(int slot, uint mask) => _slots[slot].Wanted = mask;

    /// <summary>Registers the wanted events in the kernel, if they differ from the registered ones.</summary>
    private void Apply(int slot, Resident resident)
    {
        if (TryApply(slot, resident) is not 0 and int error) Refused(resident, error);
    }

    /// <summary>
    /// Called when the kernel refuses to watch a descriptor (ENOMEM, or ENOSPC: fs.epoll.max_user_watches). Without
    /// this, no event would ever be reported for it.
    /// </summary>
    private void Refused(Resident resident, int error)
    {
        switch (resident)
        {
            case Connection connection:
                FailReceive(connection, error);
                break;
            case Listener listener:
                listener.CompleteAcceptError(error, shed: false);
                break;
            case ConnectAttempt connector:
                connector.CompleteAttach(error);
                break;
            case DatagramResident socket:
                socket.NoteReceiveError(error);
                RestReceive(socket);
                break;
        }
    }

    /// <summary>Returns 0, or an error number; after an error the registration is unchanged.</summary>
    private int TryApply(int slot, Resident resident)
    {
        ref EpollSlot s = ref _slots[slot];
        if (s.IsRegistered && s.Registered == s.Wanted) return 0;
        if (!s.IsRegistered && s.Wanted == 0) return 0;
        int operation = s.IsRegistered ? EpollAbi.EPOLL_CTL_MOD : EpollAbi.EPOLL_CTL_ADD;
        int error = Control(operation, s.Fd, s.Wanted, (uint)slot | ((ulong)resident.SlotGeneration << 32));
        if (error != 0) return error;
        s.IsRegistered = true;
        s.Registered = s.Wanted;
        return 0;
    }

    /// <summary>Stops receiving for a while. A caller up the stack applies the change in the kernel.</summary>
    private void RestReceive(Resident resident)
    {
        ref EpollSlot slot = ref _slots[resident.Slot];
        slot.IsResting |= (slot.Wanted & EpollAbi.EPOLLIN) != 0;
        slot.Wanted &= ~EpollAbi.EPOLLIN;
        _rests.Add(resident);
    }

    private void Rested(Resident resident)
    {
        ref EpollSlot slot = ref _slots[resident.Slot];
        if (slot.IsResting) slot.Wanted |= EpollAbi.EPOLLIN;
        slot.IsResting = false;
        Apply(resident.Slot, resident);
    }

    private void Unregister(int slot)
    {
        ref EpollSlot s = ref _slots[slot];
        if (!s.IsRegistered) return;
        Control(EpollAbi.EPOLL_CTL_DEL, s.Fd, 0, 0);
        s.IsRegistered = false;
        s.Registered = 0;
    }

    private int Control(int operation, int fd, uint mask, ulong data)
    {
        byte* epollEvent = stackalloc byte[16];
        EpollEvents.Write(epollEvent, mask, data);
        return -_calls.Control(_epoll, operation, fd, epollEvent);
    }

    // ------------------------------------------------------------------ attach and detach

    private protected override void StartAttach(Resident resident)
    {
        if (resident.Slot >= _slots.Length) Array.Resize(ref _slots, _slots.Length * 2);
        ref EpollSlot slot = ref _slots[resident.Slot];
        slot = default;
        switch (resident)
        {
            case Connection connection:
                AttachConnection(connection, ref slot);
                break;
            case Listener listener:
                Opened(listener, slot.Fd = _sockets.Open(listener));
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

    private void AttachConnection(Connection connection, ref EpollSlot slot)
    {
        RawSocket socket = connection.AdoptedSocket;
        slot.Fd = socket.Descriptor;
        if (!socket.IsDeferred)
        {
            connection.CompleteAttach(0);
            return;
        }

        slot.Opening = new DeferredOpen(isUnderWay: true);
        slot.Wanted = EpollAbi.EPOLLOUT;
        // Registered now, because a session that pauses in OnConnected starts no receive.
        Apply(connection.Slot, connection);
        connection.CompleteAttach(0);
    }

    private void AttachConnector(ConnectAttempt connector, ref EpollSlot slot)
    {
        int fd = slot.Fd = _sockets.Connect(connector, out bool pending);
        if (fd >= 0 && pending)
        {
            slot.Wanted = EpollAbi.EPOLLOUT;
            Apply(connector.Slot, connector);
            return;
        }

        slot.Opening = new DeferredOpen(connector.MayDefer);
        if (fd >= 0) connector.LocalEndPoint = _sockets.LocalEndPointOf(fd);
        Opened(connector, fd);
    }

    private void Connected(ConnectAttempt connector)
    {
        int fd = _slots[connector.Slot].Fd;
        connector.CompleteAttach(_sockets.EndConnect(connector, fd));
    }

    internal override RawSocket Release(Resident resident)
    {
        EpollSlot slot = _slots[resident.Slot];
        Unregister(resident.Slot);
        FreeSlot(resident);
        return new RawSocket(slot.Fd, null, slot.Opening.IsUnderWay);
    }

    internal override void Discard(RawSocket socket) => _sockets.Close(socket.Descriptor);

    private protected override void StartDetach(Resident resident)
    {
        if (resident is Listener { AcceptsRest: true } listener) AcceptRest(listener);
        int fd = _slots[resident.Slot].Fd;
        // The kernel keeps a descriptor with a duplicate in its set and would report it permanently.
        if (resident.MayHaveDuplicate) Unregister(resident.Slot);
        if (resident.ResetOnClose) _sockets.ResetOnClose(fd);
        // Another thread may get the same descriptor number before close returns. Nothing of this loop refers to it
        // now.
        _sockets.Close(fd);
        FreeSlot(resident);
        _sockets.DeletePathOf(resident);
        resident.CompleteClose();
    }

    private protected override void CloseQueue()
    {
        _rests.Clear();
        _datagrams?.Free();
        _datagrams = null;
        if (_reserveFd >= 0) _sockets.Close(_reserveFd);
        _calls.Close(_epoll);
        // Last, because the number must not be reused while another thread may still wake this loop.
        _calls.Close(_wakeFd);
        NativeMemory.AlignedFree(_events);
        NativeMemory.AlignedFree(_buffer);
        Counters.EngineBytes -= s_ownBytes;
        _largeBlock.Free();
        _duct.Free();
    }

    // ------------------------------------------------------------------ receive

    internal override void StartReceive(Resident resident)
    {
        SetWanted(resident.Slot, _slots[resident.Slot].Wanted | EpollAbi.EPOLLIN);
        Apply(resident.Slot, resident);
    }

    internal override void StopReceive(Resident resident)
    {
        _slots[resident.Slot].IsResting = false;
        SetWanted(resident.Slot, _slots[resident.Slot].Wanted & ~EpollAbi.EPOLLIN);
        Apply(resident.Slot, resident);
    }

    // ------------------------------------------------------------------ accept

    private void AcceptRest(Listener listener)
    {
        _sockets.RefuseNewcomers(_slots[listener.Slot].Fd, listener.EndPoint);
        // A resting listener is not watched; waiting connections are accepted nevertheless.
        SetWanted(listener.Slot, _slots[listener.Slot].Wanted | EpollAbi.EPOLLIN);
        Accept(listener, int.MaxValue);
    }

    /// <summary>
    /// Accepts one connection, and more if the turn before did not accept all of them. Checking after each accept
    /// whether there is another would cost a system call that mostly returns EAGAIN; the kernel reports remaining
    /// connections again. If events exceed the array, a listener is reported only every few turns. The number therefore
    /// also grows across that many turns; otherwise the last of many clients would wait for seconds among a thousand
    /// busy connections.
    /// </summary>
    private void AcceptSome(Listener listener, int slot)
    {
        ref EpollSlot s = ref _slots[slot];
        long round = _isFull ? 1 + _slots.Length / EventCount : 1;
        s.Accepts = Counters.Turns - s.AcceptTurn <= round ? Math.Clamp(2 * s.Accepts, 1, AcceptsPerTurn) : 1;
        s.AcceptTurn = Counters.Turns;
        Accept(listener, s.Accepts);
    }

    private void Accept(Listener listener, int most)
    {
        byte* address = stackalloc byte[SocketAbi.MaxAddressBytes];
        int slot = listener.Slot;
        for (int i = 0; i < most && listener.Slot == slot && (_slots[slot].Wanted & EpollAbi.EPOLLIN) != 0; i++)
        {
            uint length = SocketAbi.MaxAddressBytes;
            int fd = _sockets.Accept(_slots[slot].Fd, address, &length,
                SocketAbi.SOCK_NONBLOCK | SocketAbi.SOCK_CLOEXEC);
            if (fd >= 0)
            {
                listener.CompleteAccept(new RawSocket(fd, null), AddressCodec.Decode(address, length),
                    listener.IsWildcard ? _sockets.LocalEndPointOf(fd) : null);
                continue;
            }

            if (fd == -Errno.EAGAIN) return;
            if (fd is -Errno.EINTR or -Errno.ECONNABORTED) continue;
            listener.CompleteAcceptError(-fd, fd is -Errno.EMFILE or -Errno.ENFILE
                && _sockets.Shed(_slots[slot].Fd, ref _reserveFd) == ShedResult.Shed);
            return;
        }
    }

    // ------------------------------------------------------------------ send

    /// <summary>
    /// An offer is made even if the socket was full a moment ago: it may have space again before the kernel has
    /// reported it.
    /// </summary>
    internal override void StartSend(Connection connection, bool isOffer)
    {
        int slot = connection.Slot;
        if (isOffer && _slots[slot].Opening.IsUnderWay) return;
        connection.Outbound.BeginSending();
        SendQueue(connection);
        Apply(slot, connection);
    }

    /// <summary>
    /// Sends from the head of the queue until it is empty, part of a file was sent, or the socket is full.
    /// </summary>
    private void SendQueue(Connection connection)
    {
        int fd = _slots[connection.Slot].Fd;
        while (connection.Outbound.SendHead is { } head && head.Length > 0)
        {
            long offered;
            int sent;
            Counters.Sends++;
            if (head.Kind == BlockKind.File)
            {
                SendFile(connection, fd, head);
                return;
            }

            if (head.NextInMemory is null)
            {
                offered = head.Length;
                sent = _sockets.Send(fd, head.Memory + head.Start, head.Length);
            }
            else
            {
                sent = SendVectors(fd, head, out offered);
            }

            if (sent < 0)
            {
                if (sent == -Errno.EINTR) continue;
                // EINPROGRESS: a fast open that became a normal connect and took no bytes.
                if (sent is not (-Errno.EAGAIN or -Errno.ENOBUFS or -Errno.ENOMEM or -Errno.EINPROGRESS))
                {
                    FailSend(connection, -sent);
                    return;
                }

                sent = 0;
            }

            if (sent > 0) connection.Outbound.AdvanceSend(sent);
            if (sent >= offered) continue;
            SetWanted(connection.Slot, _slots[connection.Slot].Wanted | EpollAbi.EPOLLOUT);
            return;
        }

        connection.Outbound.CompleteSend();
    }

    private void SendFile(Connection connection, int fd, Block file)
    {
        long result = _sockets.SendFile(fd, file);
        if (FileTransfer.MustWait(result))
            SetWanted(connection.Slot, _slots[connection.Slot].Wanted | EpollAbi.EPOLLOUT);
        else if (FileTransfer.IsOfSocket(result)) FailSend(connection, (int)-result);
        else connection.Outbound.CompleteFile(result);
    }

    private void FailSend(Connection connection, int error)
    {
        _sockets.SendBroke(_slots[connection.Slot].Fd, error);
        connection.Outbound.FailSend(error);
    }

    private int SendVectors(int fd, Block head, out long offered)
    {
        IoVector* vectors = stackalloc IoVector[MaxVectors];
        int count = 0;
        offered = 0;
        for (Block? block = head; block is not null && count < MaxVectors; block = block.NextInMemory)
        {
            if (block.Length == 0) continue;
            vectors[count].Base = block.Memory + block.Start;
            vectors[count++].Length = (nuint)block.Length;
            offered += block.Length;
        }

        return _sockets.Send(fd, vectors, count);
    }

    internal override int TrySend(Connection connection, ReadOnlySpan<IoVector> pieces)
    {
        ref EpollSlot slot = ref _slots[connection.Slot];
        if (slot.Opening.IsUnderWay) return 0;
        CountDirectSend();
        int sent = _sockets.Send(slot.Fd, pieces);
        if (sent is -Errno.EAGAIN or -Errno.EINTR or -Errno.ENOBUFS or -Errno.ENOMEM) return 0;
        if (sent < 0) _sockets.SendBroke(slot.Fd, -sent);
        return sent;
    }

    internal override void ShutdownSend(Connection connection)
    {
        ref EpollSlot slot = ref _slots[connection.Slot];
        slot.Opening.ShutdownSend(_sockets, slot.Fd);
    }
}
