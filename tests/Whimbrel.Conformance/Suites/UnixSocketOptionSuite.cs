using System.Net;
using Whimbrel.Linux;

namespace Whimbrel.Conformance;

/// <summary>Socket options of Unix sockets, on engines that have real ones: few remain, and the others are
/// rejected.</summary>
public abstract class UnixSocketOptionSuite(Transport transport) : Suite(transport)
{
    [Fact]
    public void Options_of_TCP_are_refused_by_name_and_all_together() => Run(rig =>
    {
        RecordingServer server = rig.MakeServer(null, new ServerOptions
        {
            Engine = rig.Engine,
            EndPoint = rig.NewAddress(),
            Socket = new()
            {
                NoDelay = false,
                KeepAlive = true,
                KeepAliveTime = TimeSpan.FromSeconds(1),
                KeepAliveInterval = TimeSpan.FromSeconds(2),
                KeepAliveCount = 3,
                UserTimeout = TimeSpan.FromSeconds(4),
                TypeOfService = 8,
                Mark = 5,
                BusyPoll = TimeSpan.FromMicroseconds(6),
                BindToDevice = "lo",
                FreeBind = true,
                ReusePort = true,
                FastOpenQueue = 7,
                DeferAccept = TimeSpan.FromSeconds(9),
            },
        });
        ArgumentException e = Assert.Throws<ArgumentException>(() => rig.Await(server.StartAsync()));
        Assert.Contains("14 mistakes", e.Message, StringComparison.Ordinal);
        string[] expected =
        [
            "Socket.NoDelay = False, Unix sockets have no TCP_NODELAY",
            "Socket.KeepAlive = True, Unix sockets have no SO_KEEPALIVE",
            "Socket.KeepAliveTime = 00:00:01", "Socket.KeepAliveInterval = 00:00:02", "Socket.KeepAliveCount = 3",
            "Socket.UserTimeout = 00:00:04", "Socket.TypeOfService = 8",
            "Socket.Mark = 5, Unix sockets have no SO_MARK",
            "Socket.BusyPoll = 00:00:00.0000060", "Socket.BindToDevice = lo", "Socket.FreeBind = True",
            "Socket.ReusePort = True",
            "Socket.FastOpenQueue = 7, Unix sockets have no TCP_FASTOPEN", "Socket.DeferAccept = 00:00:09",
        ];
        foreach (string text in expected) Assert.Contains(text, e.Message, StringComparison.Ordinal);

        RecordingClient client = rig.MakeClient(
            new ClientOptions
            {
                Engine = rig.Engine,
                EndPoint = rig.DeadAddress(),
                Socket = new() { KeepAlive = true, FastOpen = true }
            });
        e = Assert.Throws<ArgumentException>(() => rig.Await(client.ConnectAsync()));
        Assert.Contains("2 mistakes", e.Message, StringComparison.Ordinal);
        Assert.Contains("Socket.KeepAlive = True", e.Message, StringComparison.Ordinal);
        Assert.Contains("Socket.FastOpen = True, Unix sockets have no TCP_FASTOPEN_CONNECT", e.Message,
            StringComparison.Ordinal);
    });

    [Fact]
    public void On_a_server_with_both_kinds_of_address_they_go_to_those_of_TCP() => Run(rig =>
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "The test reads socket options by their Linux numbers.");
        MadeSockets made = new();
        RecordingServer server = rig.Serve(null, new ServerOptions
        {
            Engine = rig.Engine,
            EndPoints = [rig.NewAddress(), new IPEndPoint(IPAddress.Loopback, 0)],
            Socket = new() { KeepAlive = true, UserTimeout = TimeSpan.FromSeconds(4), OnCreated = made.Report }
        });
        foreach (EndPoint endPoint in server.EndPoints) rig.ConnectPeer(endPoint);
        server.Connected(1);
        Assert.Equal(2, made.Count(SocketRole.Listener));
        Assert.Equal(4000, made.Read(SocketRole.Listener, SocketAbi.IPPROTO_TCP, SocketAbi.TCP_USER_TIMEOUT, 1));
        Assert.Equal(0, made.Read(SocketRole.Listener, SocketAbi.SOL_SOCKET, SocketAbi.SO_KEEPALIVE, 0));
    });

    [Fact]
    public void Buffer_sizes_are_set_and_the_hook_is_called_for_every_role() => Run(rig =>
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "The test reads socket options by their Linux numbers.");
        MadeSockets made = new();
        RecordingServer server = rig.Serve(null, new ServerOptions
        {
            Engine = rig.Engine,
            EndPoint = rig.NewAddress(),
            Socket = new() { SendBufferBytes = 30_000, ReceiveBufferBytes = 20_000, OnCreated = made.Report }
        });
        rig.Connect(rig.MakeClient(new ClientOptions
        {
            Engine = rig.Engine,
            EndPoint = server.EndPoint,
            Socket = new() { SendBufferBytes = 30_000, ReceiveBufferBytes = 20_000, OnCreated = made.Report }
        }));
        server.Connected();
        Assert.Equal([SocketRole.Listener, SocketRole.Accepted, SocketRole.Connected], made.Roles.Order());
        foreach (SocketRole role in Enum.GetValues<SocketRole>())
            Assert.Equal((role, 60_000, 40_000), (role, made.Read(role, SocketAbi.SOL_SOCKET, SocketAbi.SO_SNDBUF),
                made.Read(role, SocketAbi.SOL_SOCKET, SocketAbi.SO_RCVBUF)));
    });

    [Fact]
    public void A_hook_that_throws_fails_start_and_connect() => Run(rig =>
    {
        RecordingServer server = rig.MakeServer(null, new ServerOptions
        {
            Engine = rig.Engine,
            EndPoint = rig.NewAddress(),
            Socket = new() { OnCreated = static _ => throw new NotSupportedException("not today") }
        });
        Assert.Equal(ErrorCategory.User,
            Assert.Throws<NetworkException>(() => rig.Await(server.StartAsync())).Error.Category);
        Assert.False(File.Exists(server.Options.EndPoint!.ToString()), "the path was left behind");
        RecordingServer working = rig.Serve();
        RecordingClient client = rig.MakeClient(new ClientOptions
        {
            Engine = rig.Engine,
            EndPoint = working.EndPoint,
            Socket = new() { OnCreated = static _ => throw new NotSupportedException("not today") }
        });
        Assert.Equal(ErrorCategory.User,
            Assert.Throws<NetworkException>(() => rig.Await(client.ConnectAsync())).Error.Category);
    });
}
