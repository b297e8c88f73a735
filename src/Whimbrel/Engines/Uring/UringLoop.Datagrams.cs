using Whimbrel.Connections;
using Whimbrel.Datagrams;
using Whimbrel.Linux;

namespace Whimbrel.Engines.Uring;

/// <summary>
/// Datagrams on io_uring: the ring reports when a socket is ready, and one direct call receives or sends many. A ring
/// operation for each datagram was measured as more expensive than recvmmsg and sendmmsg, and it cannot join or split
/// runs (docs/design/0018-datagrams.md).
/// </summary>
// Safe: no pointer is used here; DatagramBatch gives the reason for its own pointers.
internal sealed unsafe partial class UringLoop
{
    /// <summary>Created for the first datagram socket of this loop.</summary>
    private DatagramBatch? _datagrams;

    /// <summary>
    /// Pushes a one-shot poll. Pushed again after each batch, so that remaining datagrams are reported again.
    /// </summary>
    private void ArmReady(DatagramResident socket)
    {
        if ((_slots[socket.Slot].Has & OperationSet.DatagramsReady) == 0)
            PushPoll(socket, EpollAbi.EPOLLIN, RingOperation.DatagramsReady);
    }

    private void ArmWritable(DatagramResident socket)
    {
        if ((_slots[socket.Slot].Has & OperationSet.DatagramsWritable) == 0)
            PushPoll(socket, EpollAbi.EPOLLOUT, RingOperation.DatagramsWritable);
    }

    private void DeliverDatagrams(DatagramResident socket, int slot, RingOperation operation, int result)
    {
        if (_slots[slot].IsDetaching) return;
        uint generation = socket.SlotGeneration;
        int fd = _slots[slot].Fd;
        if (result > 0 && (result & (int)EpollAbi.EPOLLERR) != 0) _datagrams!.ReadErrors(fd, socket);
        if (operation == RingOperation.DatagramsWritable)
        {
            if (socket.IsSendInFlight) SendDatagrams(socket);
            return;
        }

        if (_slots[slot].IsWanted && !_datagrams!.TryReceive(fd, socket))
        {
            RestReceive(socket);
            return;
        }

        if (socket.Slot == slot && socket.SlotGeneration == generation && _slots[slot].IsWanted
            && !_slots[slot].IsDetaching)
            ArmReady(socket);
    }

    void IDatagramEngine.StartSend(DatagramResident socket) => SendDatagrams(socket);

    private void SendDatagrams(DatagramResident socket)
    {
        Counters.Sends++;
        if (_datagrams!.Send(_slots[socket.Slot].Fd, socket) != BatchEnd.WouldBlock) socket.CompleteSend();
        else if (socket.RetriesByTimer) socket.RetrySend();
        else ArmWritable(socket);
    }

    int IDatagramEngine.ChangeMembership(DatagramResident socket, GroupMembership membership, bool joins) =>
        membership.Change(new RawSocket(_slots[socket.Slot].Fd, null), joins);

    private void FreeDatagrams()
    {
        _datagrams?.Free();
        _datagrams = null;
    }
}
