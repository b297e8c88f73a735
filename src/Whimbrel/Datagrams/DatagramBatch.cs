using System.Buffers.Binary;
using System.Diagnostics;
using System.Runtime.InteropServices;
using Whimbrel.Engines;
using Whimbrel.Linux;

namespace Whimbrel.Datagrams;

/// <summary>Reason why a batch of sends ended.</summary>
internal enum BatchEnd
{
    /// <summary>The queue is empty.</summary>
    Empty,

    /// <summary>The share of this turn was sent.</summary>
    Share,

    /// <summary>The kernel accepts no more for now.</summary>
    WouldBlock,
}

/// <summary>
/// Receives and sends datagrams with recvmmsg and sendmmsg, for the Linux engines: many in one call. Runs of one size
/// to one peer are sent as one segmented message, and coalesced ones are split again. The memory of one loop, shared by
/// all its datagram sockets; no data outlives a call.
/// </summary>
// Safe: every pointer is memory of this object or of a queued datagram, and no system call keeps one.
internal sealed unsafe class DatagramBatch
{
    private const int Messages = 64;
    private const int ReceiveBytes = 64 * 1024;

    /// <summary>Not a power of two, because buffers at the same cache index would evict each other.</summary>
    private const int ReceiveStride = ReceiveBytes + (3 * 64);
    private const int NameBytes = SocketAbi.MaxAddressBytes;
    private const int ControlBytes = 64;
    private const int ErrorControlBytes = 256;
    private const int ErrorsPerTurn = 64;

    /// <summary>Number of datagrams that one socket may send before other sockets get their turn.</summary>
    private const int SendShare = 1024;

    private readonly LoopTally _counters;
    private readonly int _heldBytes;
    private readonly UnixNames _names = new();
    private readonly int[] _entries = new int[Messages]; // datagrams in each message
    private byte* _memory;
    private byte* _buffers;
    private MultiMessage* _receives;
    private MultiMessage* _sends;
    private byte* _receiveNames;
    private byte* _receiveControls;
    private byte* _sendNames;
    private byte* _sendControls;
    private nuint _room; // receive buffer size of each message
    private int _used; // messages that the last call has overwritten

    /// <param name="counters">Counters of its loop, which include its memory until <see cref="Free"/>.</param>
    internal DatagramBatch(LoopTally counters)
    {
        int headers = 2 * Messages * (sizeof(MultiMessage) + sizeof(IoVector) + NameBytes + ControlBytes);
        _counters = counters;
        _heldBytes = headers + (Messages * ReceiveStride);
        _counters.EngineBytes += _heldBytes;
        _memory = (byte*)NativeMemory.AlignedAlloc((nuint)headers, 64);
        NativeMemory.Clear(_memory, (nuint)headers);
        byte* at = _memory;
        _receives = (MultiMessage*)at;
        at += Messages * sizeof(MultiMessage);
        _sends = (MultiMessage*)at;
        at += Messages * sizeof(MultiMessage);
        IoVector* vectors = (IoVector*)at;
        at += 2 * Messages * sizeof(IoVector);
        _receiveNames = at;
        at += Messages * NameBytes;
        _sendNames = at;
        at += Messages * NameBytes;
        _receiveControls = at;
        at += Messages * ControlBytes;
        _sendControls = at;
        _buffers = (byte*)NativeMemory.AlignedAlloc(Messages * ReceiveStride, 4096);
        for (int i = 0; i < Messages; i++)
        {
            vectors[i].Base = _buffers + (i * ReceiveStride);
            _receives[i].Header.Name = _receiveNames + (i * NameBytes);
            _receives[i].Header.Vectors = vectors + i;
            _receives[i].Header.VectorCount = 1;
            _receives[i].Header.Control = _receiveControls + (i * ControlBytes);
            _sends[i].Header.Vectors = vectors + Messages + i;
            _sends[i].Header.VectorCount = 1;
        }
    }

