using System.Diagnostics;
using System.Net;

namespace Whimbrel.Conformance;

/// <summary> Datagrams between two hosts, and through a router: behaviour that loopback does not have. Each host is a
/// network namespace with an engine of one loop. Real engines only; skipped if no namespace can be created. </summary>
public abstract class TwoHostSuite(Transport transport)
{
    private static readonly IPAddress s_group = IPAddress.Parse("239.77.1.1");

    /// <summary>Runs a test with an engine on each host, and releases everything at the end.</summary>
    private void Run(Action<Ends> test, bool routed = false)
    {
        using TwoHosts hosts = new(routed);
        Rig a = transport.Make(0, 1);
        Rig b = transport.Make(0, 1);
        try
        {
            LoopRoom.EnterNetwork(a, hosts.A);
            LoopRoom.EnterNetwork(b, hosts.B);
            Ends ends = new(hosts, a, b);
            test(ends);
            ends.Close();
            a.Finish();
            b.Finish();
        }
        catch (Exception e) when (e.GetType().Name != "SkipException")
        {
            a.GiveUp();
            b.GiveUp();
            Assert.Fail($"{transport}: {e}");
        }
    }

    [Fact]
    public void A_datagram_reaches_the_other_host_and_its_answer_comes_back() => Run(ends =>
    {
        foreach (IPAddress address in (IPAddress[])[TwoHosts.AddressOfB(), TwoHosts.V6OfB])
        {
            (DatagramSocket server, RecordingHandler echo) = ends.OpenB(new IPEndPoint(address, 0));
            echo.Echoes = true;
            (_, RecordingHandler client) = ends.OpenA(new IPEndPoint(address.AddressFamily
                == System.Net.Sockets.AddressFamily.InterNetwork ? IPAddress.Any : IPAddress.IPv6Any, 0));
            DatagramPeer peer = new(server.EndPoint!);
            for (int i = 0; i < 50; i++)
            {
                client.Send([1, (byte)i], peer);
                int arrived = i + 1;
                ends.Until(() => client.Count == arrived, "the answer to come back");
            }

            Assert.Equal(Enumerable.Range(0, 50).Select(static i => (byte)i),
                client.Datagrams.Select(static d => d[1]));
            Assert.All(client.All, d => Assert.Equal(peer, d.Peer));
        }
    });

    [Fact]
    public void A_peer_of_one_interface_is_answered_there() => Run(ends =>
    {
        // A link-local address is ambiguous without an interface: every link has a peer with this address.
        TwoHosts.AddAddress(ends.Hosts.A, "fe80::77:1/64", "a0", "nodad");
        TwoHosts.AddAddress(ends.Hosts.B, "fe80::77:2/64", "b0", "nodad");
        (DatagramSocket server, RecordingHandler echo) = ends.OpenB(new IPEndPoint(IPAddress.IPv6Any, 0));
        echo.Echoes = true;
        (_, RecordingHandler client) = ends.OpenA(new IPEndPoint(IPAddress.IPv6Any, 0));
        IPAddress there = IPAddress.Parse("fe80::77:2%" + TwoHosts.NumberOf(ends.Hosts.A, "a0"));
        client.Send("hello"u8, new DatagramPeer(new IPEndPoint(there, ((IPEndPoint)server.EndPoint!).Port)));
        ends.Until(() => client.Count + echo.Failed.Count > 0, "the answer to come back");
        Assert.Empty(echo.Failed);
        IPEndPoint seen = (IPEndPoint)echo.All[0].Peer.ToEndPoint()!;
        Assert.Equal(TwoHosts.NumberOf(ends.Hosts.B, "b0"), $"{seen.Address.ScopeId}");
        Assert.Equal("hello"u8.ToArray(), client.Datagrams[0]);
    });

    [Fact]
    public void A_run_of_datagrams_that_the_cable_cannot_take_as_one_goes_one_by_one() => Run(ends =>
    {
        (DatagramSocket server, RecordingHandler received) = ends.OpenB(new IPEndPoint(TwoHosts.AddressOfB(), 0));
        DatagramPeer peer = new(server.EndPoint!);
        (_, RecordingHandler client) = ends.OpenA(
            new DatagramOptions { EndPoint = new IPEndPoint(IPAddress.Any, 0), PathMtu = PathMtuRule.Fragment });
        // Each is larger than the MTU, which no device segments: each is sent separately, in IP fragments. Those that
        // fit are sent as runs.
        byte[] large = [.. Enumerable.Range(0, 5 * 4_000).Select(static i => (byte)(i * 31))];
        client.SendRun(large, 4_000, peer);
        client.SendRun(large, 1_000, peer);
        ends.Until(() => received.Count + client.Failed.Count >= 25, "all of them");
        Assert.Empty(client.Failed);
        Assert.Equal([.. large.Chunk(4_000), .. large.Chunk(1_000)], received.Datagrams);
    });

