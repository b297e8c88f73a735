using System.Net;
using System.Runtime.InteropServices;
using Whimbrel.Buffers;
using Whimbrel.Connections;
using Whimbrel.Datagrams;
using Whimbrel.Linux;

namespace Whimbrel.Testing;

/// <summary>
/// A loop with the memory network as its kernel. Checks every rule of the contract in Loop.cs that an engine can check,
/// and throws at a violation. Received bytes are passed in a block of exactly their size, which is overwritten
/// afterwards.
/// </summary>
// Safe: blocks are read only through the pointers and lengths of queued blocks, on the thread that owns them.
internal sealed unsafe partial class MemoryLoop : Loop, IDatagramEngine
{
    private const int MaxReceive = 64 * 1024;
    private const int MaxTakenBytes = 128 * 1024;

    private readonly MemoryEngine _engine;
    private readonly MemoryNetwork _network;
    private readonly List<int> _order = [];
    private Slot[] _slots = new Slot[64];
    private int _slotsUsed;

    /// <summary>Engine data of one resident.</summary>
    private struct Slot
    {
        internal MemorySocket? Socket;
        internal MemoryListening? Listening;
        internal bool IsAttached;
        internal bool IsReceiving;
        internal bool IsSending;
        internal bool IsConnectPending;
        internal bool IsClosing;
        internal bool EndTaken;
        internal MemoryDatagramSocket? Datagrams;

        /// <summary>
        /// Bytes taken from the network and delivered later, as a completion that is pending when receiving is stopped.
        /// </summary>
        internal Queue<byte[]>? Taken;
        internal int TakenBytes;
    }

    internal MemoryLoop(MemoryEngine engine, int index, MemoryNetwork network)
        : base(engine, index)
    {
        _engine = engine;
        _network = network;
    }

    private MemoryFaults Faults => _network.Faults;

    private MemoryDatagrams Datagrams => _engine.Datagrams;

    private bool Chance(int perMille) => perMille > 0 && _engine.Random.Next(1000) < perMille;

    internal bool IsRunnable
    {
        get
        {
            if (IsStopped) return false;
            if (HasWork || Timers.NextDueMs <= Engine.NowMs) return true;
            for (int i = 0; i < _slotsUsed; i++)
            {
                if (IsReady(i)) return true;
            }

            return false;
        }
    }

    private bool IsReady(int index)
    {
        ref Slot slot = ref _slots[index];
        if (!slot.IsAttached) return false;
        if (slot.IsClosing) return true;
        if (slot.Taken is { Count: > 0 }) return true;
        if (slot.Datagrams is { } datagrams) return IsReady(ref slot, datagrams);
        if (slot.Listening is { } listening) return slot.IsReceiving && listening.Waiting.Count > 0;
        if (slot.IsConnectPending)
            return slot.Socket is not null
                || ResidentAt(index) is ConnectAttempt { } c && !_network.IsBlackHole(c.Target);
        return (slot.IsReceiving && slot.Socket!.IsReadable) || (slot.IsSending && slot.Socket!.IsWritable);
    }

    // ------------------------------------------------------------------ waiting and delivering

    private protected override int Wait(long timeoutMs)
    {
        CheckThread();
        TrySleep();
        Woke();
        _order.Clear();
        for (int i = 0; i < _slotsUsed; i++)
        {
            if (IsReady(i)) _order.Add(i);
        }

        _engine.Random.Shuffle(CollectionsMarshal.AsSpan(_order));
        int delivered = 0;
        for (int i = 0; i < _order.Count; i++)
        {
            int slot = _order[i];
            bool isLast = i == _order.Count - 1 && delivered == 0;
            // At least one is delivered, because a series of delays would look like a stall.
            if (!isLast && Chance(Faults.Delay)) continue;
            if (!IsReady(slot)) continue;
            delivered++;
            Resident? resident = ResidentAt(slot);
            try
            {
                Deliver(slot);
            }
            catch (Exception e) when (Outlives(e))
            {
                Outlive(e, resident);
            }
        }

        return delivered;
    }

