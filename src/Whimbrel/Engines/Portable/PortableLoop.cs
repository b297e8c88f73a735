using System.Net;
using System.Net.Sockets;
using System.Runtime.InteropServices;
using Whimbrel.Connections;
using Whimbrel.Datagrams;
using Whimbrel.Diagnostics;
using Whimbrel.Linux;

namespace Whimbrel.Engines.Portable;

/// <summary>
/// Engine on System.Net.Sockets, for every platform of .NET. Asynchronous calls report when a socket is ready; work
/// that can be done at once is done by non-blocking calls on the loop's thread. Completions arrive on any thread and
/// are only added to <see cref="CompletionQueue"/>. Each operation in flight is counted in its slot, and a slot is
/// freed when none is left. Next to read: <see cref="Wait"/>, then <see cref="Deliver"/>; receiving and sending are in
/// PortableLoop.Transfer.cs.
/// </summary>
// Safe: every pointer here is the loop's own buffer or a queued block; see PortableOperation.SetBlock for the one that
// outlives a call.
internal sealed unsafe partial class PortableLoop : Loop, IDatagramEngine
{
    private const int AcceptsPerTurn = 64;
    private const int MaxFreeOperations = 1024;
    private const int ReserveWithoutMargin = 8;

    private static readonly System.Net.Sockets.LingerOption s_reset = new(true, 0);

    private readonly CompletionQueue _completions = new();
    private readonly Stack<PortableOperation> _freeReceives = new();
    private readonly Stack<PortableOperation> _freeSends = new();
    private readonly LargeBlock _largeBlock;
    private readonly Stack<Socket> _reserve = new(ReserveWithoutMargin);
    private byte* _buffer;
    private byte* _gather;
    private PortableSlot[] _slots = new PortableSlot[64];

    // Operations that completed before the call returned, and connections to read again. Delivered in order, in batches
    // of one turn.
    private PortableOperation? _firstReady;
    private PortableOperation? _lastReady;
    private int _readyCount;

    /// <summary>Engine data of one slot.</summary>
    private struct PortableSlot
    {
        internal Socket? Socket;
        internal PortableOperation? Operation; // accept, connect or receive: the operation that the handle keeps
        internal int Running; // operations in flight or listed
        internal ReceiveSize Size;
        internal int HeldError; // error of a receive while the session is not reading
        internal bool IsWanted;
        internal bool IsReading; // Operation is in flight or listed
        internal bool IsDetaching;
        internal bool IsDeferred; // fast open: the peer has not answered yet
        internal bool FinishesLater; // ShutdownSend was called meanwhile
        internal PortableDatagrams? Datagrams; // of a datagram socket
    }

    internal PortableLoop(Engine engine, int index)
        : base(engine, index)
    {
        _largeBlock = new LargeBlock(this);
        LoadWhatReceivingNeeds();
    }

    private protected override void OpenQueue()
    {
        _buffer = (byte*)NativeMemory.AlignedAlloc(ReceiveBytes, 4096);
        _gather = (byte*)NativeMemory.AlignedAlloc(GatherBytes, 4096);
        Counters.EngineBytes += ReceiveBytes + GatherBytes;
    }

    /// <summary>
    /// Loads assemblies early. The runtime opens an assembly at its first use, so a first receive without a free
    /// descriptor would end the process.
    /// </summary>
    private static void LoadWhatReceivingNeeds()
    {
        UnreadStore unread = default;
        unread.Append([0]);
        unread.Append([0]);
        unread.Consume(2);
    }

    // ------------------------------------------------------------------ waiting and delivering

    private protected override int Wait(long timeoutMs)
    {
        // With operations to deliver, the loop does not block; TrySleep measures the turn in any case.
        if (timeoutMs != 0 && TrySleep() && _readyCount == 0)
            _completions.Sleep(timeoutMs < 0 ? -1 : (int)Math.Min(timeoutMs, int.MaxValue));
        Woke();
        TakeCompletions();
        // Operations that become ready meanwhile wait for the next turn, so that a busy connection leaves time for the
        // mailbox and other connections.
        int count = _readyCount;
        for (int budget = count; budget > 0; budget--)
        {
            PortableOperation operation = NextReady();
            // Read before the delivery, because the operation may be reused in it.
            Resident resident = operation.Resident;
            try
            {
                Deliver(operation);
            }
            catch (Exception e) when (Outlives(e))
            {
                Outlive(e, resident);
            }
        }

        return count;
    }

