using System.Net;
using System.Net.Sockets;
using System.Text;
using NetCoreServer;
using TcpClient = NetCoreServer.TcpClient;

namespace Whimbrel.Compat.Tests.Connections;

// Programs as users write them: they use the old API only.
internal class RecordingServer(Log log, int port = 0) : TcpServer(IPAddress.Loopback, port)
{
    internal Log Log => log;

    internal Func<RecordingServer, TcpSession>? Make { get; set; }

    internal Action<TcpSession>? AtConnected { get; set; }

    internal int Chosen => ((IPEndPoint)Endpoint).Port;

    protected override TcpSession CreateSession() => Make?.Invoke(this) ?? new RecordingSession(this);

    protected override void OnStarting() => log.Add($"starting {IsStarted}");

    protected override void OnStarted() => log.Add($"started {IsStarted}");

    protected override void OnStopping() => log.Add($"stopping {IsStarted}");

    protected override void OnStopped() => log.Add($"stopped {IsStarted} {ConnectedSessions}");

    protected override void OnConnecting(TcpSession session) => log.Add("server: connecting");

    protected override void OnConnected(TcpSession session)
    {
        log.Add("server: connected");
        AtConnected?.Invoke(session);
    }

    protected override void OnDisconnecting(TcpSession session) => log.Add("server: disconnecting");

    protected override void OnDisconnected(TcpSession session) => log.Add("server: disconnected");

    protected override void OnError(SocketError error) => log.Add($"server: error {error}");
}

internal class RecordingSession(RecordingServer server) : TcpSession(server)
{
    protected Log Log { get; } = server.Log;

    internal Action<RecordingSession>? AtConnected { get; set; }

    internal Action<RecordingSession, string>? AtReceived { get; set; }

    internal Action<RecordingSession>? AtDisconnecting { get; set; }

    internal Action<RecordingSession>? AtDisconnected { get; set; }

    protected override void OnConnecting() => Log.Add($"session: connecting {IsConnected}");

    protected override void OnConnected()
    {
        Log.Add($"session: connected {IsConnected}");
        AtConnected?.Invoke(this);
    }

    protected override void OnDisconnecting()
    {
        Log.Add($"session: disconnecting {IsConnected}");
        AtDisconnecting?.Invoke(this);
    }

    protected override void OnDisconnected()
    {
        Log.Add($"session: disconnected {IsConnected}");
        AtDisconnected?.Invoke(this);
    }

    protected override void OnReceived(byte[] buffer, long offset, long size)
    {
        string text = Encoding.UTF8.GetString(buffer, (int)offset, (int)size);
        if (AtReceived is { } own) own(this, text);
        else
        {
            Log.Add("session: received " + text);
            SendAsync(buffer, offset, size);
        }
    }

    protected override void OnError(SocketError error) => Log.Add($"session: error {error}");
}

internal class RecordingClient(Log log, int port) : TcpClient(IPAddress.Loopback, port)
{
    private long _received;

    internal long Received => Interlocked.Read(ref _received);

    internal Action<RecordingClient>? AtConnected { get; set; }

    internal Action<RecordingClient>? AtDisconnected { get; set; }

    protected override void OnConnecting() => log.Add($"client: connecting {IsConnected}");

    protected override void OnConnected()
    {
        log.Add($"client: connected {IsConnected}");
        AtConnected?.Invoke(this);
    }

    protected override void OnDisconnecting() => log.Add($"client: disconnecting {IsConnected}");

    protected override void OnDisconnected()
    {
        log.Add($"client: disconnected {IsConnected}");
        AtDisconnected?.Invoke(this);
    }

    protected override void OnReceived(byte[] buffer, long offset, long size)
    {
        Interlocked.Add(ref _received, size);
        if (size < 100) log.Add("client: received " + Encoding.UTF8.GetString(buffer, (int)offset, (int)size));
    }

    protected override void OnError(SocketError error) => log.Add($"client: error {error}");
}