    private protected override void Wake()
    {
        // Does nothing: loops do not sleep in a simulation, and a loop with mail is runnable.
    }

    private void Deliver(int index)
    {
        ref Slot slot = ref _slots[index];
        Resident resident = ResidentAt(index) ?? throw _engine.Violation("A slot is attached without a resident.");
        if (slot.IsClosing)
        {
            CompleteDetach(resident);
            return;
        }

        switch (resident)
        {
            case Listener listener:
                Accept(listener, slot.Listening!);
                break;
            case ConnectAttempt connector:
                Connected(connector);
                break;
            case Connection connection:
                DeliverConnection(connection, index);
                break;
            case DatagramResident socket:
                DeliverDatagrams(socket, index);
                break;
        }
    }

    private void DeliverConnection(Connection connection, int index)
    {
        uint generation = connection.SlotGeneration;
        if (_slots[index].IsSending && _slots[index].Socket!.IsWritable)
        {
            Push(connection, index);
            if (connection.Slot != index || connection.SlotGeneration != generation || _slots[index].IsClosing) return;
        }

        if (_slots[index].Taken is { Count: > 0 } taken)
        {
            byte[] block = taken.Dequeue();
            _slots[index].TakenBytes -= block.Length;
            Hand(connection, block);
            return;
        }

        if (!_slots[index].IsReceiving || !_slots[index].Socket!.IsReadable) return;
        Receive(connection, index);
    }

    private void Receive(Connection connection, int index)
    {
        ref Slot slot = ref _slots[index];
        MemorySocket socket = slot.Socket!;
        if (Chance(Faults.Reset)) socket.Reset();
        if (socket.Available > 0)
        {
            int count = Math.Min(socket.Available, MaxReceive);
            if (count > 1 && Chance(Faults.Split)) count = _engine.Random.Next(1, count);
            byte[] block = new byte[count];
            socket.Read(block);
            if (Chance(Faults.Delay) && slot.TakenBytes + count <= MaxTakenBytes)
            {
                _engine.Trace.Add("take", socket.Id, count);
                (slot.Taken ??= new Queue<byte[]>()).Enqueue(block);
                slot.TakenBytes += count;
                return;
            }

            _engine.Trace.Add("receive", socket.Id, count);
            Hand(connection, block);
            return;
        }

        slot.IsReceiving = false;
        if (slot.EndTaken) throw _engine.Violation("Receiving was started again after the end.");
        if (socket.IsReset)
        {
            _engine.Trace.Add("reset", socket.Id, 0);
            connection.CompleteReceiveError(Errno.ECONNRESET);
            return;
        }

        slot.EndTaken = true;
        _engine.Trace.Add("finish", socket.Id, 0);
        connection.CompleteReceiveEnd();
    }

    private static void Hand(Connection connection, byte[] block)
    {
        connection.CompleteReceive(block);
        // Overwritten, so that code that kept the span reads invalid data (contract 13).
        block.AsSpan().Fill(0xDD);
    }

    // ------------------------------------------------------------------ attach and detach

    private protected override void StartAttach(Resident resident)
    {
        CheckThread();
        if (resident.Slot >= _slots.Length) Array.Resize(ref _slots, _slots.Length * 2);
        _slotsUsed = Math.Max(_slotsUsed, resident.Slot + 1);
        ref Slot slot = ref _slots[resident.Slot];
        if (slot.IsAttached) throw _engine.Violation("A slot was given out twice.");
        slot = new Slot { IsAttached = true };
        switch (resident)
        {
            case Connection connection:
                slot.Socket = (MemorySocket)connection.AdoptedSocket.Handle!;
                connection.CompleteAttach(0);
                break;
            case Listener listener:
                AttachListener(listener);
                break;
            case ConnectAttempt connector:
                slot.IsConnectPending = true;
                _engine.Trace.Add("connect", connector.Slot, 0);
                break;
            case DatagramResident socket:
                AttachDatagrams(socket);
                break;
        }
    }