    private protected override void Wake() => _completions.Wake();

    /// <summary>
    /// Moves completions to the ready list. The stack has the newest first; they are delivered in the order of their
    /// completion.
    /// </summary>
    private void TakeCompletions()
    {
        PortableOperation? newest = _completions.TakeAll();
        PortableOperation? oldest = null;
        while (newest is not null)
        {
            PortableOperation? next = newest.Next;
            newest.Next = oldest;
            oldest = newest;
            newest = next;
        }

        while (oldest is not null)
        {
            PortableOperation? next = oldest.Next;
            AddReady(oldest);
            oldest = next;
        }
    }

    private void AddReady(PortableOperation operation)
    {
        operation.Next = null;
        if (_lastReady is null) _firstReady = operation;
        else _lastReady.Next = operation;
        _lastReady = operation;
        _readyCount++;
    }

    private PortableOperation NextReady()
    {
        PortableOperation operation = _firstReady!;
        _firstReady = operation.Next;
        if (_firstReady is null) _lastReady = null;
        operation.Next = null;
        _readyCount--;
        return operation;
    }

    private void Deliver(PortableOperation operation)
    {
        int slot = operation.Slot;
        ref PortableSlot s = ref _slots[slot];
        s.Running--;
        if (s.IsDetaching)
        {
            Counters.StaleCompletions++;
            // Read before the operation is returned, which clears it.
            Resident resident = operation.Resident;
            Abandon(operation);
            if (s.Running == 0) FinishDetach(resident);
            return;
        }

        switch (operation.Kind)
        {
            case OperationKind.Receive:
                Received((Connection)operation.Resident, operation);
                break;
            case OperationKind.Send:
                Sent((Connection)operation.Resident, operation);
                break;
            case OperationKind.Accept:
                Accepted((Listener)operation.Resident, operation);
                break;
            case OperationKind.Connect:
                Connected((ConnectAttempt)operation.Resident, operation);
                break;
            case OperationKind.Open:
                OpenDeferred((Connection)operation.Resident, operation);
                break;
            case OperationKind.Datagrams:
                DeliverDatagrams((DatagramResident)operation.Resident, operation);
                break;
        }
    }

    /// <summary>Ends an operation of a handle that is being detached: only its resources are released.</summary>
    private void Abandon(PortableOperation operation)
    {
        operation.ReadsOn = false;
        if (operation.Kind == OperationKind.Send) ReturnOperation(_freeSends, operation);
        else if (operation.Kind == OperationKind.Accept && TakeAccepted(operation) is { } accepted)
        {
            // The connection was accepted directly before the listener was closed.
            if (operation.Resident is Listener { IsDraining: true } listener) Hand(listener, accepted);
            else accepted.Dispose();
        }
        else if (operation.Kind == OperationKind.Open) operation.Dispose();
        else if (operation.Kind == OperationKind.Datagrams) _slots[operation.Slot].Datagrams!.Abandon(operation);
    }

    /// <summary>
    /// Counts an operation as running. The caller starts it, and adds it to the ready list if it completed at once.
    /// </summary>
    private void Begin(PortableOperation operation, Resident resident)
    {
        operation.Resident = resident;
        operation.Slot = resident.Slot;
        _slots[resident.Slot].Running++;
    }

    private bool IsAttached(Resident resident, int slot, uint generation) =>
        resident.Slot == slot && resident.SlotGeneration == generation && !_slots[slot].IsDetaching;

    private static PortableOperation? TakeOperation(Stack<PortableOperation> free) =>
        free.Count > 0 ? free.Pop() : null;

    private static void ReturnOperation(Stack<PortableOperation> free, PortableOperation operation)
    {
        operation.Resident = null!;
        if (free.Count < MaxFreeOperations) free.Push(operation);
        else operation.Dispose();
    }

    // ------------------------------------------------------------------ attach