    [Fact]
    public void An_unbound_port_is_reported_by_the_other_host() => Run(ends =>
    {
        ends.SkipWithoutErrors();
        (DatagramSocket gone, _) = ends.OpenB(new IPEndPoint(TwoHosts.AddressOfB(), 0));
        DatagramPeer peer = new(gone.EndPoint!);
        ends.B.Await(gone.StopAsync(), "the port to be free");
        (_, RecordingHandler client) = ends.OpenA(new IPEndPoint(IPAddress.Any, 0));
        client.Send([1], peer);
        ends.Until(() => client.PeerErrors.Count > 0, "the report of the refusal");
        Assert.Equal((ErrorCategory.Refused, peer), (client.PeerErrors[0].Error.Category, client.PeerErrors[0].Peer));

        // And it continues to work.
        (DatagramSocket server, RecordingHandler echo) = ends.OpenB(new IPEndPoint(TwoHosts.AddressOfB(), 0));
        echo.Echoes = true;
        client.Send([2], new DatagramPeer(server.EndPoint!));
        ends.Until(() => client.Count == 1, "the answer of another port");
    });

    [Fact]
    public void The_hop_limit_is_what_was_asked_for() => Run(ends =>
    {
        Assert.SkipUnless(TwoHosts.Exists("python3"), "Reading the hop limit needs python3.");
        foreach (int hops in (int[])[1, 5])
        {
            // A foreign receiver, because ours does not show the hop limit.
            const string Program = """
                import socket, struct, sys
                s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                s.bind(('', 0))
                s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, struct.pack('4s4s', socket.inet_aton(sys.argv[1]), socket.inet_aton(sys.argv[2])))
                s.setsockopt(socket.IPPROTO_IP, 12, 1)  # IP_RECVTTL, which older Pythons do not name
                s.settimeout(20)
                print(s.getsockname()[1], flush=True)
                data, control, flags, sender = s.recvmsg(100, 100)
                print(struct.unpack('i', control[0][2])[0], flush=True)
                """;
            ProcessStartInfo start = new("ip",
                ["netns", "exec", ends.Hosts.B, "python3", "-c", Program, $"{s_group}", $"{TwoHosts.AddressOfB()}"])
            {
                RedirectStandardOutput = true
            };
            using Process receiver = Process.Start(start)!;
            int port = int.Parse(receiver.StandardOutput.ReadLine()!,
                System.Globalization.CultureInfo.InvariantCulture);
            (_, RecordingHandler sender) = ends.OpenA(new DatagramOptions
            {
                EndPoint = new IPEndPoint(IPAddress.Any, 0),
                MulticastInterface = TwoHosts.NumberOf(ends.Hosts.A, "a0"),
                MulticastHops = hops
            });
            sender.Send([1], new DatagramPeer(s_group, port));
            Assert.Equal($"{hops}", receiver.StandardOutput.ReadLine());
            receiver.WaitForExit();
        }
    });

    [Fact]
    public void With_no_hop_a_group_that_has_a_member_here_stays_here() => Run(ends =>
    {
        // Without a member on its own host Linux still sends it out, with a hop limit of 0 that the next host accepts.
        (DatagramSocket member, RecordingHandler received) = ends.OpenB(Member(ends, "b0"));
        int port = ((IPEndPoint)member.EndPoint!).Port;
        string here = TwoHosts.NumberOf(ends.Hosts.A, "a0");
        (_, RecordingHandler local) = ends.OpenA(new DatagramOptions
        {
            EndPoint = new IPEndPoint(IPAddress.Any, port),
            Groups = [new MulticastGroup(s_group, here)]
        });
        (_, RecordingHandler near) = ends.OpenA(new DatagramOptions
        {
            EndPoint = new IPEndPoint(IPAddress.Any, 0),
            MulticastInterface = here,
            MulticastHops = 0,
            MulticastLoopback = true
        });
        (_, RecordingHandler far) =
            ends.OpenA(new DatagramOptions { EndPoint = new IPEndPoint(IPAddress.Any, 0), MulticastInterface = here });
        near.Send("near"u8, new DatagramPeer(s_group, port));
        ends.Until(() => local.Count == 1, "the member on the same host to get the first");
        far.Send("far"u8, new DatagramPeer(s_group, port));
        ends.Until(() => received.Count >= 1, "the other host to get the other one");
        ends.Settle();
        Assert.Equal("far"u8.ToArray(), Assert.Single(received.Datagrams));
        Assert.Equal("near"u8.ToArray(), Assert.Single(local.Datagrams));
    });

