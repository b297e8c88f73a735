using System.Globalization;
using System.Net;
using System.Net.NetworkInformation;
using System.Net.Sockets;

namespace Whimbrel.Conformance;

/// <summary>Multicast groups: joined and left while the socket runs, by interface and by source, and
/// refusals.</summary>
public abstract class MulticastSuite(Transport transport) : Suite(transport)
{
    private static readonly IPAddress s_one = IPAddress.Parse("239.77.1.1");
    private static readonly IPAddress s_two = IPAddress.Parse("239.77.1.2");

    // ------------------------------------------------------------------ tools

    private static MulticastGroup OnLo(IPAddress group, IPAddress? source = null) => new(group, "lo", source);

    private static DatagramSocket Open(Rig rig, out RecordingHandler handler, int port = 0, bool allGroups = false,
        MulticastGroup[]? groups = null, int loops = 1)
    {
        RecordingHandler? made = null;
        DatagramSocket socket = new(
            new DatagramOptions
            {
                Engine = rig.Engine,
                EndPoint = new IPEndPoint(IPAddress.Any, port),
                ReuseAddress = true,
                AllGroups = allGroups,
                Groups = groups ?? [],
                Loops = loops
            },
            () => loops == 1 ? made = new RecordingHandler() : new RecordingHandler());
        rig.Await(socket.StartAsync(), "the datagram socket to start");
        handler = made!;
        return socket;
    }

    private static DatagramSocket OpenSender(Rig rig, string by, bool loopback)
    {
        DatagramSocket socket = new(
            new DatagramOptions
            {
                Engine = rig.Engine,
                EndPoint = new IPEndPoint(IPAddress.Any, 0),
                MulticastInterface = by,
                MulticastLoopback = loopback
            },
            static () => new RecordingHandler());
        rig.Await(socket.StartAsync(), "the sender to start");
        return socket;
    }

    private static int PortOf(DatagramSocket socket) => ((IPEndPoint)socket.EndPoint!).Port;

    /// <summary>Datagrams received before a unicast marker that is sent afterwards: everything that could
    /// arrive.</summary>
    private static List<string> BeforeMarker(Rig rig, RawDatagrams sender, DatagramSocket socket,
        RecordingHandler handler, string marker)
    {
        sender.Send(Bytes(marker), new IPEndPoint(IPAddress.Loopback, PortOf(socket)));
        rig.Until(() => handler.Datagrams.Any(d => Text(d) == marker), $"the marker {marker}");
        return [.. handler.Datagrams.Select(static d => Text(d))];
    }

    private static void Close(Rig rig, DatagramSocket socket, RecordingHandler handler)
    {
        rig.Await(socket.DisposeAsync(), "the socket to stop");
        Assert.Empty(handler.Wrong);
    }

    // ------------------------------------------------------------------ joining and leaving

    [Fact]
    public void A_group_is_received_from_the_join_to_the_leave() => Run(rig =>
    {
        DatagramSocket socket = Open(rig, out RecordingHandler handler);
        using RawDatagrams sender = new(rig);
        sender.SendToGroup(Bytes("before"), s_one, PortOf(socket));
        Assert.Equal(["first"], BeforeMarker(rig, sender, socket, handler, "first"));
        rig.Await(socket.JoinAsync(OnLo(s_one)));
        Assert.Equal([OnLo(s_one)], socket.Groups);
        sender.SendToGroup(Bytes("during"), s_one, PortOf(socket));
        Assert.Equal(["first", "during", "second"], BeforeMarker(rig, sender, socket, handler, "second"));
        rig.Await(socket.LeaveAsync(OnLo(s_one)));
        Assert.Empty(socket.Groups);
        sender.SendToGroup(Bytes("after"), s_one, PortOf(socket));
        Assert.Equal(["first", "during", "second", "third"], BeforeMarker(rig, sender, socket, handler, "third"));
        Assert.Equal(["started", "joined 239.77.1.1 on lo", "left 239.77.1.1 on lo"], handler.Events);
        Close(rig, socket, handler);
    });

    [Fact]
    public void Groups_of_the_options_are_joined_when_the_start_has_ended_and_left_by_the_stop() => Run(rig =>
    {
        DatagramSocket socket = Open(rig, out RecordingHandler handler, groups: [OnLo(s_one), OnLo(s_two)]);
        using RawDatagrams sender = new(rig);
        sender.SendToGroup(Bytes("one"), s_one, PortOf(socket));
        sender.SendToGroup(Bytes("two"), s_two, PortOf(socket));
        Assert.Equal(["one", "two", "m"], BeforeMarker(rig, sender, socket, handler, "m"));
        Close(rig, socket, handler);
        Assert.Equal(["started", "joined 239.77.1.1 on lo", "joined 239.77.1.2 on lo", "left 239.77.1.1 on lo",
            "left 239.77.1.2 on lo", "stopped"], handler.Events);
    });

