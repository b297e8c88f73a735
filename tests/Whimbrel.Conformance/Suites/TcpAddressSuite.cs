using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Conformance;

/// <summary>Addresses and ports of TCP, on engines that have real ones.</summary>
public abstract class TcpAddressSuite(Transport transport) : Suite(transport)
{
    private static RecordingServer ServeAt(Rig rig, IPAddress address, bool dualMode = true) =>
        rig.Serve(static s => s.AtReceived = static (x, data) => x.Send(data),
            new ServerOptions
            {
                Engine = rig.Engine,
                EndPoint = new IPEndPoint(address, 0),
                Socket = new() { DualMode = dualMode }
            });

    private static int PortOf(Server server) => ((IPEndPoint)server.EndPoint!).Port;

    private static void Echo(Rig rig, EndPoint endPoint)
    {
        Peer peer = rig.ConnectPeer(endPoint);
        peer.Write("hello");
        Assert.Equal("hello", peer.ReadText(5));
    }

    [Fact]
    public void A_taken_port_is_reported_with_its_holder() => Run(rig =>
    {
        RecordingServer holder = rig.Serve();
        RecordingServer server = rig.MakeServer(null,
            new ServerOptions { Engine = rig.Engine, EndPoint = holder.EndPoint });
        NetworkException e = Assert.Throws<NetworkException>(() => rig.Await(server.StartAsync()));
        Assert.Equal(ErrorCategory.Bind, e.Error.Category);
        Assert.NotEqual(0, e.Error.Code);
        Assert.Contains(holder.EndPoint!.ToString()!, e.Message, StringComparison.Ordinal);
        Assert.Contains("already in use", e.Message, StringComparison.Ordinal);
        Assert.Contains("port-taken.md", e.Message, StringComparison.Ordinal);
        if (File.Exists("/proc/self/comm"))
        {
            Assert.Contains($"'{File.ReadAllText("/proc/self/comm").Trim()}'", e.Message, StringComparison.Ordinal);
            Assert.Contains($"(pid {Environment.ProcessId})", e.Message, StringComparison.Ordinal);
        }
    });

    [Fact]
    public void An_address_of_another_machine_cannot_be_bound() => Run(rig =>
    {
        // From the block reserved for documentation.
        RecordingServer server = rig.MakeServer(null,
            new ServerOptions { Engine = rig.Engine, EndPoint = new IPEndPoint(IPAddress.Parse("203.0.113.1"), 0) });
        NetworkException e = Assert.Throws<NetworkException>(() => rig.Await(server.StartAsync()));
        Assert.Equal(ErrorCategory.Bind, e.Error.Category);
        Assert.Contains("none of this machine's", e.Message, StringComparison.Ordinal);
    });

    [Fact]
    public void Port_0_takes_a_free_port_each_time() => Run(rig =>
    {
        RecordingServer one = rig.Serve();
        RecordingServer two = rig.Serve();
        Assert.NotEqual(PortOf(one), PortOf(two));
        Assert.Equal(0, ((IPEndPoint)one.Options.EndPoint!).Port);
    });

    [Fact]
    public void IPv6_is_listened_on_and_connected_to() => Run(rig =>
    {
        Assert.SkipUnless(Socket.OSSupportsIPv6, "This machine has no IPv6.");
        RecordingServer server = ServeAt(rig, IPAddress.IPv6Loopback);
        Echo(rig, server.EndPoint!);
        RecordingSession client = rig.Connect(server.EndPoint!,
            static s => s.AtConnected = static x => x.Send("six"u8));
        client.UntilReceived(3);
        Assert.Equal(AddressFamily.InterNetworkV6, client.LocalEndPoint!.AddressFamily);
        Assert.Equal(client.LocalEndPoint, server.Session(1).RemoteEndPoint);
        Assert.Equal(server.EndPoint, client.RemoteEndPoint);
    });

    [Fact]
    public void One_IPv6_listener_takes_IPv4_as_well_and_shows_it_as_IPv4() => Run(rig =>
    {
        Assert.SkipUnless(Socket.OSSupportsIPv6, "This machine has no IPv6.");
        RecordingServer server = ServeAt(rig, IPAddress.IPv6Any);
        Echo(rig, new IPEndPoint(IPAddress.Loopback, PortOf(server)));
        Echo(rig, new IPEndPoint(IPAddress.IPv6Loopback, PortOf(server)));
        Assert.Equal(IPAddress.Loopback, ((IPEndPoint)server.Session(0).RemoteEndPoint!).Address);
        Assert.Equal(IPAddress.IPv6Loopback, ((IPEndPoint)server.Session(1).RemoteEndPoint!).Address);
    });

