using NetCoreServer;
using Whimbrel.Compat.Tests.Connections;

namespace Whimbrel.Compat.Tests.Differences;

/// <summary>A started server with one session, and its client. All record their callbacks.</summary>
internal sealed class Pair : IDisposable
{
    private volatile TcpSession? _session;

    internal Pair(Action<RecordingServer>? prepare = null, Func<Log, int, RecordingClient>? make = null,
        bool isSync = false)
    {
        Server = new RecordingServer(Log) { AtConnected = s => _session = s };
        prepare?.Invoke(Server);
        Server.Start();
        Client = make is null ? new RecordingClient(ClientLog, Server.Chosen) : make(ClientLog, Server.Chosen);
        if (isSync) Client.Connect();
        else Client.ConnectAsync();
        Log.Until(() => _session is not null, "the session");
        ClientLog.Until("client: connected True");
    }

    /// <summary>Lines of the server and its session.</summary>
    internal Log Log { get; } = new();

    internal Log ClientLog { get; } = new();

    internal RecordingServer Server { get; }

    internal RecordingClient Client { get; }

    internal TcpSession Session => _session!;

    public void Dispose()
    {
        Client.Dispose();
        Server.Dispose();
    }
}
