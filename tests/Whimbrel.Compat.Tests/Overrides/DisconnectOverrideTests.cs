using System.Net;
using System.Net.Sockets;
using NetCoreServer;
using Whimbrel.Compat.Tests.Connections;
using TcpClient = NetCoreServer.TcpClient;

namespace Whimbrel.Compat.Tests.Overrides;

// Programs override Disconnect to release what belongs to a connection. The original calls it for each end, also for
// one by the peer and for errors.
public sealed class DisconnectOverrideTests
{
    public static TheoryData<Scheduling> Schedulings => [Scheduling.ThreadPool, Scheduling.Inline];

    [Theory]
    [MemberData(nameof(Schedulings))]
    public void Disconnect_of_a_session_is_called_once_for_each_end(Scheduling callbacks)
    {
        using Setting setting = new(callbacks);
        foreach (string how in (string[])["peer closes", "peer resets", "session", "all", "stop", "too much"])
        {
            Log log = new();
            TcpSession? session = null;
            using RecordingServer server = new(log)
            {
                Make = static own => new Noting(own) { OptionReceiveBufferLimit = 100, OptionReceiveBufferSize = 64 },
                AtConnected = s => Volatile.Write(ref session, s),
            };
            server.Start();
            Socket peer = Cost.Connect(server.Chosen);
            log.Until("server: connected");
            Log.Until(() => session is not null, "the session");
            int before = log.Lines.Length;
            End(how, server, session!, peer);
            log.Until("server: disconnected");
            string[] lines = [.. log.Lines[before..].Where(static l => l.StartsWith("session: d",
                StringComparison.OrdinalIgnoreCase))];
            Assert.Equal(["session: Disconnect True", "session: disconnecting True", "session: disconnected False"],
                lines);
            peer.Dispose();
        }
    }

    private static void End(string how, RecordingServer server, TcpSession session, Socket peer)
    {
        switch (how)
        {
            case "peer resets":
                peer.LingerState = new LingerOption(enable: true, 0);
                peer.Dispose();
                break;
            case "peer closes":
                peer.Dispose();
                break;
            case "session":
                session.Disconnect();
                break;
            case "all":
                server.DisconnectAll();
                break;
            case "too much":
                peer.Send(new byte[64]);
                break;
            default:
                server.Stop();
                break;
        }
    }

    [Theory]
    [MemberData(nameof(Schedulings))]
    public void Disconnect_of_a_client_is_called_when_the_server_ends_the_connection(Scheduling callbacks)
    {
        using Setting setting = new(callbacks);
        Log log = new(), atServer = new();
        using RecordingServer server = new(atServer);
        server.Start();
        using NotingClient client = new(log, server.Chosen);
        client.ConnectAsync();
        Log.Until(() => client.IsConnected, "the connection");
        // As in the original, DisconnectAll leaves a session that the server lists but that is not connected yet.
        atServer.Until("server: connected");
        server.DisconnectAll();
        log.Until("disconnected");
        Assert.Equal(["DisconnectAsync True", "Disconnect True", "disconnecting", "disconnected"], log.Lines);
    }

    [Fact]
    public void An_override_of_Disconnect_that_throws_or_does_not_call_its_base_ends_the_session_all_the_same()
    {
        foreach (bool throws in (bool[])[false, true])
        {
            Log log = new();
            using RecordingServer server = new(log) { Make = own => new Deaf(own, throws) };
            server.Start();
            using (Cost.Connect(server.Chosen)) log.Until("server: connected");
            log.Until("server: disconnected");
            Log.Until(() => server.ConnectedSessions == 0, "the end");
            Assert.Equal(1, log.Count("session: disconnected False"));
        }
    }

    private sealed class Noting(RecordingServer server) : RecordingSession(server)
    {
        public override bool Disconnect()
        {
            Log.Add($"session: Disconnect {IsConnected}");
            return base.Disconnect();
        }
    }

    private sealed class Deaf(RecordingServer server, bool throws) : RecordingSession(server)
    {
        public override bool Disconnect() => throws ? throw new InvalidOperationException("the user's") : false;
    }

    private sealed class NotingClient(Log log, int port) : TcpClient(IPAddress.Loopback, port)
    {
        public override bool Disconnect()
        {
            log.Add($"Disconnect {IsConnected}");
            return base.Disconnect();
        }

        public override bool DisconnectAsync()
        {
            log.Add($"DisconnectAsync {IsConnected}");
            return base.DisconnectAsync();
        }

        protected override void OnDisconnecting() => log.Add("disconnecting");

        protected override void OnDisconnected() => log.Add("disconnected");
    }
}
