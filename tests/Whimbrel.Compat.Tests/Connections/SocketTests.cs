using System.Net;
using System.Net.Sockets;
using NetCoreServer;
using TcpClient = NetCoreServer.TcpClient;

namespace Whimbrel.Compat.Tests.Connections;

// The Socket of sessions and clients in the callbacks of the end. In the original it is closed before OnDisconnected,
// but not before OnDisconnecting.
public sealed class SocketTests
{
    public static TheoryData<EngineKind, Scheduling> Cases => OnEngine.Cases;

    [Theory]
    [MemberData(nameof(Cases))]
    public async Task Socket_is_never_null_in_the_end_and_its_end_points_can_be_read(EngineKind kind,
        Scheduling callbacks)
    {
        await using OnEngine engine = await OnEngine.StartAsync(kind, callbacks);
        foreach (bool wasRead in (bool[])[true, false])
        {
            foreach (bool byPeer in (bool[])[true, false])
            {
                Log log = new();
                RecordingSession? session = null;
                using RecordingServer server = new(log);
                void Look(RecordingSession s) => log.Add($"{s.Socket.RemoteEndPoint} {s.Socket.LocalEndPoint}");

                server.Make = s => session = new RecordingSession(s)
                {
                    AtConnected = x => _ = wasRead ? x.Socket : null,
                    AtDisconnecting = Look,
                    AtDisconnected = Look,
                };
                Assert.True(server.Start());
                using Socket peer = Cost.Connect(server.Chosen);
                string ends = $"{peer.LocalEndPoint} {peer.RemoteEndPoint}";
                log.Until("server: connected");
                if (byPeer) peer.Close(0);
                else session!.Disconnect();
                log.Until("server: disconnected");
                Assert.True(log.Count(ends) == 2, $"{wasRead} {byPeer}: {string.Join(", ", log.Lines)}");
                Log.Until(() => Throws(session!.Socket), "the socket to be closed");
                Assert.Equal(ends, $"{session!.Socket.RemoteEndPoint} {session.Socket.LocalEndPoint}");
            }
        }
    }

    private static bool Throws(Socket socket)
    {
        try
        {
            _ = socket.Available;
            return false;
        }
        catch (ObjectDisposedException)
        {
            return true;
        }
    }

    [Theory]
    [MemberData(nameof(Cases))]
    public async Task The_Socket_of_a_client_is_not_null_in_OnDisconnected_after_a_connection_or_a_failed_connect(
        EngineKind kind, Scheduling callbacks)
    {
        await using OnEngine engine = await OnEngine.StartAsync(kind, callbacks);
        using RecordingServer server = new(new Log());
        Assert.True(server.Start());
        Log log = new();
        using RecordingClient client =
            new(log, server.Chosen) { AtDisconnected = c => log.Add($"closed {Throws(c.Socket)}") };
        Assert.Null(client.Socket);
        Assert.True(client.ConnectAsync());
        log.Until("client: connected True");
        EndPoint mine = client.Socket!.LocalEndPoint!;
        Assert.Equal(server.Endpoint, client.Socket.RemoteEndPoint);
        server.Stop();
        log.Until("client: disconnected False");
        Log.Until(() => Throws(client.Socket), "the socket to be closed");
        Assert.Equal((mine, server.Endpoint), (client.Socket.LocalEndPoint, client.Socket.RemoteEndPoint));
        Assert.True(client.ConnectAsync());
        log.Until("client: disconnected False", 2);
        log.Until("closed True", log.Count("closed False") == 1 ? 1 : 2);
    }

    [Theory]
    [MemberData(nameof(Cases))]
    public async Task Closing_the_Socket_ends_the_connection(EngineKind kind, Scheduling callbacks)
    {
        await using OnEngine engine = await OnEngine.StartAsync(kind, callbacks);
        Log log = new(), clientLog = new();
        RecordingSession? session = null;
        using RecordingServer server = new(log);
        server.Make = s => session = new RecordingSession(s);
        Assert.True(server.Start());
        using RecordingClient client = new(clientLog, server.Chosen);
        for (int i = 1; i <= 2; i++)
        {
            Assert.True(client.ConnectAsync());
            clientLog.Until("client: connected True", i);
            log.Until("server: connected", i);
            if (i == 1) session!.Socket.Close();
            else client.Socket.Close();
            clientLog.Until("client: disconnected False", i);
            log.Until("server: disconnected", i);
            Assert.False(client.IsConnected || session!.IsConnected);
        }
    }

    [Fact]
    public void A_socket_that_the_users_CreateSocket_has_made_is_the_one_that_is_shown()
    {
        using RecordingServer server = new(new Log());
        Assert.True(server.Start());
        using OwnSocket client = new(server.Chosen);
        Assert.True(client.Connect());
        Assert.Same(client.Made, client.Socket);
        Assert.True(client.Disconnect());
        Assert.NotNull(client.Socket);
    }

    // Programs send by Socket.Send, past the queue. It waits for a peer that is slow, like that of a blocking socket.
    [Theory]
    [MemberData(nameof(Cases))]
    public async Task Socket_Send_of_user_code_sends_all_of_its_bytes(EngineKind kind, Scheduling callbacks)
    {
        await using OnEngine engine = await OnEngine.StartAsync(kind, callbacks);
        byte[] much = new byte[8 * 1024 * 1024];
        Log log = new();
        using RecordingServer server = new(log)
        {
            Make = own => new RecordingSession(own) { AtReceived = (x, _) => log.Add($"sent {x.Socket.Send(much)}") },
        };
        Assert.True(server.Start());
        using Socket peer = Cost.Connect(server.Chosen);
        peer.Send("x"u8);
        byte[] buffer = new byte[1 << 20];
        for (int left = much.Length; left > 0;)
        {
            int count = peer.Receive(buffer);
            Assert.NotEqual(0, count);
            left -= count;
        }

        log.Until($"sent {much.Length}");
    }

    private sealed class OwnSocket(int port) : TcpClient(IPAddress.Loopback, port)
    {
        internal Socket? Made { get; private set; }

        protected override Socket CreateSocket() => Made = base.CreateSocket();
    }

    [Fact]
    public void The_Socket_of_a_Unix_session_is_not_null_in_the_end()
    {
        string path = Path.Combine(Path.GetTempPath(), $"whimbrel-compat-{Guid.NewGuid():n}.sock");
        Log log = new();
        using Local server = new(path, log);
        Assert.True(server.Start());
        using (Socket peer = new(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified))
        {
            peer.Connect(new UnixDomainSocketEndPoint(path));
            log.Until("connected");
        }

        log.Until("disconnected");
        Assert.Equal(["connected", "disconnecting", "disconnected"], log.Lines);
    }

    private sealed class Local(string path, Log log) : UdsServer(path)
    {
        protected override UdsSession CreateSession() => new LocalSession(this, log);
    }

    private sealed class LocalSession(UdsServer server, Log log) : UdsSession(server)
    {
        protected override void OnConnected() => log.Add("connected");

        protected override void OnDisconnecting() => log.Add(Socket is null ? "null" : "disconnecting");

        protected override void OnDisconnected() => log.Add(Socket is null ? "null" : "disconnected");
    }
}
