using Whimbrel.Connections;
using Whimbrel.Datagrams;
using Whimbrel.Linux;

namespace Whimbrel.Engines.Epoll;

/// <summary>
/// Datagrams on epoll: one batch per event. Sends are tried at once, and EPOLLOUT is registered only while the socket
/// is full.
/// </summary>
// Safe: no pointer is used here; DatagramBatch gives the reason for its own pointers.
internal sealed unsafe partial class EpollLoop
{
    /// <summary>Created for the first datagram socket of this loop.</summary>
    private DatagramBatch? _datagrams;

    private void DeliverDatagrams(DatagramResident socket, uint mask, int slot, uint generation)
    {
        int fd = _slots[slot].Fd;
        if ((mask & EpollAbi.EPOLLERR) != 0) _datagrams!.ReadErrors(fd, socket);
        if ((mask & EpollAbi.EPOLLOUT) != 0)
        {
            SetWanted(slot, _slots[slot].Wanted & ~EpollAbi.EPOLLOUT);
            if (socket.IsSendInFlight) SendDatagrams(socket);
        }

        if ((mask & EpollAbi.EPOLLIN) != 0 && (_slots[slot].Wanted & EpollAbi.EPOLLIN) != 0
            && !_datagrams!.TryReceive(fd, socket))
            RestReceive(socket);
        // The handler may have ended the socket, and the slot may already have a new owner.
        if (socket.Slot == slot && socket.SlotGeneration == generation) Apply(slot, socket);
    }

    void IDatagramEngine.StartSend(DatagramResident socket)
    {
        int slot = socket.Slot;
        SendDatagrams(socket);
        Apply(slot, socket);
    }

    private void SendDatagrams(DatagramResident socket)
    {
        int slot = socket.Slot;
        Counters.Sends++;
        if (_datagrams!.Send(_slots[slot].Fd, socket) != BatchEnd.WouldBlock) socket.CompleteSend();
        else if (socket.RetriesByTimer) socket.RetrySend();
        else SetWanted(slot, _slots[slot].Wanted | EpollAbi.EPOLLOUT);
    }

    int IDatagramEngine.ChangeMembership(DatagramResident socket, GroupMembership membership, bool joins) =>
        membership.Change(new RawSocket(_slots[socket.Slot].Fd, null), joins);
}