    private void AttachListener(Listener listener)
    {
        MemoryListening? listening = _network.Listen(listener.EndPoint, listener.Options.Socket.Backlog,
            listener.Sharing);
        if (listening is null)
        {
            Free(listener);
            listener.CompleteAttach(Errno.EADDRINUSE);
            return;
        }

        _slots[listener.Slot].Listening = listening;
        listener.EndPoint = listening.EndPoint;
        listener.CompleteAttach(0);
    }

    private void Connected(ConnectAttempt connector)
    {
        ref Slot slot = ref _slots[connector.Slot];
        slot.IsConnectPending = false;
        if (_network.IsFailing(connector.Target, out int error))
        {
            _engine.Trace.Add("connect failed", connector.Slot, error);
            connector.CompleteAttach(error);
            return;
        }

        MemorySocket? socket = _network.Connect(connector.Target, connector.LocalEndPoint);
        _engine.Trace.Add("connected", connector.Slot, socket?.Id ?? 0);
        if (socket is null)
        {
            connector.CompleteAttach(Errno.ECONNREFUSED);
            return;
        }

        slot.Socket = socket;
        connector.LocalEndPoint = socket.LocalEndPoint;
        connector.CompleteAttach(0);
    }

    internal override RawSocket Release(Resident resident)
    {
        CheckThread();
        MemorySocket socket = _slots[resident.Slot].Socket
            ?? throw _engine.Violation("Released before it was connected.");
        Free(resident);
        return new RawSocket(0, socket);
    }

    internal override void Discard(RawSocket socket) => ((MemorySocket)socket.Handle!).Close(reset: true);

    private protected override void StartDetach(Resident resident)
    {
        CheckThread();
        ref Slot slot = ref _slots[resident.Slot];
        if (!slot.IsAttached || slot.IsClosing) throw _engine.Violation("Detached twice.");
        if (resident is Listener { AcceptsRest: true } listener)
        {
            AcceptRest(listener);
            slot = ref _slots[resident.Slot];
        }

        slot.IsClosing = true;
        slot.IsReceiving = false;
        slot.Taken = null;
        if (slot.Listening is { } listening) _network.StopListening(listening);
        slot.Socket?.Close(resident.ResetOnClose);
        if (slot.Datagrams is { } datagrams) Datagrams.Remove(datagrams);
        _engine.Trace.Add("close", slot.Socket?.Id ?? 0, resident.ResetOnClose ? 1 : 0);
        if (!Chance(Faults.LateClose)) CompleteDetach(resident);
    }

    private void CompleteDetach(Resident resident)
    {
        Free(resident);
        resident.CompleteClose();
    }

    private void Free(Resident resident)
    {
        _slots[resident.Slot] = default;
        FreeSlot(resident);
    }

    private protected override void OpenQueue()
    {
        // The network is the queue, and there is only one.
    }

    private protected override void CloseQueue()
    {
        for (int i = 0; i < _slotsUsed; i++)
        {
            if (_slots[i].IsAttached) throw _engine.Violation("The loop ended with something attached.");
        }
    }

    // ------------------------------------------------------------------ receive

    internal override void StartReceive(Resident resident)
    {
        ref Slot slot = ref Open(resident);
        if (slot.IsReceiving) throw _engine.Violation("Receiving was started twice.");
        slot.IsReceiving = true;
    }

    internal override void StopReceive(Resident resident)
    {
        ref Slot slot = ref Open(resident);
        slot.IsReceiving = false;
    }

    private void Accept(Listener listener, MemoryListening listening)
    {
        if (Chance(Faults.AcceptError))
        {
            bool exhausted = _engine.Random.Next(2) == 0;
            bool shed = exhausted && listening.Waiting.TryDequeue(out MemorySocket? victim) && Refuse(victim);
            _engine.Trace.Add("accept-error", listener.Slot, shed ? 1 : 0);
            listener.CompleteAcceptError(exhausted ? Errno.EMFILE : Errno.ECONNABORTED, shed);
            return;
        }

        MemorySocket socket = listening.Waiting.Dequeue();
        _engine.Trace.Add("accept", socket.Id, 0);
        listener.CompleteAccept(new RawSocket(0, socket), socket.RemoteAddress, null);
    }

