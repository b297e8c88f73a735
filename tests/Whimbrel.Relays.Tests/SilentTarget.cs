using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Relays.Tests;

// A listener that does not accept, with a full backlog: connects stay pending.
internal sealed class SilentTarget : IDisposable
{
    private readonly Socket _listener = NewSocket();
    private readonly Socket[] _fill = [NewSocket(), NewSocket(), NewSocket()];

    internal SilentTarget()
    {
        _listener.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        _listener.Listen(0);
        foreach (Socket each in _fill)
        {
            _ = each.ConnectAsync(_listener.LocalEndPoint!)
                .ContinueWith(static t => t.Exception, TaskScheduler.Default);
        }
    }

    internal string Name => $"tcp://{_listener.LocalEndPoint}";

    public void Dispose()
    {
        foreach (Socket each in _fill) each.Dispose();
        _listener.Dispose();
    }

    private static Socket NewSocket() => new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
}