    [Fact]
    public void A_socket_receives_its_own_groups_only_unless_all_are_requested() => Run(rig =>
    {
        DatagramSocket first = Open(rig, out RecordingHandler hearsOne);
        DatagramSocket second = Open(rig, out RecordingHandler hearsTwo, PortOf(first));
        DatagramSocket third = Open(rig, out RecordingHandler hearsAll, PortOf(first), allGroups: true);
        using RawDatagrams sender = new(rig);
        rig.Await(first.JoinAsync(OnLo(s_one)));
        rig.Await(second.JoinAsync(OnLo(s_two)));
        for (int i = 0; i < 3; i++)
        {
            sender.SendToGroup(Bytes("one"), s_one, PortOf(first));
            sender.SendToGroup(Bytes("two"), s_two, PortOf(first));
        }

        rig.Until(() => hearsAll.Count == 6 && hearsOne.Count >= 3 && hearsTwo.Count >= 3, "all copies");
        rig.Settle();
        Assert.Equal(["one", "one", "one"], hearsOne.Datagrams.Select(static d => Text(d)));
        Assert.Equal(["two", "two", "two"], hearsTwo.Datagrams.Select(static d => Text(d)));
        Close(rig, first, hearsOne);
        Close(rig, second, hearsTwo);
        Close(rig, third, hearsAll);
    });

    [Fact]
    public void A_source_specific_member_receives_that_source_only() => Run(rig =>
    {
        DatagramSocket socket = Open(rig, out RecordingHandler handler);
        using RawDatagrams sender = new(rig);
        MulticastGroup other = OnLo(s_one, IPAddress.Parse("127.0.0.2"));
        rig.Await(socket.JoinAsync(other));
        sender.SendToGroup(Bytes("not wanted"), s_one, PortOf(socket));
        Assert.Equal(["a"], BeforeMarker(rig, sender, socket, handler, "a"));
        rig.Await(socket.JoinAsync(OnLo(s_one, IPAddress.Loopback)));
        sender.SendToGroup(Bytes("wanted"), s_one, PortOf(socket));
        Assert.Equal(["a", "wanted", "b"], BeforeMarker(rig, sender, socket, handler, "b"));
        rig.Await(socket.LeaveAsync(OnLo(s_one, IPAddress.Loopback)));
        sender.SendToGroup(Bytes("no more"), s_one, PortOf(socket));
        Assert.Equal(["a", "wanted", "b", "c"], BeforeMarker(rig, sender, socket, handler, "c"));
        Assert.Equal([other], socket.Groups);
        Close(rig, socket, handler);
    });

    [Fact]
    public void With_several_loops_each_datagram_of_a_group_is_received_once() => Run(rig =>
    {
        DatagramSocket socket = Open(rig, out _, groups: [OnLo(s_one)], loops: 2);
        using RawDatagrams sender = new(rig);
        for (int i = 0; i < 20; i++) sender.SendToGroup(Bytes("copy"), s_one, PortOf(socket));
        rig.Until(() => socket.ReadCounters().DatagramsReceived >= 20, "all");
        rig.Settle();
        Assert.Equal(20, socket.ReadCounters().DatagramsReceived);
        rig.Await(socket.DisposeAsync());
    });

    // ------------------------------------------------------------------ sending

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void Members_on_this_machine_receive_it_only_with_loopback(bool loopback) => Run(rig =>
    {
        // The loopback device returns everything by itself, so another one is needed.
        string? name = rig.IsVirtual ? "memory0" : NameOfDevice(AddressFamily.InterNetwork);
        Assert.SkipWhen(name is null, "No interface of this machine has IPv4 and multicast.");
        DatagramSocket socket = Open(rig, out RecordingHandler handler, groups: [new MulticastGroup(s_one, name)]);
        DatagramSocket sender = OpenSender(rig, name!, loopback);
        Assert.Equal(SendResult.Queued, sender.Send(Bytes("group"), new DatagramPeer(s_one, PortOf(socket))));
        Assert.Equal(SendResult.Queued, sender.SendRun(Pattern(1_000), 100, new DatagramPeer(s_one, PortOf(socket))));
        rig.Until(() => sender.ReadCounters().DatagramsSent == 11, "all to be sent");
        Assert.Equal(SendResult.Queued,
            sender.Send(Bytes("marker"), new DatagramPeer(IPAddress.Loopback, PortOf(socket))));
        rig.Until(() => handler.Datagrams.Any(static d => Text(d) == "marker"), "the marker");
        Assert.Equal(loopback ? 12 : 1, handler.Count);
        if (loopback) Assert.Equal(Pattern(1_000), handler.Datagrams.Skip(1).Take(10).SelectMany(static d => d));
        rig.Await(sender.DisposeAsync());
        Close(rig, socket, handler);
    });