    [Fact]
    public void A_group_is_sent_to_and_received_on_the_named_interface() => Run(ends =>
    {
        (DatagramSocket one, RecordingHandler onFirst) = ends.OpenB(Member(ends, "b0"));
        int port = ((IPEndPoint)one.EndPoint!).Port;
        (_, RecordingHandler onSecond) = ends.OpenB(Member(ends, "b1", port));
        (_, RecordingHandler onBoth) = ends.OpenB(new DatagramOptions
        {
            EndPoint = new IPEndPoint(IPAddress.Any, port),
            ReuseAddress = true,
            Groups = [new MulticastGroup(s_group, TwoHosts.NumberOf(ends.Hosts.B, "b0")),
                new MulticastGroup(s_group, TwoHosts.NumberOf(ends.Hosts.B, "b1"))]
        });
        RecordingHandler[] senders = [.. ((string[])["a0", "a1"]).Select(d => ends.OpenA(new DatagramOptions
        {
            EndPoint = new IPEndPoint(IPAddress.Any, 0),
            MulticastInterface = TwoHosts.NumberOf(ends.Hosts.A, d)
        }).Handler)];
        for (int round = 0; round < 20; round++)
        {
            foreach (byte cable in (byte[])[0, 1])
                senders[cable].Send([cable, (byte)round], new DatagramPeer(s_group, port));
        }

        ends.Until(() => onFirst.Count == 20 && onSecond.Count == 20 && onBoth.Count == 40,
            "all members to get what is theirs");
        ends.Settle();
        Assert.All(onFirst.Datagrams, static d => Assert.Equal(0, d[0]));
        Assert.All(onSecond.Datagrams, static d => Assert.Equal(1, d[0]));
        Assert.Equal(20, onBoth.Datagrams.Count(static d => d[0] == 0));
        Assert.Equal((20, 20, 40), (onFirst.Count, onSecond.Count, onBoth.Count));
        Assert.Equal(new DatagramPeer(TwoHosts.AddressOfA(0), onFirst.All[0].Peer.Port), onFirst.All[0].Peer);
        Assert.Equal(new DatagramPeer(TwoHosts.AddressOfA(1), onSecond.All[0].Peer.Port), onSecond.All[0].Peer);
    });

    [Fact]
    public void A_source_specific_member_receives_that_source_only() => Run(ends =>
    {
        string device = TwoHosts.NumberOf(ends.Hosts.B, "b0");
        (DatagramSocket one, RecordingHandler specific) = ends.OpenB(new DatagramOptions
        {
            EndPoint = new IPEndPoint(IPAddress.Any, 0),
            ReuseAddress = true,
            Groups = [new MulticastGroup(s_group, device, TwoHosts.AddressOfA())]
        });
        int port = ((IPEndPoint)one.EndPoint!).Port;
        (_, RecordingHandler any) = ends.OpenB(Member(ends, "b0", port));
        string number = TwoHosts.NumberOf(ends.Hosts.A, "a0");
        (_, RecordingHandler wanted) = ends.OpenA(
            new DatagramOptions { EndPoint = new IPEndPoint(TwoHosts.AddressOfA(), 0), MulticastInterface = number });
        (_, RecordingHandler other) = ends.OpenA(new DatagramOptions
        {
            EndPoint = new IPEndPoint(TwoHosts.OtherAddressOfA, 0),
            MulticastInterface = number
        });
        for (int i = 0; i < 10; i++)
        {
            other.Send("other"u8, new DatagramPeer(s_group, port));
            wanted.Send("wanted"u8, new DatagramPeer(s_group, port));
        }

        ends.Until(() => any.Count == 20 && specific.Count == 10, "both members to get what is theirs");
        ends.Settle();
        Assert.All(specific.All, static d => Assert.Equal((TwoHosts.AddressOfA(), "wanted"),
            (d.Peer.ToAddress(), System.Text.Encoding.ASCII.GetString(d.Data))));
        Assert.Equal(10, specific.Count);
    });