    private protected override void StartAttach(Resident resident)
    {
        if (resident.Slot >= _slots.Length) Array.Resize(ref _slots, _slots.Length * 2);
        _slots[resident.Slot] = default;
        switch (resident)
        {
            case Connection connection:
                AttachConnection(connection);
                break;
            case Listener listener:
                AttachListener(listener);
                break;
            case ConnectAttempt connector:
                AttachConnector(connector);
                break;
            case DatagramResident socket:
                AttachDatagrams(socket);
                break;
        }
    }

    private void AttachConnection(Connection connection)
    {
        Socket socket = (Socket)connection.AdoptedSocket.Handle!;
        PortableOperation operation = TakeOperation(_freeReceives)
            ?? new PortableOperation(_completions, OperationKind.Receive, SmallBytes);
        ref PortableSlot slot = ref _slots[connection.Slot];
        slot.Socket = socket;
        slot.Operation = operation;
        int error = 0;
        try
        {
            socket.Blocking = false;
        }
        catch (SocketException e)
        {
            error = ErrorText.ErrnoOf(e.SocketErrorCode);
        }

        if (connection.AdoptedSocket.IsDeferred)
        {
            // Delivered in the next turn, after the flush of data that OnConnected sends.
            slot.IsDeferred = true;
            PortableOperation open = new(_completions, OperationKind.Open);
            Begin(open, connection);
            AddReady(open);
        }

        connection.CompleteAttach(error);
    }

    private void AttachListener(Listener listener)
    {
        Socket? socket;
        try
        {
            socket = SocketFactory.CreateListener(listener);
        }
        catch (Exception e) when (ErrorOf(e, listener.EndPoint) != 0)
        {
            FreeSlot(listener);
            listener.CompleteAttach(ErrorOf(e, listener.EndPoint));
            return;
        }

        if (socket is null)
        {
            FreeSlot(listener);
            listener.CompleteAttach(SocketFactory.NumberOf(listener.Fault));
            return;
        }

        // Accepting is asynchronous. Shedding is not, and must not wait for a connection that no longer exists.
        socket.Blocking = false;
        ref PortableSlot slot = ref _slots[listener.Slot];
        slot.Socket = socket;
        slot.Operation = new PortableOperation(_completions, OperationKind.Accept);
        listener.BeginSharing(new RawSocket(0, socket));
        listener.EndPoint = socket.LocalEndPoint ?? listener.EndPoint;
        listener.CompleteAttach(0);
    }

    private void AttachConnector(ConnectAttempt connector)
    {
        Socket? socket = null;
        PortableOperation operation = new(_completions, OperationKind.Connect) { RemoteEndPoint = connector.Target };
        try
        {
            socket = SocketFactory.CreateSocket(connector, connector.Target, SocketType.Stream,
                connector.Options.CommonSocket.Create, out NetworkException? wrong);
            if (socket is null)
            {
                connector.Fault = wrong;
                Refuse(connector, operation, null, SocketFactory.NumberOf(wrong));
                return;
            }

            if ((connector.Fault = SocketOptions.ApplyTo(connector, new RawSocket(0, socket))) is { } fault)
            {
                Refuse(connector, operation, socket, SocketFactory.NumberOf(fault));
                return;
            }

            if (connector.LocalEndPoint is { } local) socket.Bind(local);
            ref PortableSlot slot = ref _slots[connector.Slot];
            slot.Socket = socket;
            slot.Operation = operation;
            Begin(operation, connector);
            if (socket.ConnectAsync(operation)) return;
            slot.IsDeferred = connector.MayDefer;
            AddReady(operation);
        }
        catch (Exception e) when (ErrorOf(e, connector.Target) != 0)
        {
            Refuse(connector, operation, socket, ErrorOf(e, connector.Target));
        }
    }

    private void Refuse(ConnectAttempt connector, PortableOperation operation, Socket? socket, int error)
    {
        connector.EndSharing();
        socket?.Dispose();
        operation.Dispose();
        _slots[connector.Slot] = default;
        FreeSlot(connector);
        connector.CompleteAttach(error);
    }

    private void Connected(ConnectAttempt connector, PortableOperation operation)
    {
        ref PortableSlot slot = ref _slots[connector.Slot];
        int error = ErrnoOf(operation.SocketError, connector.Target);
        if (error == 0)
        {
            try
            {
                connector.LocalEndPoint = LocalEndPointOf(slot.Socket!);
            }
            catch (SocketException e)
            {
                error = ErrorText.ErrnoOf(e.SocketErrorCode);
            }
        }

        connector.CompleteAttach(error);
    }

