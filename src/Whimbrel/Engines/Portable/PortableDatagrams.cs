using System.Buffers.Binary;
using System.Diagnostics.CodeAnalysis;
using System.Net;
using System.Net.Sockets;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using Whimbrel.Connections;
using Whimbrel.Datagrams;
using Whimbrel.Diagnostics;
using Whimbrel.Linux;

namespace Whimbrel.Engines.Portable;

/// <summary>
/// One datagram socket of the portable engine: its receive buffer, addresses, and the two calls that may be in flight. Calls are
/// tried at once by the framework; a completion on another thread only enters the loop's list. The loop's thread.
/// </summary>
[SuppressMessage("Design", "CA1001", Justification = "What it has of native memory belongs to queued datagrams.")]
[SuppressMessage("Reliability", "CA2012", Justification = "Each task is consumed once, by its awaiter, in the End call.")]
internal sealed class PortableDatagrams
{
    private const int IpBytes = 64 * 1024;

    /// <summary>Unix datagrams may be as large as the sender's buffer; the usual ones are below this.</summary>
    private const int UnixBytes = 256 * 1024;

    private readonly Socket _socket;
    private readonly bool _isV6;
    private readonly bool _isUnix;
    private readonly byte[] _buffer;
    private readonly SocketAddress _from;
    private readonly SocketAddress _to;
    private readonly UnixNames _names = new();
    private readonly Dictionary<UnixName, SocketAddress> _unixTargets = [];
    private readonly BlockMemory _block = new();
    private readonly Action _receiveDone;
    private readonly Action _sendDone;
    private ConfiguredValueTaskAwaitable<int>.ConfiguredValueTaskAwaiter _receive;
    private ConfiguredValueTaskAwaitable<int>.ConfiguredValueTaskAwaiter _send;

    internal PortableDatagrams(Socket socket, bool isV6, CompletionQueue completions)
    {
        _socket = socket;
        _isV6 = isV6;
        _isUnix = socket.AddressFamily == AddressFamily.Unix;
        _buffer = GC.AllocateUninitializedArray<byte>(_isUnix ? UnixBytes : IpBytes, pinned: true);
        int addressBytes = SocketAddress.GetMaximumAddressSize(socket.AddressFamily);
        _from = new SocketAddress(socket.AddressFamily, addressBytes);
        _to = _isUnix ? _from : new SocketAddress(socket.AddressFamily, isV6 ? 28 : 16);
        Receiving = new PortableOperation(completions, OperationKind.Datagrams);
        Sending = new PortableOperation(completions, OperationKind.Datagrams);
        _receiveDone = () => completions.Push(Receiving);
        _sendDone = () => completions.Push(Sending);
    }

    /// <summary>Stands for the receive in the loop's lists.</summary>
    internal PortableOperation Receiving { get; }

    /// <summary>Stands for the send in the loop's lists.</summary>
    internal PortableOperation Sending { get; }

    internal byte[] Buffer => _buffer;

    // ------------------------------------------------------------------ receive

    /// <summary>True when something is there already: take it with <see cref="EndReceive"/>. Else <see cref="Receiving"/> enters the list when it is.</summary>
    internal bool BeginReceive()
    {
        _from.Size = SocketAddress.GetMaximumAddressSize(_socket.AddressFamily);
        _receive = _socket.ReceiveFromAsync(_buffer, SocketFlags.None, _from).ConfigureAwait(false).GetAwaiter();
        if (_receive.IsCompleted) return true;
        _receive.UnsafeOnCompleted(_receiveDone);
        return false;
    }

    /// <summary>Bytes in <see cref="Buffer"/>, or minus an error number.</summary>
    internal int EndReceive(out DatagramPeer peer)
    {
        peer = default;
        try
        {
            int count = _receive.GetResult();
            peer = Decode();
            return count;
        }
        catch (SocketException e)
        {
            return -ErrorText.ErrnoOf(e.SocketErrorCode);
        }
    }

    /// <summary>What the receive buffer has had no room for since the socket was made: 32 bits that go round. 0 where the system does not tell.</summary>
    internal uint CountOverflow()
    {
        if (!KernelProbe.IsLinux || _isUnix) return 0;
        Span<uint> numbers = stackalloc uint[DatagramAbi.MeminfoCount];
        numbers.Clear();
        _ = SocketOptions.GetRaw(new RawSocket(0, _socket), SocketAbi.SOL_SOCKET, DatagramAbi.SO_MEMINFO, MemoryMarshal.AsBytes(numbers));
        return numbers[DatagramAbi.MeminfoDrops];
    }