    [Fact]
    public void After_an_interface_went_down_and_up_sockets_and_memberships_work_as_before() => Run(ends =>
    {
        (DatagramSocket server, RecordingHandler echo) = ends.OpenB(new IPEndPoint(TwoHosts.AddressOfB(), 0));
        echo.Echoes = true;
        (DatagramSocket member, RecordingHandler received) = ends.OpenB(Member(ends, "b0"));
        DatagramPeer group = new(s_group, ((IPEndPoint)member.EndPoint!).Port);
        (_, RecordingHandler client) = ends.OpenA(new DatagramOptions
        {
            EndPoint = new IPEndPoint(IPAddress.Any, 0),
            MulticastInterface = TwoHosts.NumberOf(ends.Hosts.A, "a0")
        });
        DatagramPeer peer = new(server.EndPoint!);
        client.Send("before"u8, peer);
        client.Send("before"u8, group);
        ends.Until(() => client.Count == 1 && received.Count == 1, "the answers before");

        TwoHosts.Ip("-n", ends.Hosts.A, "link", "set", "a0", "down");
        client.Send("lost"u8, peer);
        ends.Until(() => client.Failed.Count == 1, "the report of the failure");
        Assert.Equal((ErrorCategory.Unreachable, peer), (client.Failed[0].Error.Category, client.Failed[0].Peer));
        TwoHosts.Ip("-n", ends.Hosts.A, "link", "set", "a0", "up");
        TwoHosts.Ip("-n", ends.Hosts.B, "link", "set", "b0", "down");
        TwoHosts.Ip("-n", ends.Hosts.B, "link", "set", "b0", "up");

        // The link is up a moment after the interfaces are: data sent before is lost, as on any network.
        ends.Until(
            () =>
            {
                client.Send("after"u8, peer);
                client.Send("after"u8, group);
                return client.Count >= 2 && received.Count >= 2;
            },
            "the answers after");
        Assert.Equal("after"u8.ToArray(), client.Datagrams[1]);
        Assert.Equal("after"u8.ToArray(), received.Datagrams[1]);
    });

    [Fact]
    public void A_datagram_larger_than_the_cable_takes_arrives_whole_or_is_refused_as_asked() => Run(ends =>
    {
        (DatagramSocket server, RecordingHandler received) = ends.OpenB(new IPEndPoint(TwoHosts.AddressOfB(), 0));
        DatagramPeer peer = new(server.EndPoint!);
        byte[] large = [.. Enumerable.Range(0, 60_000).Select(static i => (byte)(i * 31))];
        (_, RecordingHandler fragmenting) = ends.OpenA(
            new DatagramOptions { EndPoint = new IPEndPoint(IPAddress.Any, 0), PathMtu = PathMtuRule.Fragment });
        fragmenting.Send(large, peer);
        ends.Until(() => received.Count == 1, "the fragments to arrive and be joined");
        Assert.Equal(large, received.Datagrams[0]);

        (_, RecordingHandler whole) = ends.OpenA(
            new DatagramOptions { EndPoint = new IPEndPoint(IPAddress.Any, 0), PathMtu = PathMtuRule.DontFragment });
        whole.Send(large, peer);
        whole.Send(large.AsSpan(0, 1_472), peer);
        ends.Until(() => whole.Failed.Count == 1 && received.Count == 2, "the refusal, and the one that fits");
        Assert.Equal((ErrorCategory.Limit, 60_000), (whole.Failed[0].Error.Category, whole.Failed[0].Length));
        Assert.Equal(1_472, received.Datagrams[1].Length);
    });

    [Fact]
    public void A_router_with_a_smaller_MTU_reports_the_size_of_the_path() => Run(
        ends =>
        {
            ends.SkipWithoutErrors();
            (DatagramSocket server, RecordingHandler received) = ends.OpenB(new IPEndPoint(TwoHosts.AddressOfB(1), 0));
            DatagramPeer peer = new(server.EndPoint!);
            (_, RecordingHandler client) = ends.OpenA(new DatagramOptions
            {
                EndPoint = new IPEndPoint(IPAddress.Any, 0),
                PathMtu = PathMtuRule.DontFragment
            });
            client.Send(new byte[1_400], peer);
            ends.Until(() => client.PeerErrors.Count == 1, "the report of the router");
            Assert.Equal((ErrorCategory.Limit, 1_280, peer),
                (client.PeerErrors[0].Error.Category, client.PeerErrors[0].PathMtu, client.PeerErrors[0].Peer));

            // 1,280 bytes less the headers of IPv4 and UDP.
            client.Send(new byte[1_252], peer);
            ends.Until(() => received.Count == 1, "what the path takes to arrive");
            Assert.Equal(1_252, received.Datagrams[0].Length);

            // From now on the kernel knows the path MTU, and refuses immediately.
            client.Send(new byte[1_253], peer);
            ends.Until(() => client.Failed.Count == 1, "the refusal");
            Assert.Equal(ErrorCategory.Limit, client.Failed[0].Error.Category);
        },
        routed: true);

