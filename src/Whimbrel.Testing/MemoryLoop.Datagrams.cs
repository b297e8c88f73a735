using System.Net;
using Whimbrel.Connections;
using Whimbrel.Datagrams;
using Whimbrel.Linux;

namespace Whimbrel.Testing;

/// <summary>Datagrams on the memory network: batches of a size that the seed chooses.</summary>
// Safe: a queued datagram is read only through its own pointer and length, on the thread that owns it.
internal sealed unsafe partial class MemoryLoop
{
    private const int MaxBatch = 16;
    private const int MaxGroups = 20;

    private void AttachDatagrams(DatagramResident resident)
    {
        LoopSocket user = (LoopSocket)resident;
        DatagramOptions options = user.Options;
        bool joins = user.Sharing == PortSharing.Joins || options.ReusePort;
        EndPoint? bound = Datagrams.Resolve(resident.EndPoint, joins, options.ReuseAddress);
        if (bound is null)
        {
            Free(resident);
            resident.CompleteAttach(Errno.EADDRINUSE);
            return;
        }

        MemoryDatagramSocket socket = new(Datagrams.NextId(), bound,
            user.Sharing != PortSharing.None || options.ReusePort, options.ReuseAddress)
        {
            Remote = resident.Remote,
            IsBroadcaster = options.Broadcast,
            HearsErrors = options.ReportPeerErrors || resident.IsConnected,
            HasLoopback = options.MulticastLoopback,
            TakesAllGroups = options.AllGroups,
            Interface = user.MulticastInterfaceIndex,
            Steering = options.Steering,
        };
        Datagrams.Add(socket);
        _slots[resident.Slot].Datagrams = socket;
        resident.EndPoint = bound;
        resident.HasErrorQueue = true;
        resident.CompleteAttach(0);
    }

    private bool IsReady(ref Slot slot, MemoryDatagramSocket socket) =>
        socket.Errors.Count > 0 || slot.IsSending || (slot.IsReceiving && Datagrams.IsReadable(socket));

    private void DeliverDatagrams(DatagramResident resident, int index)
    {
        uint generation = resident.SlotGeneration;
        MemoryDatagramSocket socket = _slots[index].Datagrams!;
        while (socket.Errors.TryDequeue(out (DatagramPeer Peer, int Error, int Length) error))
            resident.NotePeerError(error.Peer, error.Error, error.Length, 0);
        if (_slots[index].IsSending)
        {
            Push(resident, index);
            if (resident.Slot != index || resident.SlotGeneration != generation || _slots[index].IsClosing) return;
        }

        if (!_slots[index].IsReceiving || !Datagrams.IsReadable(socket)) return;
        int count = Math.Min(socket.Waiting.Count, Faults.Split > 0 ? _engine.Random.Next(1, MaxBatch + 1) : MaxBatch);
        if (socket.Dropped > 0) resident.NoteOverflow(socket.Dropped);
        for (int i = 0; i < count; i++)
        {
            (byte[] data, DatagramPeer from) = MemoryDatagrams.Take(socket);
            _engine.Trace.Add("datagram", socket.Id, data.Length);
            int room = Math.Min(data.Length, resident.ReceiveLimitBytes);
            resident.CompleteReceive(data.AsSpan(0, room), data.Length, in from);
            // Overwritten, so that code that kept the span reads invalid data.
            data.AsSpan().Fill(0xDD);
        }

        resident.ReceiveBatchEnded();
    }

    void IDatagramEngine.StartSend(DatagramResident socket)
    {
        ref Slot slot = ref Open(socket);
        if (slot.IsSending && !socket.RetriesByTimer) throw _engine.Violation("A second send was started.");
        if (socket.Queue.Count == 0) throw _engine.Violation("A send was started with nothing queued.");
        slot.IsSending = true;
        Push(socket, socket.Slot);
    }

    private void Push(DatagramResident resident, int index)
    {
        MemoryDatagramSocket socket = _slots[index].Datagrams!;
        while (resident.Queue.Count > 0)
        {
            // Tried again later, as a full socket would be.
            if (Chance(Faults.WouldBlock)) return;
            ref QueuedDatagram head = ref resident.Queue[0];
            DatagramPeer to = head.Peer.IsNone ? resident.Remote : head.Peer;
            int error = Chance(Faults.SendError) ? Errno.ENOBUFS : Datagrams.Send(socket,
                MemoryDatagrams.SenderOf(socket.EndPoint, to), new ReadOnlySpan<byte>(head.Data, head.Length), to);
            _engine.Trace.Add("send-datagram", socket.Id, error == 0 ? head.Length : -error);
            if (error == Errno.EAGAIN)
            {
                _slots[index].IsSending = false;
                resident.RetrySend();
                return;
            }

            if (error == 0) resident.AdvanceSend(1, 1);
            else resident.FailSend(error);
        }

        _slots[index].IsSending = false;
        resident.CompleteSend();
    }

    int IDatagramEngine.ChangeMembership(DatagramResident socket, GroupMembership membership, bool joins)
    {
        MemoryDatagramSocket memory = Open(socket).Datagrams!;
        if (!joins)
        {
            memory.Groups.Remove(membership);
            return 0;
        }

        // The system's limit, for IPv4 as on Linux.
        if (memory.Groups.Count >= MaxGroups
            && membership.Group.AddressFamily == System.Net.Sockets.AddressFamily.InterNetwork)
            return Errno.ENOBUFS;
        memory.Groups.Add(membership);
        return 0;
    }
}