    private void AcceptRest(Listener listener)
    {
        MemoryListening listening = _slots[listener.Slot].Listening
            ?? throw _engine.Violation("A listener that is not open drains.");
        while (listening.Waiting.TryDequeue(out MemorySocket? socket))
        {
            _engine.Trace.Add("accept", socket.Id, 0);
            listener.CompleteAccept(new RawSocket(0, socket), socket.RemoteAddress, null);
        }
    }

    private static bool Refuse(MemorySocket socket)
    {
        socket.Close(reset: true);
        return true;
    }

    // ------------------------------------------------------------------ send

    internal override void StartSend(Connection connection, bool isOffer)
    {
        // The network accepted only a part before, and may accept more now.
        ref Slot slot = ref Open(connection);
        if (slot.IsSending && !isOffer) throw _engine.Violation("A second send was started.");
        if (connection.Outbound.SendHead is null) throw _engine.Violation("A send was started with nothing queued.");
        slot.IsSending = true;
        connection.Outbound.BeginSending();
        Push(connection, connection.Slot);
    }

    private void Push(Connection connection, int index)
    {
        MemorySocket socket = _slots[index].Socket!;
        if (Chance(Faults.SendError)) socket.Reset();
        // An empty block, from room that was reserved and given back, ends the send; the next flush drops it.
        while (connection.Outbound.SendHead is { Length: > 0 } head)
        {
            int length = head.Length;
            if (length > 1 && Chance(Faults.WouldBlock)) length = _engine.Random.Next(1, length);
            int count = socket.Write(new ReadOnlySpan<byte>(head.Memory + head.Start, length));
            Counters.Sends++;
            _engine.Trace.Add("send", socket.Id, count);
            if (count < 0)
            {
                _slots[index].IsSending = false;
                connection.Outbound.FailSend(Errno.EPIPE);
                return;
            }

            if (count > 0) connection.Outbound.AdvanceSend(count);
            if (count < length || Chance(Faults.WouldBlock)) return;
        }

        _slots[index].IsSending = false;
        connection.Outbound.CompleteSend();
    }

    internal override int TrySend(Connection connection, ReadOnlySpan<IoVector> pieces)
    {
        ref Slot slot = ref Open(connection);
        if (slot.IsSending) throw _engine.Violation("A second send was started.");
        int sent = 0;
        foreach (IoVector piece in pieces)
        {
            int length = (int)piece.Length;
            if (Chance(Faults.WouldBlock)) length = _engine.Random.Next(length);
            int count = slot.Socket!.Write(new ReadOnlySpan<byte>(piece.Base, length));
            Counters.Sends++;
            if (count < 0) return sent > 0 ? sent : -Errno.EPIPE;
            sent += count;
            if (count < (int)piece.Length) break;
        }

        return sent;
    }

    internal override void ShutdownSend(Connection connection)
    {
        ref Slot slot = ref Open(connection);
        if (slot.IsSending) throw _engine.Violation("FIN before the queue was sent.");
        _engine.Trace.Add("fin", slot.Socket!.Id, 0);
        slot.Socket.ShutdownSend();
    }

    // ------------------------------------------------------------------ checks

    private ref Slot Open(Resident resident)
    {
        CheckThread();
        if (resident.Slot < 0 || !_slots[resident.Slot].IsAttached)
            throw _engine.Violation("A verb came after the end.");
        if (_slots[resident.Slot].IsClosing) throw _engine.Violation("A verb came after Detach.");
        return ref _slots[resident.Slot];
    }

    private void CheckThread()
    {
        if (!IsCurrent) throw _engine.Violation("A verb was called off the loop's thread.");
    }
}
