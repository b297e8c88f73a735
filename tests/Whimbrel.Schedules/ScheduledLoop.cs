using Whimbrel.Connections;
using Whimbrel.Linux;

namespace Whimbrel.Schedules;

/// <summary>
/// A loop over <see cref="Wire"/>s: its wait blocks in the scheduler until it is woken or a wire is ready.
/// </summary>
// Safe: blocks are read only through the pointers and lengths of queued blocks, by the thread that owns them.
internal sealed unsafe class ScheduledLoop : Loop
{
    private readonly Dictionary<Resident, Wire> _wires = [];
    private bool _isWoken;

    internal ScheduledLoop(Engine engine, int index)
        : base(engine, index) => StrandsSend = true;

    private ScheduledEngine Scheduled => (ScheduledEngine)Engine;

    internal Listener? Listener { get; private set; }

    /// <summary>A system call of a strand runs.</summary>
    internal bool IsStrandSending { get; private set; }

    private protected override int Wait(long timeoutMs)
    {
        if (ControlledThread.Current is { } me)
        {
            if (timeoutMs != 0 && TrySleep()) me.BlockUntil(() => _isWoken || Any(), isIdle: true);
        }
        else
        {
            TrySleep();
        }

        _isWoken = false;
        Woke();
        int delivered = 0;
        foreach ((Resident resident, Wire wire) in _wires.ToArray())
        {
            if (!wire.IsReady) continue;
            delivered++;
            if (wire.IsSending) Push((Connection)resident, wire);
            else ((Connection)resident).CompleteReceive(wire.Incoming.Dequeue());
        }

        return delivered;
    }

    private bool Any()
    {
        foreach (Wire wire in _wires.Values)
        {
            if (wire.IsReady) return true;
        }

        return false;
    }

    private protected override void Wake() => _isWoken = true;

    private protected override void StartAttach(Resident resident)
    {
        if (resident is Listener listener)
        {
            Listener = listener;
            listener.CompleteAttach(0);
        }
        else
        {
            _wires[resident] = (Wire)((Connection)resident).AdoptedSocket.Handle!;
            ((Connection)resident).CompleteAttach(0);
        }
    }

    internal override void StartReceive(Resident resident) => Receive(resident, true);

    internal override void StopReceive(Resident resident) => Receive(resident, false);

    private void Receive(Resident resident, bool isOn)
    {
        if (_wires.TryGetValue(resident, out Wire? wire)) wire.IsReceiving = isOn;
    }

    internal override void StartSend(Connection connection, bool isOffer)
    {
        if (isOffer && connection.Outbound.IsSendInFlight) return;
        connection.Outbound.BeginSending();
        if (IsStrandSending) throw Scheduled.Violates("the loop sends while a callback sends");
        Wire wire = _wires[connection];
        wire.IsSending = true;
        Push(connection, wire);
    }

    private static void Push(Connection connection, Wire wire)
    {
        while (connection.Outbound.SendHead is { Length: > 0 } head)
        {
            int count = wire.Write(new ReadOnlySpan<byte>(head.Memory + head.Start, head.Length));
            connection.Outbound.AdvanceSend(count);
            // The rest is accepted in the next turn.
            if (count == wire.Room) return;
        }

        wire.IsSending = false;
        connection.Outbound.CompleteSend();
    }

    internal override int TrySend(Connection connection, ReadOnlySpan<IoVector> pieces)
    {
        if (IsCurrent) return 0;
        IsStrandSending = true;
        int sent = 0;
        Wire wire = _wires[connection];
        for (int i = 0; i < pieces.Length && sent < wire.Room; i++)
        {
            ControlledThread.Point();
            ReadOnlySpan<byte> piece = new(pieces[i].Base, (int)pieces[i].Length);
            sent += wire.Write(piece[..Math.Min(piece.Length, wire.Room - sent)]);
        }

        IsStrandSending = false;
        return sent;
    }

    internal override void ShutdownSend(Connection connection) => _wires[connection].HasFin = true;

    private protected override void StartDetach(Resident resident)
    {
        if (_wires.Remove(resident, out Wire? wire))
        {
            if (IsStrandSending) throw Scheduled.Violates("the loop closes a socket while a callback sends");
            wire.IsClosed = true;
        }

        FreeSlot(resident);
        resident.CompleteClose();
    }

    internal override RawSocket Release(Resident resident) => throw new NotSupportedException();

    internal override void Discard(RawSocket socket) => ((Wire)socket.Handle!).IsClosed = true;

    private protected override void OpenQueue()
    {
        // The wires are the queue.
    }

    private protected override void CloseQueue()
    {
        if (_wires.Count > 0) throw Scheduled.Violates("the loop ended with a connection");
    }
}
