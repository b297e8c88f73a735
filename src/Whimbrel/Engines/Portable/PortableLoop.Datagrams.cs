using System.Net.Sockets;
using Whimbrel.Connections;
using Whimbrel.Datagrams;
using Whimbrel.Linux;

namespace Whimbrel.Engines.Portable;

/// <summary>
/// Datagrams with one call each, because the framework has no batches. One receive and at most one send are in flight;
/// calls that can complete at once do.
/// </summary>
// Safe: no pointer is used here; PortableDatagrams.BeginSend explains the one that outlives a call.
internal sealed unsafe partial class PortableLoop
{
    private const int DatagramsPerTurn = 64;
    private const int SendsPerTurn = 256;

    private void AttachDatagrams(DatagramResident resident)
    {
        Socket? socket;
        try
        {
            socket = resident.OpenSocket();
        }
        catch (Exception e) when (ErrorOf(e, resident.EndPoint) != 0)
        {
            FreeSlot(resident);
            resident.CompleteAttach(ErrorOf(e, resident.EndPoint));
            return;
        }

        if (socket is null)
        {
            FreeSlot(resident);
            resident.CompleteAttach(SocketFactory.NumberOf(resident.Fault));
            return;
        }

        PortableDatagrams datagrams = new(socket, resident.IsV6, _completions);
        ref PortableSlot slot = ref _slots[resident.Slot];
        slot.Socket = socket;
        slot.Datagrams = datagrams;
        slot.Operation = datagrams.Receiving;
        resident.BeginSharing(new RawSocket(0, socket));
        resident.CompleteAttach(0);
    }

    /// <summary>Starts receiving in the next round of the loop, because no verb calls a handler.</summary>
    private void ReceiveDatagrams(DatagramResident resident)
    {
        ref PortableSlot slot = ref _slots[resident.Slot];
        PortableOperation operation = slot.Datagrams!.Receiving;
        slot.IsReading = true;
        operation.ReadsOn = true;
        Begin(operation, resident);
        AddReady(operation);
    }

    private void DeliverDatagrams(DatagramResident resident, PortableOperation operation)
    {
        PortableDatagrams datagrams = _slots[resident.Slot].Datagrams!;
        if (ReferenceEquals(operation, datagrams.Sending))
        {
            resident.InFlightHeads = 0;
            Sent(resident, datagrams.EndSend());
            SendDatagrams(resident);
            return;
        }

        int slot = resident.Slot;
        uint generation = resident.SlotGeneration;
        bool isThere = !operation.ReadsOn;
        operation.ReadsOn = false;
        int received = 0;
        for (int budget = DatagramsPerTurn; budget > 0; budget--)
        {
            // While the socket is paused, a datagram that was already received is delivered, and no further one is
            // received.
            if (!isThere)
            {
                if (!_slots[slot].IsWanted) break;
                Begin(operation, resident);
                if (!datagrams.BeginReceive())
                {
                    if (received > 0) resident.ReceiveBatchEnded();
                    return;
                }

                _slots[slot].Running--;
            }

            isThere = false;
            // The framework passes no control data, from which the other engines get this number: Linux is queried once
            // for each batch.
            if (received == 0) resident.NoteOverflow(datagrams.CountOverflow());
            if (Receive(resident, datagrams)) received++;
            if (!IsAttached(resident, slot, generation)) return;
        }

        _slots[slot].IsReading = false;
        if (received > 0) resident.ReceiveBatchEnded();
        if (IsAttached(resident, slot, generation) && _slots[slot].IsWanted && !_slots[slot].IsReading)
            ReceiveDatagrams(resident);
    }

    private static bool Receive(DatagramResident resident, PortableDatagrams datagrams)
    {
        int count = datagrams.EndReceive(out DatagramPeer peer);
        if (count < 0)
        {
            // On an unconnected socket the error belongs to an unknown earlier send.
            if (resident.IsConnected) resident.NoteReceiveError(-count);
            return false;
        }

        resident.CompleteReceive(datagrams.Buffer.AsSpan(0, count), count, in peer);
        Poison(datagrams.Buffer.AsSpan(0, count));
        return true;
    }

    void IDatagramEngine.StartSend(DatagramResident socket) => SendDatagrams(socket);

    private void SendDatagrams(DatagramResident resident)
    {
        PortableDatagrams datagrams = _slots[resident.Slot].Datagrams!;
        for (int budget = SendsPerTurn; budget > 0 && resident.Queue.Count > 0; budget--)
        {
            ref QueuedDatagram head = ref resident.Queue[0];
            if (datagrams.Check(in head.Peer, resident.IsConnected) is not 0 and int mistake)
            {
                resident.FailSend(mistake);
                continue;
            }

            Counters.Sends++;
            if (!datagrams.BeginSend(resident, ref head))
            {
                resident.InFlightHeads = 1;
                Begin(datagrams.Sending, resident);
                return;
            }

            Sent(resident, datagrams.EndSend());
        }

        resident.CompleteSend();
    }

    private static void Sent(DatagramResident resident, int error)
    {
        if (error == 0)
        {
            resident.AdvanceSend(1, 1);
            return;
        }

        // A connected socket reports an error of an earlier datagram here; this one has not been sent.
        if (resident.IsConnected && error is Errno.ECONNREFUSED or Errno.ECONNRESET) resident.NoteReceiveError(error);
        else resident.FailSend(error);
    }

    int IDatagramEngine.ChangeMembership(DatagramResident socket, GroupMembership membership, bool joins) =>
        membership.Change(new RawSocket(0, _slots[socket.Slot].Socket), joins);
}
