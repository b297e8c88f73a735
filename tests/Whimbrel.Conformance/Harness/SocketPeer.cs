using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Conformance;

/// <summary>A non-blocking socket of System.Net.</summary>
public sealed class SocketPeer : Peer
{
    private readonly Socket _socket;

    public SocketPeer(Rig rig, Socket socket)
        : base(rig)
    {
        ArgumentNullException.ThrowIfNull(socket);
        _socket = socket;
        _socket.Blocking = false;
        if (socket.AddressFamily != AddressFamily.Unix) _socket.NoDelay = true;
        LocalEndPoint = socket.LocalEndPoint;
    }

    public override EndPoint? LocalEndPoint { get; }

    public override int TryWrite(ReadOnlySpan<byte> data)
    {
        if (data.IsEmpty) return 0;
        int taken = _socket.Send(data, SocketFlags.None, out SocketError error);
        if (error is SocketError.Success) return taken;
        if (error is SocketError.WouldBlock) return 0;
        throw new IOException($"The peer cannot write: {error}.");
    }

    public override int TryRead(Span<byte> buffer)
    {
        int count = _socket.Receive(buffer, SocketFlags.None, out SocketError error);
        if (error is SocketError.Success) return count;
        if (error is SocketError.WouldBlock) return -1;
        throw new IOException($"The peer cannot read: {error}.");
    }

    public override void ShutdownSend() => _socket.Shutdown(SocketShutdown.Send);

    public override void Reset()
    {
        if (_socket.AddressFamily != AddressFamily.Unix) _socket.LingerState = new LingerOption(true, 0);
        _socket.Close();
    }

    public override void Close() => _socket.Close();
}