    private DatagramPeer Decode()
    {
        ReadOnlySpan<byte> bytes = _from.Buffer.Span[.._from.Size];
        switch (_from.Family)
        {
            case AddressFamily.InterNetwork when bytes.Length >= 8:
                return DatagramPeer.V4(MemoryMarshal.Read<uint>(bytes[4..]), BinaryPrimitives.ReadUInt16BigEndian(bytes[2..]));
            case AddressFamily.InterNetworkV6 when bytes.Length >= 28:
                return DatagramPeer.V6(MemoryMarshal.Read<ulong>(bytes[8..]), MemoryMarshal.Read<ulong>(bytes[16..]), BinaryPrimitives.ReadUInt16BigEndian(bytes[2..]), MemoryMarshal.Read<uint>(bytes[24..]));
            case AddressFamily.Unix when bytes.Length > 2:
                ReadOnlySpan<byte> path = bytes[2..];
                if (path[0] != 0 && path.IndexOf((byte)0) is >= 0 and int end) path = path[..end];
                return path.TrimEnd((byte)0).IsEmpty ? default : DatagramPeer.Unix(_names.Intern(path));
            default:
                return default;
        }
    }

    // ------------------------------------------------------------------ send

    /// <summary>True when it is done already: see <see cref="EndSend"/>. Else the bytes must stay until <see cref="Sending"/> enters the list.</summary>
    // Safe: the resident keeps the entry, and so its bytes, while it is marked as in flight.
    internal unsafe bool BeginSend(DatagramResident resident, ref QueuedDatagram datagram)
    {
        Memory<byte> bytes = _block.Over(datagram.Data, datagram.Length);
        ValueTask<int> task = datagram.Peer.IsNone || (resident.IsConnected && datagram.Peer == resident.Remote)
            ? _socket.SendAsync((ReadOnlyMemory<byte>)bytes, SocketFlags.None)
            : _socket.SendToAsync(bytes, SocketFlags.None, Encode(in datagram.Peer));
        _send = task.ConfigureAwait(false).GetAwaiter();
        if (_send.IsCompleted) return true;
        _send.UnsafeOnCompleted(_sendDone);
        return false;
    }

    /// <summary>0 or an error number.</summary>
    internal int EndSend()
    {
        try
        {
            _send.GetResult();
            return 0;
        }
        catch (SocketException e)
        {
            return ErrorText.ErrnoOf(e.SocketErrorCode);
        }
    }

    /// <summary>Can be sent to by this socket at all: the framework's exceptions for the wrong family differ.</summary>
    internal int Check(in DatagramPeer peer, bool isConnected)
    {
        if (peer.IsNone) return isConnected ? 0 : Errno.EINVAL;
        bool fits = _isUnix ? peer.Name is not null : _isV6 ? peer.IsV4 || peer.IsV6 : peer.IsV4;
        if (!fits) return Errno.EAFNOSUPPORT;
        return !_isUnix && peer.Port == 0 ? Errno.EINVAL : 0;
    }

    private SocketAddress Encode(in DatagramPeer peer)
    {
        if (peer.Name is { } name) return UnixTarget(name);
        Span<byte> bytes = _to.Buffer.Span;
        BinaryPrimitives.WriteUInt16BigEndian(bytes[2..], (ushort)peer.Port);
        if (!_isV6)
        {
            MemoryMarshal.Write(bytes[4..], peer.V4Bytes);
            return _to;
        }

        MemoryMarshal.Write(bytes[8..], peer.IsV4 ? 0UL : peer.HighBytes);
        MemoryMarshal.Write(bytes[16..], peer.IsV4 ? 0xFFFF0000UL | ((ulong)peer.V4Bytes << 32) : peer.LowBytes);
        MemoryMarshal.Write(bytes[24..], (uint)peer.ScopeId);
        return _to;
    }

    private SocketAddress UnixTarget(UnixName name)
    {
        if (_unixTargets.TryGetValue(name, out SocketAddress? known)) return known;
        if (_unixTargets.Count >= 4096) _unixTargets.Clear();
        SocketAddress address = new UnixDomainSocketEndPoint(name.EndPointText).Serialize();
        _unixTargets.Add(name, address);
        return address;
    }

    // ------------------------------------------------------------------ the end

    /// <summary>A call that was in flight when the socket was closed has ended: its outcome is nobody's.</summary>
    internal void Abandon(PortableOperation operation)
    {
        if (ReferenceEquals(operation, Receiving))
        {
            if (!operation.ReadsOn) EndReceive(out _);
            operation.ReadsOn = false;
        }
        else
        {
            EndSend();
        }
    }

    internal void Dispose() => Sending.Dispose(); // Receiving is the slot's operation
}