    internal void Free()
    {
        NativeMemory.AlignedFree(_memory);
        NativeMemory.AlignedFree(_buffers);
        _memory = _buffers = null;
        _counters.EngineBytes -= _heldBytes;
    }

    // ------------------------------------------------------------------ receive

    /// <summary>
    /// Makes one call and completes the socket's receives. Returns false if the kernel has no memory for it now.
    /// </summary>
    internal bool TryReceive(int fd, DatagramResident resident)
    {
        // Coalesced datagrams arrive as one, however small the limit of each is.
        nuint room = (nuint)(resident.CanCoalesce ? ReceiveBytes : Math.Min(resident.ReceiveLimitBytes, ReceiveBytes));
        Reset(room);
        int count = Syscall.ReceiveMessages(fd, _receives, Messages,
            SocketAbi.MSG_DONTWAIT | DatagramAbi.MSG_TRUNC, null);
        if (count < 0)
        {
            int error = Syscall.LastError;
            if (error is Errno.EAGAIN or Errno.EINTR) return true;
            // With an error queue, this error only announces its entries.
            if (!resident.HasErrorQueue) resident.NoteReceiveError(error);
            return error is not (Errno.ENOMEM or Errno.ENOBUFS);
        }

        _used = count;
        for (int i = 0; i < count; i++) Deliver(ref _receives[i], resident, (int)room);
        resident.ReceiveBatchEnded();
        resident.Queue.EndLoan();
        PoisonAll();
        return true;
    }

    /// <summary>Poisons the buffers after the loan, because queued answers may lie there until then.</summary>
    [Conditional("DEBUG")]
    private void PoisonAll()
    {
        for (int i = 0; i < _used; i++)
            Loop.PoisonReceived(new Span<byte>(_receives[i].Header.Vectors->Base,
                (int)Math.Min(_receives[i].Length, (uint)_room)));
    }

    /// <summary>
    /// Resets the messages that the last call has overwritten; all of them if the buffer size has changed.
    /// </summary>
    private void Reset(nuint room)
    {
        int count = room == _room ? _used : Messages;
        _room = room;
        _used = 0;
        for (int i = 0; i < count; i++)
        {
            ref MessageHeader header = ref _receives[i].Header;
            header.Vectors->Length = room;
            header.NameLength = NameBytes;
            header.ControlLength = ControlBytes;
            header.Flags = 0;
        }
    }

    private void Deliver(ref MultiMessage message, DatagramResident resident, int room)
    {
        int length = (int)message.Length;
        byte* data = message.Header.Vectors->Base;
        DatagramPeer peer = DecodePeer(message.Header.Name, message.Header.NameLength);
        int segment = 0;
        if (message.Header.ControlLength >= (nuint)sizeof(ControlHeader))
            segment = ReadControl(ref message.Header, resident);
        if (segment <= 0 || length <= segment)
        {
            resident.CompleteReceive(new ReadOnlySpan<byte>(data, Math.Min(length, room)), length, in peer);
            return;
        }

        // Handlers often answer with the data they received: it is sent from this memory, or copied before the next
        // batch arrives. Single datagrams are copied, so that they are contiguous and leave as one segmented message.
        int joined = Math.Min(length, room);
        resident.Queue.Lend(data, joined);
        resident.CompleteReceives(new ReadOnlySpan<byte>(data, joined), length, segment, in peer);
        resident.Queue.Lend(null, 0);
    }

    /// <summary>Returns the size of coalesced datagrams, or 0. Records what the receive buffer has dropped.</summary>
    private static int ReadControl(ref MessageHeader header, DatagramResident resident)
    {
        int segment = 0;
        byte* at = (byte*)header.Control;
        byte* end = at + header.ControlLength;
        while (end - at >= sizeof(ControlHeader))
        {
            ControlHeader* control = (ControlHeader*)at;
            if (control->Length < (nuint)sizeof(ControlHeader)) break;
            if (control->Level == DatagramAbi.SOL_UDP && control->Type == DatagramAbi.UDP_GRO)
                segment = *(int*)(at + sizeof(ControlHeader));
            else if (control->Level == SocketAbi.SOL_SOCKET && control->Type == DatagramAbi.SO_RXQ_OVFL)
                resident.NoteOverflow(*(uint*)(at + sizeof(ControlHeader)));
            at += (nint)((control->Length + 7) & ~(nuint)7);
        }

        return segment;
    }

