using System.Net;
using System.Net.Sockets;
#if MEMORY
using Whimbrel.Testing;
#endif

namespace Whimbrel.Conformance;

/// <summary>A foreign program's datagram socket: System.Net.Sockets, or a raw one of the memory network. Never blocks for ever.</summary>
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
        _socket = new Socket(at.AddressFamily, SocketType.Dgram, at.AddressFamily == AddressFamily.Unix ? ProtocolType.Unspecified : ProtocolType.Udp) { ReceiveBufferSize = 4 << 20, SendBufferSize = 1 << 20 };
        if (at.AddressFamily == AddressFamily.InterNetworkV6) _socket.DualMode = false;
        _socket.Bind(at);
        if (at.AddressFamily == AddressFamily.InterNetwork) _socket.MulticastLoopback = true;
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

    /// <summary>Sends to a group by an interface of this machine.</summary>
    public void SendToGroup(ReadOnlySpan<byte> data, IPAddress group, int port)
    {
        if (_socket is not null) _socket.SetSocketOption(SocketOptionLevel.IP, SocketOptionName.MulticastInterface, IPAddress.Loopback.GetAddressBytes());
        Send(data, new IPEndPoint(group, port));
    }

    /// <summary>The next datagram; fails when none comes.</summary>
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
        EndPoint sender = _socket.AddressFamily == AddressFamily.Unix ? new UnixDomainSocketEndPoint("/x") : new IPEndPoint(_socket.AddressFamily == AddressFamily.InterNetwork ? IPAddress.Any : IPAddress.IPv6Any, 0);
        try
        {
            int count = _socket.ReceiveFrom(_buffer, ref sender);
            from = sender is UnixDomainSocketEndPoint unix && string.IsNullOrEmpty(unix.ToString()) ? default : new DatagramPeer(sender);
            return _buffer[..count];
        }
        catch (SocketException e) when (e.SocketErrorCode is SocketError.ConnectionRefused or SocketError.ConnectionReset)
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
