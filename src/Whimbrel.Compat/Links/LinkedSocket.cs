using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Compat.Links;

/// <summary>
/// The Socket that an old session or client shows. It has the descriptor of the native object and remains after that is
/// closed. Its end points are read when it is made, so that they can be read later; other calls throw
/// ObjectDisposedException then. Closing it ends the connection, as in the original. Any thread.
/// </summary>
internal sealed class LinkedSocket : Socket
{
    private readonly Socket? _native;
    private readonly Session? _session;
    private Link? _link;

    private LinkedSocket(Socket native, Link link, Session session)
        : base(native.SafeHandle)
    {
        _native = native;
        _link = link;
        _session = session;
        _ = LocalEndPoint;
        _ = RemoteEndPoint;
    }

    private LinkedSocket(AddressFamily family, SocketType type, ProtocolType protocol)
        : base(family, type, protocol)
    {
    }

    internal static LinkedSocket Over(Socket native, Link link, Session session) => new(native, link, session);

    /// <summary>
    /// For a connection whose Socket is first asked for when its descriptor is closed, and for a dial that failed (null).
    /// </summary>
    internal static LinkedSocket Ended(Session? session)
    {
        if (session is { RemoteEndPoint: IPEndPoint peer, LocalEndPoint: IPEndPoint own } && WithEndPoints(own, peer) is { } socket) return socket;
        LinkedSocket closed = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        closed.Dispose();
        return closed;
    }

    // A Socket takes its end points from the system only. UDP lets one bind and connect without a packet.
    private static LinkedSocket? WithEndPoints(IPEndPoint own, IPEndPoint peer)
    {
        LinkedSocket socket = new(peer.AddressFamily, SocketType.Dgram, ProtocolType.Udp);
        try
        {
            socket.SetSocketOption(SocketOptionLevel.Socket, SocketOptionName.ReuseAddress, true);
            socket.Bind(own);
            socket.Connect(peer);
            _ = socket.LocalEndPoint;
            _ = socket.RemoteEndPoint;
        }
        catch (SocketException)
        {
            socket.Dispose();
            return null; // no route any more, or the port is in use
        }

        socket.SafeHandle.Dispose();
        return socket;
    }

    /// <summary>Milliseconds; 0: none, also when the connection has ended.</summary>
    internal int ReceiveTimeoutOrZero
    {
        get
        {
            try
            {
                return ReceiveTimeout;
            }
            catch (ObjectDisposedException)
            {
                return 0;
            }
        }
    }

    internal bool IsOf(Socket native) => ReferenceEquals(_native, native);

    protected override void Dispose(bool disposing)
    {
        base.Dispose(disposing);
        if (disposing) Interlocked.Exchange(ref _link, null)?.SocketClosed(_session!);
    }
}