    private DatagramPeer DecodePeer(byte* name, uint length)
    {
        if (length < sizeof(ushort)) return default;
        switch (*(ushort*)name)
        {
            case SocketAbi.AF_INET:
                return DatagramPeer.V4(*(uint*)(name + 4), BinaryPrimitives.ReverseEndianness(*(ushort*)(name + 2)));
            case SocketAbi.AF_INET6:
                return DatagramPeer.V6(*(ulong*)(name + 8), *(ulong*)(name + 16),
                    BinaryPrimitives.ReverseEndianness(*(ushort*)(name + 2)), *(uint*)(name + 24));
            case SocketAbi.AF_UNIX when length > sizeof(ushort):
                ReadOnlySpan<byte> path = new(name + sizeof(ushort), (int)Math.Min(length, NameBytes) - sizeof(ushort));
                // An abstract name has all its bytes, a path ends at its zero byte.
                if (path[0] != 0 && path.IndexOf((byte)0) is >= 0 and int end) path = path[..end];
                return DatagramPeer.Unix(_names.Intern(path));
            default:
                return default;
        }
    }

    // ------------------------------------------------------------------ errors of the network

    /// <summary>Reads ICMP errors of sent datagrams, at most one turn's share.</summary>
    internal void ReadErrors(int fd, DatagramResident resident)
    {
        byte* control = stackalloc byte[ErrorControlBytes];
        byte* name = stackalloc byte[NameBytes];
        byte data;
        for (int i = 0; i < ErrorsPerTurn; i++)
        {
            IoVector vector = new() { Base = &data, Length = 1 };
            MessageHeader header = new()
            {
                Name = name,
                NameLength = NameBytes,
                Vectors = &vector,
                VectorCount = 1,
                Control = control,
                ControlLength = ErrorControlBytes
            };
            nint length = Syscall.ReceiveMessage(fd, &header,
                DatagramAbi.MSG_ERRQUEUE | SocketAbi.MSG_DONTWAIT | DatagramAbi.MSG_TRUNC);
            if (length < 0)
            {
                // The error of the socket itself only announces the queue: it is removed, otherwise it would be
                // reported repeatedly.
                int pending;
                uint size = sizeof(int);
                int rest = Syscall.GetSocketOption(fd, SocketAbi.SOL_SOCKET, SocketAbi.SO_ERROR, &pending, &size) == 0
                    ? pending
                    : 0;
                if (i == 0 && rest != 0 && !resident.HasErrorQueue) resident.NoteReceiveError(rest);
                return;
            }

            NoteError(ref header, resident, (int)length);
        }
    }

    private void NoteError(ref MessageHeader header, DatagramResident resident, int length)
    {
        byte* at = (byte*)header.Control;
        byte* end = at + header.ControlLength;
        while (end - at >= sizeof(ControlHeader))
        {
            ControlHeader* control = (ControlHeader*)at;
            if (control->Length < (nuint)sizeof(ControlHeader)) return;
            bool isError = (control->Level == SocketAbi.IPPROTO_IP && control->Type == DatagramAbi.IP_RECVERR)
                || (control->Level == SocketAbi.IPPROTO_IPV6 && control->Type == DatagramAbi.IPV6_RECVERR);
            if (isError)
            {
                ExtendedError* error = (ExtendedError*)(at + sizeof(ControlHeader));
                // Local errors were already returned by the send itself.
                if (error->Origin is DatagramAbi.SO_EE_ORIGIN_ICMP or DatagramAbi.SO_EE_ORIGIN_ICMP6)
                {
                    DatagramPeer peer =
                        header.NameLength > 0 ? DecodePeer(header.Name, header.NameLength) : resident.Remote;
                    resident.NotePeerError(in peer, (int)error->Number, length,
                        error->Number == Errno.EMSGSIZE ? (int)error->Details : 0);
                }

                return;
            }

            at += (nint)((control->Length + 7) & ~(nuint)7);
        }
    }