    [Fact]
    public void Groups_of_IPv6_are_joined_by_interface() => Run(rig =>
    {
        string? name = rig.IsVirtual ? "memory0" : NameOfDevice(AddressFamily.InterNetworkV6);
        Assert.SkipWhen(name is null, "No interface of this machine has IPv6 and multicast.");
        IPAddress group = IPAddress.Parse("ff02::7:7777");
        RecordingHandler handler = new();
        DatagramSocket socket =
            new(new DatagramOptions { Engine = rig.Engine, EndPoint = new IPEndPoint(IPAddress.IPv6Any, 0) },
                () => handler);
        rig.Await(socket.StartAsync());
        rig.Await(socket.JoinAsync(new MulticastGroup(group, name)));
        DatagramSocket sender = new(
            new DatagramOptions
            {
                Engine = rig.Engine,
                EndPoint = new IPEndPoint(IPAddress.IPv6Any, 0),
                MulticastInterface = name,
                MulticastLoopback = true
            },
            static () => new RecordingHandler());
        rig.Await(sender.StartAsync());
        Assert.Equal(SendResult.Queued, sender.Send(Bytes("six"), new DatagramPeer(group, PortOf(socket))));
        rig.Until(() => handler.Count == 1 || sender.ReadCounters().Failed > 0, "the datagram");
        Assert.Equal("six", Text(handler.Datagrams.Single()));
        rig.Await(socket.LeaveAsync(new MulticastGroup(group, name)));
        Assert.Equal(["started", $"joined {group} on {name}", $"left {group} on {name}"], handler.Events);
        rig.Await(sender.DisposeAsync());
        Close(rig, socket, handler);
    });

    private static string? NameOfDevice(AddressFamily family) => NetworkInterface.GetAllNetworkInterfaces()
        .Where(static i => i.OperationalStatus == OperationalStatus.Up && i.SupportsMulticast
            && i.NetworkInterfaceType != NetworkInterfaceType.Loopback)
        .FirstOrDefault(i => i.GetIPProperties().UnicastAddresses.Any(a => a.Address.AddressFamily == family
            && (family == AddressFamily.InterNetwork || a.Address.IsIPv6LinkLocal)))?.Name;

    [Fact]
    public void Datagrams_to_a_group_pass_no_router_unless_asked() => Run(rig =>
    {
        Assert.SkipWhen(rig.IsVirtual, "The memory network has no routers.");
        using RawDatagrams member = new(rig, new IPEndPoint(IPAddress.Any, 0));
        member.JoinOnLo(s_one);
        foreach ((int asked, int expected) in new (int, int)[] { (-1, 1), (0, 0), (7, 7) })
        {
            DatagramOptions options = asked < 0
                ? new DatagramOptions
                {
                    Engine = rig.Engine,
                    EndPoint = new IPEndPoint(IPAddress.Loopback, 0),
                    MulticastInterface = "lo"
                }
                : new DatagramOptions
                {
                    Engine = rig.Engine,
                    EndPoint = new IPEndPoint(IPAddress.Loopback, 0),
                    MulticastInterface = "lo",
                    MulticastHops = asked,
                    MulticastLoopback = true
                };
            DatagramSocket sender = new(options, static () => new RecordingHandler());
            rig.Await(sender.StartAsync());
            Assert.Equal(SendResult.Queued,
                sender.Send(Bytes("hop"), new DatagramPeer(s_one, ((IPEndPoint)member.EndPoint).Port)));
            Assert.Equal(expected, member.ReceiveHops());
            rig.Await(sender.DisposeAsync());
        }
    });

    // ------------------------------------------------------------------ what is refused