    /// <summary>
    /// Returns the local end point: IPv4 for an IPv4 address of a dual-stack socket, null for a Unix socket without a
    /// name.
    /// </summary>
    private static EndPoint? LocalEndPointOf(Socket socket) => PeerAddress.Of(socket.LocalEndPoint).ToEndPoint();

    /// <summary>
    /// Returns the error number for an exception of a socket; 0 if the exception is not a failure of the system.
    /// </summary>
    private static int ErrorOf(Exception exception, EndPoint endPoint) => exception switch
    {
        SocketException e => ErrnoOf(e.SocketErrorCode, endPoint),
        UnauthorizedAccessException => Errno.EACCES,
        IOException or ArgumentException or NotSupportedException or PlatformNotSupportedException => Errno.EINVAL,
        _ => 0,
    };

    /// <summary>Returns the error number. A missing path has no error of its own among those of sockets.</summary>
    private static int ErrnoOf(SocketError error, EndPoint endPoint) =>
        error == SocketError.AddressNotAvailable && endPoint is UnixDomainSocketEndPoint
            ? Errno.ENOENT
            : ErrorText.ErrnoOf(error);

    // ------------------------------------------------------------------ detach

    internal override RawSocket Release(Resident resident)
    {
        ref PortableSlot slot = ref _slots[resident.Slot];
        RawSocket socket = new(0, slot.Socket, slot.IsDeferred);
        slot.Operation!.Dispose();
        slot = default;
        FreeSlot(resident);
        return socket;
    }

    internal override void Discard(RawSocket socket) => ((Socket)socket.Handle!).Dispose();

    private protected override void StartDetach(Resident resident)
    {
        if (resident is Listener { AcceptsRest: true } listener) AcceptRest(listener);
        ref PortableSlot slot = ref _slots[resident.Slot];
        slot.IsDetaching = true;
        slot.IsWanted = false;
        Close(slot.Socket!, resident, isBusy: slot.Running > 0);
        if (slot.Running == 0) FinishDetach(resident);
    }

    /// <summary>
    /// Closes the socket. Operations in flight complete as aborted. A listener's Unix path is deleted with its socket.
    /// </summary>
    private static void Close(Socket socket, Resident resident, bool isBusy)
    {
        try
        {
            if (resident.ResetOnClose) socket.LingerState = s_reset;
            // or closing with operations in flight would reset
            else if (isBusy && resident is Connection) socket.Shutdown(SocketShutdown.Send);
        }
        catch (SocketException)
        {
            // The peer has already closed: there is nothing left to reset or shut down.
        }

        socket.Dispose();
    }

    private void FinishDetach(Resident resident)
    {
        ref PortableSlot slot = ref _slots[resident.Slot];
        PortableOperation operation = slot.Operation!;
        slot.Datagrams?.Dispose();
        slot = default;
        if (operation.Kind == OperationKind.Receive) ReturnOperation(_freeReceives, operation);
        else operation.Dispose();
        FreeSlot(resident);
        if (resident is DatagramResident { EndPoint: UnixDomainSocketEndPoint unix }
            && !unix.ToString().StartsWith('@'))
            File.Delete(unix.ToString());
        resident.CompleteClose();
    }

    private protected override void CloseQueue()
    {
        GiveReserve();
        while (_freeReceives.TryPop(out PortableOperation? operation)) operation.Dispose();
        while (_freeSends.TryPop(out PortableOperation? operation)) operation.Dispose();
        NativeMemory.AlignedFree(_buffer);
        NativeMemory.AlignedFree(_gather);
        Counters.EngineBytes -= ReceiveBytes + GatherBytes;
        _largeBlock.Free();
    }

    // ------------------------------------------------------------------ accept

    private void StartAccept(Listener listener)
    {
        ref PortableSlot slot = ref _slots[listener.Slot];
        PortableOperation operation = slot.Operation!;
        slot.IsReading = true;
        Begin(operation, listener);
        if (!slot.Socket!.AcceptAsync(operation)) AddReady(operation);
    }