    [Fact]
    public void Without_DualMode_an_IPv6_listener_takes_no_IPv4() => Run(rig =>
    {
        Assert.SkipUnless(Socket.OSSupportsIPv6, "This machine has no IPv6.");
        RecordingServer server = ServeAt(rig, IPAddress.IPv6Any, dualMode: false);
        Echo(rig, new IPEndPoint(IPAddress.IPv6Loopback, PortOf(server)));
        RecordingClient client = rig.MakeClient(new IPEndPoint(IPAddress.Loopback, PortOf(server)));
        Assert.Throws<NetworkException>(() => rig.Await(client.ConnectAsync()));
        Assert.Equal(CloseCause.Refused, client.Attempt().Reason.Cause);
    });

    [Fact]
    public void A_wildcard_listener_reports_the_address_that_was_really_connected_to() => Run(rig =>
    {
        RecordingServer server = ServeAt(rig, IPAddress.Any);
        Echo(rig, new IPEndPoint(IPAddress.Loopback, PortOf(server)));
        Assert.Equal(new IPEndPoint(IPAddress.Loopback, PortOf(server)), server.Session().LocalEndPoint);
    });

    [Fact]
    public void A_client_connects_from_the_given_local_address() => Run(rig =>
    {
        RecordingServer server = ServeAt(rig, IPAddress.Any);
        IPAddress from = OperatingSystem.IsLinux() ? IPAddress.Parse("127.0.0.2") : IPAddress.Loopback;
        RecordingClient client = rig.MakeClient(new ClientOptions
        {
            Engine = rig.Engine,
            EndPoint = new IPEndPoint(IPAddress.Loopback, PortOf(server)),
            Socket = new() { LocalEndPoint = new IPEndPoint(from, 0) },
        });
        RecordingSession session = rig.Connect(client);
        Assert.Equal(from, ((IPEndPoint)session.LocalEndPoint!).Address);
        server.Connected();
        Assert.Equal(from, ((IPEndPoint)server.Session().RemoteEndPoint!).Address);
    });

    [Fact]
    public void A_client_that_may_not_use_its_local_address_gets_that_error() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        RecordingClient client = rig.MakeClient(new ClientOptions
        {
            Engine = rig.Engine,
            EndPoint = server.EndPoint,
            Socket = new() { LocalEndPoint = new IPEndPoint(IPAddress.Parse("203.0.113.1"), 0) }
        });
        NetworkException e = Assert.Throws<NetworkException>(() => rig.Await(client.ConnectAsync()));
        Assert.Equal(ErrorCategory.Unreachable, e.Error.Category);
        Assert.Equal("connecting, connect failed Unreachable", client.Attempt().Life);
    });

    [Fact]
    public void A_port_with_old_connections_is_bound_again_at_once() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtConnected = static x => x.Close());
        EndPoint address = server.EndPoint!;
        // This side closes first, so that the port has a connection in TIME_WAIT.
        Peer peer = rig.ConnectPeer(address);
        peer.ReadToEnd();
        peer.Close();
        server.Session().End();
        rig.Await(server.StopAsync());
        RecordingServer again = rig.Serve(null, new ServerOptions { Engine = rig.Engine, EndPoint = address });
        Assert.Equal(address, again.EndPoint);
    });

    [Fact]
    public void ReusePort_shares_a_port_between_servers_that_both_ask_for_it() => Run(rig =>
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "SO_REUSEPORT spreads connections on Linux only.");
        RecordingServer one = rig.Serve(null,
            new ServerOptions
            {
                Engine = rig.Engine,
                EndPoint = rig.NewAddress(),
                Socket = new() { ReusePort = true }
            });
        RecordingServer two = rig.Serve(null,
            new ServerOptions { Engine = rig.Engine, EndPoint = one.EndPoint, Socket = new() { ReusePort = true } });
        for (int i = 0; i < 20; i++) rig.ConnectPeer(one.EndPoint!);
        rig.Until(() => one.AcceptedCount + two.AcceptedCount == 20, "all to be accepted by one of the two");
    });

    [Fact]
    public void Socket_options_reach_both_kinds_of_connection() => Run(rig =>
    {
        RecordingServer server = rig.Serve(
            static s => s.AtReceived = static (x, data) => x.Send(data),
            new ServerOptions
            {
                Engine = rig.Engine,
                EndPoint = rig.NewAddress(),
                Socket = new()
                {
                    NoDelay = false,
                    KeepAlive = true,
                    ReceiveBufferBytes = 16 * 1024,
                    SendBufferBytes = 16 * 1024,
                    Backlog = 1
                }
            });
        RecordingClient client = rig.MakeClient(new ClientOptions
        {
            Engine = rig.Engine,
            EndPoint = server.EndPoint,
            Socket = new()
            {
                NoDelay = false,
                KeepAlive = true,
                ReceiveBufferBytes = 16 * 1024,
                SendBufferBytes = 16 * 1024
            }
        });
        RecordingSession session = rig.Connect(client);
        byte[] data = Pattern(900_000);
        session.Send(data);
        session.UntilReceived(data.Length);
        Assert.Equal(data, session.Received);
    });
}