    [Fact]
    public void A_group_that_cannot_be_joined_or_left_is_refused_with_its_reason_and_the_socket_continues() =>
        Run(rig =>
        {
            DatagramSocket socket = Open(rig, out RecordingHandler handler);
            using RawDatagrams sender = new(rig);
            Assert.Throws<ArgumentException>(() => rig.Await(socket.JoinAsync(IPAddress.Loopback)));
            Assert.Throws<ArgumentException>(() => rig.Await(socket.JoinAsync(IPAddress.Parse("240.0.0.1"))));
            Assert.Throws<ArgumentException>(() => rig.Await(socket.JoinAsync(OnLo(s_one, IPAddress.IPv6Loopback))));
            Assert.Throws<ArgumentException>(() => rig.Await(socket.JoinAsync(OnLo(s_one, s_two))));
            Assert.Contains("not a member",
                Assert.Throws<InvalidOperationException>(() => rig.Await(socket.LeaveAsync(OnLo(s_one)))).Message,
                StringComparison.Ordinal);
            Assert.Contains("nowhere0", Assert.Throws<NetworkException>(() =>
                rig.Await(socket.JoinAsync(new MulticastGroup(s_one, "nowhere0")))).Message, StringComparison.Ordinal);
            if (OperatingSystem.IsLinux())
            {
                // It would start, and receive nothing.
                DatagramSocket bound = new(new DatagramOptions
                {
                    Engine = rig.Engine,
                    EndPoint = new IPEndPoint(IPAddress.Loopback, 0),
                    Groups = [OnLo(s_one)]
                }, static () => new RecordingHandler());
                string why = Assert.Throws<ArgumentException>(() => rig.Await(bound.StartAsync())).Message;
                Assert.Contains("a socket bound to 127.0.0.1 receives nothing of a group on Linux: bind it to "
                    + "IPAddress.Any or to 239.77.1.1", why, StringComparison.Ordinal);
                DatagramSocket later =
                    new(new DatagramOptions { Engine = rig.Engine, EndPoint = new IPEndPoint(IPAddress.Loopback, 0) },
                        static () => new RecordingHandler());
                rig.Await(later.StartAsync());
                rig.Await(later.JoinAsync(OnLo(s_one)));
                Assert.Contains(rig.Notices, static n => n.Page == "multicast.md"
                    && n.Message.Contains("IPAddress.Any", StringComparison.Ordinal));
                rig.Await(later.DisposeAsync());
            }

            rig.Await(socket.JoinAsync(OnLo(s_one)));
            Assert.Contains("already",
                Assert.Throws<InvalidOperationException>(() => rig.Await(socket.JoinAsync(OnLo(s_one)))).Message,
                StringComparison.Ordinal);
            Assert.Throws<InvalidOperationException>(() => rig.Await(socket.LeaveAsync(s_one)));
            Assert.Equal(["m"], BeforeMarker(rig, sender, socket, handler, "m"));
            Close(rig, socket, handler);
            Assert.Throws<InvalidOperationException>(() => rig.Await(socket.JoinAsync(OnLo(s_two))));
        });

    [Fact]
    public void More_groups_than_the_system_allows_are_refused_by_the_name_of_the_sysctl() => Run(rig =>
    {
        const string sysctl = "/proc/sys/net/ipv4/igmp_max_memberships";
        int limit = rig.IsVirtual || !File.Exists(sysctl)
            ? 20
            : int.Parse(File.ReadAllText(sysctl), CultureInfo.InvariantCulture);
        Assert.SkipWhen(limit > 200, "The descriptor limit of this machine is too high for the test.");
        DatagramSocket socket = Open(rig, out RecordingHandler handler);
        for (int i = 1; i <= limit; i++)
            rig.Await(socket.JoinAsync(OnLo(new IPAddress(new byte[] { 239, 77, 2, (byte)i }))));
        NetworkException refused = Assert.Throws<NetworkException>(() => rig.Await(socket.JoinAsync(OnLo(s_two))));
        Assert.Equal(ErrorCategory.Limit, refused.Error.Category);
        Assert.Contains("net.ipv4.igmp_max_memberships", refused.Message, StringComparison.Ordinal);
        // Leaving one group makes space for another.
        rig.Await(socket.LeaveAsync(OnLo(new IPAddress(new byte[] { 239, 77, 2, 1 }))));
        rig.Await(socket.JoinAsync(OnLo(s_two)));
        using RawDatagrams sender = new(rig);
        sender.SendToGroup(Bytes("heard"), s_two, PortOf(socket));
        rig.Until(() => handler.Count == 1, "a datagram of the last group");
        Close(rig, socket, handler);
    });

    [Fact]
    public void A_start_fails_and_leaves_nothing_open_when_its_group_cannot_be_joined() => Run(rig =>
    {
        DatagramSocket socket = new(
            new DatagramOptions
            {
                Engine = rig.Engine,
                EndPoint = new IPEndPoint(IPAddress.Any, 0),
                Groups = [OnLo(s_one), new MulticastGroup(s_two, "nowhere0")]
            },
            static () => new RecordingHandler());
        Assert.Throws<NetworkException>(() => rig.Await(socket.StartAsync()));
        Assert.False(socket.IsStarted);
    });
}