    /// <summary>Delivers one accept, and then further waiting connections.</summary>
    private void Accepted(Listener listener, PortableOperation operation)
    {
        int slot = listener.Slot;
        uint generation = listener.SlotGeneration;
        for (int i = 0; i < AcceptsPerTurn; i++)
        {
            _slots[slot].IsReading = false;
            bool more = DeliverAccept(listener, operation);
            // Also if the listener was stopped meanwhile: starting it again starts the next accept.
            if (!IsAttached(listener, slot, generation) || !_slots[slot].IsWanted) return;
            if (!more || i == AcceptsPerTurn - 1) break;
            _slots[slot].IsReading = true;
            Begin(operation, listener);
            if (_slots[slot].Socket!.AcceptAsync(operation)) return;
            _slots[slot].Running--;
        }

        StartAccept(listener);
    }

    /// <summary>Delivers one accept. Returns false after an error: the next attempt is made in the next turn.</summary>
    private bool DeliverAccept(Listener listener, PortableOperation operation)
    {
        Socket? accepted = TakeAccepted(operation);
        SocketError error = operation.SocketError;
        bool shed = false;
        if (error == SocketError.Success && !TakeReserve())
        {
            // The last descriptors are reserved for the runtime.
            error = SocketError.TooManyOpenSockets;
            shed = true;
        }
        else if (error == SocketError.TooManyOpenSockets) shed = Shed(_slots[listener.Slot].Socket!);

        if (error == SocketError.Success)
        {
            error = Hand(listener, accepted!);
            if (error == SocketError.Success) return true;
            accepted = null;
        }

        accepted?.Dispose();
        listener.CompleteAcceptError(ErrorText.ErrnoOf(error), shed);
        return false;
    }

    /// <summary>
    /// Passes an accepted socket on. Returns an error if the connection has already ended; then the socket is closed.
    /// </summary>
    private static SocketError Hand(Listener listener, Socket accepted)
    {
        PeerAddress peer;
        EndPoint? local;
        try
        {
            peer = PeerAddress.Of(accepted.RemoteEndPoint);
            local = listener.IsWildcard ? LocalEndPointOf(accepted) : null;
        }
        catch (SocketException e)
        {
            accepted.Dispose();
            return e.SocketErrorCode;
        }

        listener.CompleteAccept(new RawSocket(0, accepted), peer, local);
        return SocketError.Success;
    }

    /// <summary>
    /// Accepts waiting connections. A connection that an accept in flight has already taken is delivered when the
    /// socket is closed (see Abandon).
    /// </summary>
    private void AcceptRest(Listener listener)
    {
        Socket socket = _slots[listener.Slot].Socket!;
        SocketFactory.RefuseNewcomers(socket, listener.EndPoint);
        try
        {
            while (TakeReserve()) Hand(listener, socket.Accept());
        }
        catch (SocketException)
        {
            // No connection is waiting any more, or there is no descriptor for it.
        }
    }

    private static Socket? TakeAccepted(PortableOperation operation)
    {
        Socket? accepted = operation.AcceptSocket;
        operation.AcceptSocket = null;
        return accepted;
    }

    /// <summary>
    /// Called without free descriptors: releases the reserve, accepts one connection and closes it. The reserve stays
    /// released, because the runtime needs descriptors to start a thread of its pool and ends the process if it gets
    /// none.
    /// </summary>
    private bool Shed(Socket listener)
    {
        GiveReserve();
        try
        {
            listener.Accept().Dispose();
            return true;
        }
        catch (SocketException)
        {
            // The connection no longer exists, or another thread took the descriptor first.
            return false;
        }
    }

    /// <summary>Size of the reserve. Without descriptor counts, it is all that the runtime has left.</summary>
    private int ReserveDescriptors => Engine.Descriptors.IsOn ? 1 : ReserveWithoutMargin;

    /// <summary>
    /// Refills the reserve. Returns false if there are not enough descriptors; then the reserve is empty.
    /// </summary>
    private bool TakeReserve()
    {
        try
        {
            while (_reserve.Count < ReserveDescriptors)
                _reserve.Push(SocketFactory.Keep(
                    new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp), this));
            return true;
        }
        catch (SocketException)
        {
            GiveReserve();
            return false;
        }
    }

    private void GiveReserve()
    {
        while (_reserve.TryPop(out Socket? socket)) socket.Dispose();
    }
}
