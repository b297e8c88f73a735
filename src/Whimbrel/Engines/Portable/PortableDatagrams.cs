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
/// One datagram socket of the portable engine: its receive buffer, addresses, and up to two calls in flight. The
/// framework tries each call at once; a completion on another thread is only added to the loop's list. The loop's
/// thread.
/// </summary>
[SuppressMessage("Design", "CA1001", Justification = "What it has of native memory belongs to queued datagrams.")]
[SuppressMessage("Reliability", "CA2012",
    Justification = "Each task is consumed once, by its awaiter, in the End call.")]
internal sealed class PortableDatagrams
{
    private const int IpBytes = 64 * 1024;

    /// <summary>
    /// Receive buffer for Unix datagrams. They may be as large as the sender's buffer, but are usually smaller than
    /// this.
    /// </summary>
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

    /// <summary>Represents the receive in the loop's lists.</summary>
    internal PortableOperation Receiving { get; }

    /// <summary>Represents the send in the loop's lists.</summary>
    internal PortableOperation Sending { get; }

    internal byte[] Buffer => _buffer;

    // ------------------------------------------------------------------ receive

    /// <summary>
    /// Starts a receive. Returns true if a datagram has already arrived: call <see cref="EndReceive"/>. Otherwise
    /// <see cref="Receiving"/> is added to the list when one arrives.
    /// </summary>
    internal bool BeginReceive()
    {
        _from.Size = SocketAddress.GetMaximumAddressSize(_socket.AddressFamily);
        _receive = _socket.ReceiveFromAsync(_buffer, SocketFlags.None, _from).ConfigureAwait(false).GetAwaiter();
        if (_receive.IsCompleted) return true;
        _receive.UnsafeOnCompleted(_receiveDone);
        return false;
    }

    /// <summary>Returns the number of bytes in <see cref="Buffer"/>, or a negated error number.</summary>
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

    /// <summary>
    /// Returns the number of datagrams dropped for lack of receive buffer since the socket was created: 32 bits that
    /// wrap around. 0 if the system does not report it.
    /// </summary>
    internal uint CountOverflow()
    {
        if (!KernelProbe.IsLinux || _isUnix) return 0;
        Span<uint> numbers = stackalloc uint[DatagramAbi.MeminfoCount];
        numbers.Clear();
        _ = SocketOptions.GetRaw(new RawSocket(0, _socket), SocketAbi.SOL_SOCKET, DatagramAbi.SO_MEMINFO,
            MemoryMarshal.AsBytes(numbers));
        return numbers[DatagramAbi.MeminfoDrops];
    }

    private DatagramPeer Decode()
    {
        ReadOnlySpan<byte> bytes = _from.Buffer.Span[.._from.Size];
        switch (_from.Family)
        {
            case AddressFamily.InterNetwork when bytes.Length >= 8:
                return DatagramPeer.V4(MemoryMarshal.Read<uint>(bytes[4..]),
                    BinaryPrimitives.ReadUInt16BigEndian(bytes[2..]));
            case AddressFamily.InterNetworkV6 when bytes.Length >= 28:
                return DatagramPeer.V6(MemoryMarshal.Read<ulong>(bytes[8..]), MemoryMarshal.Read<ulong>(bytes[16..]),
                    BinaryPrimitives.ReadUInt16BigEndian(bytes[2..]), MemoryMarshal.Read<uint>(bytes[24..]));
            case AddressFamily.Unix when bytes.Length > 2:
                ReadOnlySpan<byte> path = bytes[2..];
                if (path[0] != 0 && path.IndexOf((byte)0) is >= 0 and int end) path = path[..end];
                return path.TrimEnd((byte)0).IsEmpty ? default : DatagramPeer.Unix(_names.Intern(path));
            default:
                return default;
        }
    }

    // ------------------------------------------------------------------ send

    /// <summary>
    /// Starts a send. Returns true if it has already completed: call <see cref="EndSend"/>. Otherwise the bytes must
    /// stay until <see cref="Sending"/> is added to the list.
    /// </summary>
    // Safe: the handle keeps the entry, and therefore its bytes, while it is marked as in flight.
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

    /// <summary>Returns 0 or an error number.</summary>
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

    /// <summary>
    /// Checks that this socket can send to the peer: the framework throws different exceptions for a wrong address
    /// family.
    /// </summary>
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

    /// <summary>Takes the result of a call that was in flight when the socket was closed, and discards it.</summary>
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
