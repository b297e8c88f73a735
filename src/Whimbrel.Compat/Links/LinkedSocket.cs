using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Compat.Links;

/// <summary>
/// The Socket property of an original session or client. It shares the descriptor of the native object and remains when
/// that is closed. Its end points are read when it is created, so they remain readable; other calls then throw
/// ObjectDisposedException. Closing it ends the connection, as in the original. Any thread may use it.
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
        Unblock(session);
    }

    // Programs call Socket.Send, which waits. A Socket over a non-blocking descriptor throws there, until both are set:
    // .NET then waits for the descriptor itself. Those of io_uring are blocking, and must remain so.
    private void Unblock(Session session)
    {
        if (session.Loop is { Engine.Kind: not EngineKind.Uring }) Blocking = false;
        Blocking = true;
    }

    private LinkedSocket(AddressFamily family, SocketType type, ProtocolType protocol)
        : base(family, type, protocol)
    {
    }

    internal static LinkedSocket Over(Socket native, Link link, Session session) => new(native, link, session);

    /// <summary>
    /// Creates one for a connection whose Socket is first read after its descriptor was closed, and for a failed
    /// connect (null).
    /// </summary>
    internal static LinkedSocket Ended(Session? session)
    {
        if (session is { RemoteEndPoint: IPEndPoint peer, LocalEndPoint: IPEndPoint own }
            && WithEndPoints(own, peer) is { } socket)
            return socket;
        LinkedSocket closed = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        closed.Dispose();
        return closed;
    }

    // A Socket gets its end points from the system only. UDP can bind and connect without a packet.
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