    [Fact]
    public void A_datagram_dropped_by_a_firewall_is_reported_on_the_way_out_and_lost_on_the_way_in() => Run(ends =>
    {
        Assert.SkipUnless(TwoHosts.Exists("nft"), "The test needs the command nft (Debian: nftables).");
        (DatagramSocket server, RecordingHandler received) = ends.OpenB(new IPEndPoint(TwoHosts.AddressOfB(), 0));
        DatagramPeer peer = new(server.EndPoint!);
        // Without segmentation: a run passes a firewall as one packet, with another length.
        (_, RecordingHandler client) =
            ends.OpenA(new DatagramOptions { EndPoint = new IPEndPoint(IPAddress.Any, 0), Segmentation = false });
        (int code, string output) = Nft(ends.Hosts.A, "add table inet t; add chain inet t o { type filter hook output "
            + "priority 0; }; add rule inet t o udp length 108 drop");
        Assert.SkipUnless(code == 0, $"The command nft does not work here: {output.Trim()}");
        client.Send(new byte[100], peer);
        ends.Until(() => client.Failed.Count == 1, "the report of the refusal");
        Assert.Contains("firewall", client.Failed[0].Error.Message, StringComparison.Ordinal);

        (code, output) = Nft(ends.Hosts.B, "add table inet t; add chain inet t i { type filter hook input priority 0; "
            + "}; add rule inet t i udp length 208 drop");
        Assert.True(code == 0, output);
        client.Send(new byte[200], peer);
        client.Send(new byte[50], peer);
        ends.Until(() => received.Count == 1, "the one that is let in");
        Assert.Equal(50, received.Datagrams[0].Length);
        Assert.Single(client.Failed);

        static (int, string) Nft(string space, string rules) =>
            TwoHosts.Execute("ip", "netns", "exec", space, "nft", rules);
    });

    private static DatagramOptions Member(Ends ends, string device, int port = 0) =>
        new()
        {
            EndPoint = new IPEndPoint(IPAddress.Any, port),
            ReuseAddress = true,
            Groups = [new MulticastGroup(s_group, TwoHosts.NumberOf(ends.Hosts.B, device))]
        };

    /// <summary>The engines of both hosts and everything opened on them.</summary>
    private sealed class Ends(TwoHosts hosts, Rig a, Rig b)
    {
        private readonly List<(Rig Rig, DatagramSocket Socket, RecordingHandler Handler)> _open = [];

        internal TwoHosts Hosts => hosts;

        internal Rig A => a;

        internal Rig B => b;

        /// <summary>System.Net.Sockets has no error queue: only connected sockets report ICMP errors.</summary>
        internal void SkipWithoutErrors() => Assert.SkipWhen(a.Engine.Kind == EngineKind.Portable,
            "The portable engine gets no ICMP errors from unconnected sockets.");

        internal (DatagramSocket Socket, RecordingHandler Handler) OpenA(EndPoint endPoint) =>
            OpenA(new DatagramOptions { EndPoint = endPoint });

        internal (DatagramSocket Socket, RecordingHandler Handler) OpenB(EndPoint endPoint) =>
            OpenB(new DatagramOptions { EndPoint = endPoint });

        internal (DatagramSocket Socket, RecordingHandler Handler) OpenA(DatagramOptions options) => Open(a, options);

        internal (DatagramSocket Socket, RecordingHandler Handler) OpenB(DatagramOptions options) => Open(b, options);

        internal void Until(Func<bool> condition, string what) => a.Until(condition, what);

        /// <summary>Waits until everything that can arrive has arrived.</summary>
        internal void Settle()
        {
            a.Settle();
            b.Settle();
        }

        internal void Close()
        {
            foreach ((Rig rig, DatagramSocket socket, RecordingHandler handler) in _open)
            {
                rig.Await(socket.DisposeAsync(), "the datagram socket to stop");
                Assert.Empty(handler.Wrong);
            }
        }

        private (DatagramSocket, RecordingHandler) Open(Rig rig, DatagramOptions options)
        {
            RecordingHandler handler = new();
            DatagramOptions here = options.Clone();
            typeof(DatagramOptions).GetProperty(nameof(DatagramOptions.Engine))!.SetValue(here, rig.Engine);
            DatagramSocket socket = new(here, () => handler);
            rig.Await(socket.StartAsync(), "the datagram socket to start");
            _open.Add((rig, socket, handler));
            return (socket, handler);
        }
    }
}
