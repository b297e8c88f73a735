using System.Text;
using CSharpServer;
using Whimbrel.Compat.Tests.Connections;

namespace Whimbrel.Compat.Tests.CSharp;

// Programs as users write them: they use the old API only.
internal sealed class RecordingServer(Service service, Log log, int port = 0) : TcpServer(service, "127.0.0.1", port)
{
    internal Log Log => log;

    internal bool Refuses { get; set; }

    internal Action<TcpSession>? AtConnected { get; set; }

    protected override TcpSession CreateSession() => new RecordingSession(this);

    protected override void OnStarted() => log.Add($"started {IsStarted}");

    protected override void OnStopped() => log.Add($"stopped {IsStarted} {ConnectedSessions}");

    protected override void OnConnected(TcpSession session)
    {
        log.Add("server: connected");
        AtConnected?.Invoke(session);
    }

    protected override void OnDisconnected(TcpSession session) => log.Add("server: disconnected");

    protected override void OnError(int error, string category, string message) =>
        log.Add($"server: error {error} {category}");
}

internal sealed class RecordingSession(RecordingServer server) : TcpSession(server)
{
    internal byte[]? Last { get; private set; }

    protected override void OnConnected() =>
        server.Log.Add($"session: connected {IsConnected} {ReferenceEquals(Server.FindSession(Id), this)}");

    protected override void OnDisconnected() =>
        server.Log.Add($"session: disconnected {IsConnected} {SendAsync("late")}");

    protected override void OnReceived(byte[] buffer, long size)
    {
        if (ReferenceEquals(Last, buffer)) server.Log.Add("session: the same array");
        if (buffer.Length != size) server.Log.Add("session: a longer array");
        Last = buffer;
        string text = Encoding.UTF8.GetString(buffer);
        server.Log.Add("session: received " + text);
        if (text == "throw") throw new InvalidOperationException("of the user");
        SendAsync(text);
    }

    protected override bool OnSending(long size) => !server.Refuses;

    protected override void OnError(int error, string category, string message) =>
        server.Log.Add($"session: error {error} {category}");
}

internal sealed class RecordingClient(Service service, Log log, string address, int port)
    : TcpClient(service, address, port)
{
    internal Action<RecordingClient>? AtConnected { get; set; }

    internal Action<RecordingClient>? AtDisconnected { get; set; }

    protected override void OnConnected()
    {
        log.Add($"client: connected {IsConnected}");
        AtConnected?.Invoke(this);
    }

    protected override void OnDisconnected()
    {
        log.Add($"client: disconnected {IsConnected}");
        AtDisconnected?.Invoke(this);
    }

    protected override void OnReceived(byte[] buffer, long size) =>
        log.Add("client: received " + Encoding.UTF8.GetString(buffer, 0, (int)size));

    protected override void OnEmpty() => log.Add("client: empty");

    protected override void OnError(int error, string category, string message) =>
        log.Add($"client: error {error} {category}");
}