    // ------------------------------------------------------------------ send

    /// <summary>Sends from the head of the queue: whole datagrams, in order.</summary>
    internal BatchEnd Send(int fd, DatagramResident resident)
    {
        DatagramQueue queue = resident.Queue;
        int share = SendShare;
        bool wasRetried = false;
        while (queue.Count > 0)
        {
            if (share <= 0) return BatchEnd.Share;
            int built = Build(resident, queue);
            int sent = Syscall.SendMessages(fd, _sends, (uint)built, SocketAbi.MSG_NOSIGNAL | SocketAbi.MSG_DONTWAIT);
            if (sent > 0)
            {
                int datagrams = 0;
                for (int i = 0; i < sent; i++) datagrams += _entries[i];
                resident.AdvanceSend(datagrams, 1);
                share -= datagrams;
                wasRetried = false;
                continue;
            }

            int error = Syscall.LastError;
            if (error == Errno.EINTR) continue;
            if (error == Errno.EAGAIN) return BatchEnd.WouldBlock;
            // The error may belong to an earlier datagram, and was cleared by this call; so the send is tried again.
            if (!wasRetried)
            {
                wasRetried = true;
                if (!resident.HasErrorQueue && resident.IsConnected && !resident.RetriesByTimer
                    && error is Errno.ECONNREFUSED or Errno.EHOSTUNREACH or Errno.ENETUNREACH)
                    resident.NoteReceiveError(error);
                continue;
            }

            wasRetried = false;
            if (_entries[0] > 1 && error is Errno.EINVAL or Errno.EMSGSIZE or Errno.EIO or Errno.EOPNOTSUPP)
            {
                // The segments are larger than the path accepts in one piece, or the device cannot segment: datagrams
                // of this size are sent one by one from now on.
                resident.SegmentLimit = error is Errno.EINVAL or Errno.EMSGSIZE ? queue[0].Length - 1 : 0;
                continue;
            }

            for (int i = _entries[0]; i > 0; i--, share--) resident.FailSend(error);
        }

        return BatchEnd.Empty;
    }

    /// <summary>Fills the messages with as much of the queue as fits. Returns their number.</summary>
    private int Build(DatagramResident resident, DatagramQueue queue)
    {
        int count = 0;
        int next = 0;
        int offset = 0; // within a kept run that cannot be sent as one
        while (count < Messages && next < queue.EntryCount)
        {
            ref QueuedDatagram first = ref queue[next];
            ref MultiMessage message = ref _sends[count];
            int left = first.TotalBytes - offset;
            int size = Math.Min(first.Length, left);
            message.Header.Vectors->Base = first.Data + offset;
            message.Header.Name = null;
            message.Header.NameLength = 0;
            if (!first.Peer.IsNone && (!resident.IsConnected || first.Peer != resident.Remote))
            {
                message.Header.Name = _sendNames + (count * NameBytes);
                message.Header.NameLength = Encode(in first.Peer, resident.IsV6, message.Header.Name);
            }

            int bytes = size;
            int run = 1;
            // Port 0, which a forged sender may use, is always rejected, and that error must not be taken for a size
            // error. For members on this machine a run is split again for each of them, which costs more than it saves
            // (measured: twice, with 100).
            bool isAlone = (first.Peer.Port == 0 && !first.Peer.IsNone)
                || (first.Peer.IsMulticast && resident.HasMulticastLoopback);
            if (size <= resident.SegmentLimit && size > 0 && !isAlone)
            {
                if (first.Count == 1) run = RunAt(queue, next, out bytes);
                else if (offset == 0) (run, bytes) = (first.Count, left);
            }

            message.Header.Vectors->Length = (nuint)bytes;
            if (run == 1)
            {
                message.Header.Control = null;
                message.Header.ControlLength = 0;
            }
            else
            {
                WriteSegment(ref message.Header, count, size);
            }

            _entries[count++] = run;
            offset += bytes;
            if (first.Count > 1 && offset < first.TotalBytes) continue;
            next += first.Count > 1 ? 1 : run;
            offset = 0;
        }

        return count;
    }

