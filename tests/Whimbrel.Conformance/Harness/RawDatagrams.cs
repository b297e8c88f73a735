using System.Net;
using System.Net.Sockets;
using Whimbrel.Linux;
#if MEMORY
using Whimbrel.Testing;
#endif

namespace Whimbrel.Conformance;

/// <summary>A foreign datagram socket: System.Net.Sockets, or a raw one of the memory network. Never blocks
/// forever.</summary>
public sealed class RawDatagrams : IDisposable
{
    private readonly Rig _rig;
    private readonly Socket? _socket;
    private readonly byte[] _buffer = new byte[256 * 1024];
#if MEMORY
    private readonly MemoryDatagramPeer? _memory;
#endif

    public RawDatagrams(Rig rig, EndPoint? at = null)
    {
        ArgumentNullException.ThrowIfNull(rig);
        _rig = rig;
        at ??= rig.NewAddress();
#if MEMORY
        if (rig is MemoryRig memory)
        {
            _memory = memory.Memory.OpenDatagrams(at);
            return;
        }
#endif
        _socket = new Socket(at.AddressFamily, SocketType.Dgram,
            at.AddressFamily == AddressFamily.Unix ? ProtocolType.Unspecified : ProtocolType.Udp)
        {
            ReceiveBufferSize = 4 << 20,
            SendBufferSize = 1 << 20
        };
        if (at.AddressFamily == AddressFamily.InterNetworkV6) _socket.DualMode = false;
        _socket.Bind(at);
        if (at.AddressFamily == AddressFamily.InterNetwork) _socket.MulticastLoopback = true;
        // IP_RECVTTL, for ReceiveHops
        if (at.AddressFamily == AddressFamily.InterNetwork)
            _socket.SetRawSocketOption(SocketAbi.IPPROTO_IP, 12, BitConverter.GetBytes(1));
    }

    public EndPoint EndPoint
    {
        get
        {
#if MEMORY
            if (_memory is not null) return _memory.EndPoint;
#endif
            return _socket!.LocalEndPoint!;
        }
    }

    public DatagramPeer Peer => new(EndPoint);

    public void Send(ReadOnlySpan<byte> data, EndPoint to)
    {
#if MEMORY
        if (_memory is not null)
        {
            _memory.Send(data, to);
            return;
        }
#endif
        _socket!.SendTo(data, SocketFlags.None, to);
    }

    /// <summary>Sends to a group through an interface of this machine.</summary>
    public void SendToGroup(ReadOnlySpan<byte> data, IPAddress group, int port)
    {
        if (_socket is not null)
            _socket.SetSocketOption(SocketOptionLevel.IP, SocketOptionName.MulticastInterface,
                IPAddress.Loopback.GetAddressBytes());
        Send(data, new IPEndPoint(group, port));
    }

    /// <summary>Joins a group on the loopback device. Real sockets only.</summary>
    public void JoinOnLo(IPAddress group) =>
        _socket!.SetSocketOption(SocketOptionLevel.IP, SocketOptionName.AddMembership,
            new MulticastOption(group, IPAddress.Loopback));

    /// <summary>Hop limit of the next datagram. Real sockets only.</summary>
    // Safe: the kernel writes into memory of this frame, during the call.
    public unsafe int ReceiveHops()
    {
        const int ipTtl = 2;
        int fd = (int)_socket!.Handle;
        _rig.Until(() => _socket.Poll(0, SelectMode.SelectRead), "a datagram");
        byte* control = stackalloc byte[128];
        byte data;
        IoVector vector = new() { Base = &data, Length = 1 };
        MessageHeader header = new() { Vectors = &vector, VectorCount = 1, Control = control, ControlLength = 128 };
        Assert.True(Syscall.ReceiveMessage(fd, &header, 0) >= 0);
        ControlHeader* first = (ControlHeader*)control;
        Assert.True(header.ControlLength >= 20);
        Assert.Equal((SocketAbi.IPPROTO_IP, ipTtl), (first->Level, first->Type));
        return *(int*)(control + sizeof(ControlHeader));
    }

    /// <summary>The next datagram. Fails if none arrives.</summary>
    public byte[] Receive(out DatagramPeer from)
    {
        byte[]? data = null;
        DatagramPeer peer = default;
        _rig.Until(() => (data = TryReceive(out peer)) is not null, "a datagram to arrive at the raw peer");
        from = peer;
        return data!;
    }

    public byte[] Receive() => Receive(out _);

    public byte[]? TryReceive(out DatagramPeer from)
    {
#if MEMORY
        if (_memory is not null) return _memory.TryReceive(out from);
#endif
        from = default;
        if (!_socket!.Poll(0, SelectMode.SelectRead)) return null;
        EndPoint sender = _socket.AddressFamily == AddressFamily.Unix
            ? new UnixDomainSocketEndPoint("/x")
            : new IPEndPoint(_socket.AddressFamily == AddressFamily.InterNetwork ? IPAddress.Any : IPAddress.IPv6Any,
                0);
        try
        {
            int count = _socket.ReceiveFrom(_buffer, ref sender);
            from = sender is UnixDomainSocketEndPoint unix && string.IsNullOrEmpty(unix.ToString())
                ? default
                : new DatagramPeer(sender);
            return _buffer[..count];
        }
        catch (SocketException e)
            when (e.SocketErrorCode is SocketError.ConnectionRefused or SocketError.ConnectionReset)
        {
            return null;
        }
    }

    public void Dispose()
    {
#if MEMORY
        _memory?.Close();
#endif
        _socket?.Dispose();
    }
}