    /// <summary>
    /// Returns the number of entries from there on that are for one peer, of one size except the last, and contiguous.
    /// </summary>
    private static int RunAt(DatagramQueue queue, int start, out int bytes)
    {
        ref QueuedDatagram first = ref queue[start];
        int size = bytes = first.Length;
        byte* end = first.Data + size;
        int most = Math.Min(queue.EntryCount - start, DatagramAbi.MaxSegments);
        int run = 1;
        while (run < most)
        {
            ref QueuedDatagram next = ref queue[start + run];
            if (next.Data != end || next.Count > 1 || next.Length > size || next.Length == 0
                || bytes + next.Length > DatagramQueue.MaxDatagramBytes || next.Peer != first.Peer)
                break;
            bytes += next.Length;
            end += next.Length;
            run++;
            if (next.Length < size) break;
        }

        return run;
    }

    private void WriteSegment(ref MessageHeader header, int index, int size)
    {
        byte* at = _sendControls + (index * ControlBytes);
        ControlHeader* control = (ControlHeader*)at;
        control->Length = (nuint)(sizeof(ControlHeader) + sizeof(ushort));
        control->Level = DatagramAbi.SOL_UDP;
        control->Type = DatagramAbi.UDP_SEGMENT;
        *(ushort*)(at + sizeof(ControlHeader)) = (ushort)size;
        header.Control = at;
        header.ControlLength = (nuint)(sizeof(ControlHeader) + 8);
    }

    // ------------------------------------------------------------------ addresses

    /// <summary>
    /// Writes the kernel address of a peer, IPv4-mapped for an IPv6 socket. Returns the number of bytes.
    /// </summary>
    // Safe: `target` has room for SocketAbi.MaxAddressBytes, more than any branch writes.
    internal static uint Encode(in DatagramPeer peer, bool isV6, byte* target)
    {
        ushort port = System.Buffers.Binary.BinaryPrimitives.ReverseEndianness((ushort)peer.Port);
        if (peer.IsV4 && !isV6)
        {
            *(ulong*)target = SocketAbi.AF_INET | ((ulong)port << 16) | ((ulong)peer.V4Bytes << 32);
            *(ulong*)(target + 8) = 0;
            return 16;
        }

        if (peer.IsV4 || peer.IsV6)
        {
            *(ulong*)target = SocketAbi.AF_INET6 | ((ulong)port << 16);
            *(ulong*)(target + 8) = peer.IsV4 ? 0 : peer.HighBytes;
            *(ulong*)(target + 16) = peer.IsV4 ? 0xFFFF0000UL | ((ulong)peer.V4Bytes << 32) : peer.LowBytes;
            *(uint*)(target + 24) = (uint)peer.ScopeId;
            return 28;
        }

        ReadOnlySpan<byte> name = peer.Name is { } unix ? unix.Bytes : default;
        if (name.Length > SocketAbi.MaxUnixPathBytes) name = name[..SocketAbi.MaxUnixPathBytes];
        *(ushort*)target = SocketAbi.AF_UNIX;
        name.CopyTo(new Span<byte>(target + 2, SocketAbi.MaxUnixPathBytes));
        target[2 + name.Length] = 0;
        // A path ends with a zero byte, an abstract name with its length.
        return (uint)(2 + name.Length + (name.Length > 0 && name[0] == 0 ? 0 : 1));
    }
}
