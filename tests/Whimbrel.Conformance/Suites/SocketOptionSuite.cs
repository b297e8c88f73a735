using System.Collections.Concurrent;
using System.Net;
using System.Net.Sockets;
using Whimbrel.Linux;

namespace Whimbrel.Conformance;

/// <summary>Socket options of TCP, read back from the sockets themselves, on engines that have real ones.</summary>
public abstract class SocketOptionSuite(Transport transport) : Suite(transport)
{
    private static readonly IPEndPoint s_loopback = new(IPAddress.Loopback, 0);

    private static readonly (string Name, int Level, int Number, int Expected)[] s_common =
    [
        ("NoDelay", SocketAbi.IPPROTO_TCP, SocketAbi.TCP_NODELAY, 1),
        ("KeepAlive", SocketAbi.SOL_SOCKET, SocketAbi.SO_KEEPALIVE, 1),
        ("KeepAliveTime", SocketAbi.IPPROTO_TCP, SocketAbi.TCP_KEEPIDLE, 61),
        ("KeepAliveInterval", SocketAbi.IPPROTO_TCP, SocketAbi.TCP_KEEPINTVL, 7),
        ("KeepAliveCount", SocketAbi.IPPROTO_TCP, SocketAbi.TCP_KEEPCNT, 4),
        ("UserTimeout", SocketAbi.IPPROTO_TCP, SocketAbi.TCP_USER_TIMEOUT, 4321),
        ("TypeOfService", SocketAbi.IPPROTO_IP, SocketAbi.IP_TOS, 0x28),
        // The kernel doubles the value for its own bookkeeping.
        ("ReceiveBufferBytes", SocketAbi.SOL_SOCKET, SocketAbi.SO_RCVBUF, 40_000),
        ("SendBufferBytes", SocketAbi.SOL_SOCKET, SocketAbi.SO_SNDBUF, 60_000),
    ];

    private static ServerOptions CommonServer(Rig rig, EndPoint endPoint, Action<NewSocket>? hook) => new()
    {
        Engine = rig.Engine,
        EndPoint = endPoint,
        Socket = new()
        {
            KeepAlive = true,
            KeepAliveTime = TimeSpan.FromSeconds(61),
            KeepAliveInterval = TimeSpan.FromSeconds(7),
            KeepAliveCount = 4,
            UserTimeout = TimeSpan.FromMilliseconds(4321),
            TypeOfService = 0x28,
            ReceiveBufferBytes = 20_000,
            SendBufferBytes = 30_000,
            OnCreated = hook,
        },
    };

    private static ClientOptions CommonClient(Rig rig, EndPoint endPoint, Action<NewSocket>? hook) => new()
    {
        Engine = rig.Engine,
        EndPoint = endPoint,
        Socket = new()
        {
            KeepAlive = true,
            KeepAliveTime = TimeSpan.FromSeconds(61),
            KeepAliveInterval = TimeSpan.FromSeconds(7),
            KeepAliveCount = 4,
            UserTimeout = TimeSpan.FromMilliseconds(4321),
            TypeOfService = 0x28,
            ReceiveBufferBytes = 20_000,
            SendBufferBytes = 30_000,
            OnCreated = hook,
        },
    };

    private static void NeedsLinux() =>
        Assert.SkipUnless(OperatingSystem.IsLinux(), "The test reads socket options by their Linux numbers.");

    /// <summary>A listener, an accepted and a client connection with these options, all open.</summary>
    private static MadeSockets Connected(Rig rig, Func<Action<NewSocket>, ServerOptions> serverOptions,
        Func<EndPoint, Action<NewSocket>, ClientOptions> clientOptions)
    {
        MadeSockets made = new();
        RecordingServer server = rig.Serve(null, serverOptions(made.Report));
        rig.Connect(rig.MakeClient(clientOptions(server.EndPoint!, made.Report)));
        server.Connected();
        Assert.Equal(1, made.Count(SocketRole.Listener));
        Assert.Equal(1, made.Count(SocketRole.Accepted));
        Assert.Equal(1, made.Count(SocketRole.Connected));
        return made;
    }

    private static void AllHave(MadeSockets made, string option, int level, int number, int expected)
    {
        foreach (SocketRole role in Enum.GetValues<SocketRole>())
        {
            int value = made.Read(role, level, number);
            Assert.True(value == expected, $"{option} of the {role} socket is {value}, and not {expected}");
        }
    }

    [Fact]
    public void Listener_accepted_and_client_sockets_have_every_option_that_was_set() => Run(rig =>
    {
        NeedsLinux();
        MadeSockets made = Connected(rig, hook => CommonServer(rig, s_loopback, hook),
            (endPoint, hook) => CommonClient(rig, endPoint, hook));
        foreach ((string name, int level, int number, int expected) in s_common)
            AllHave(made, name, level, number, expected);
    });

    [Fact]
    public void Both_kinds_of_the_service_byte_are_set_on_IPv6() => Run(rig =>
    {
        NeedsLinux();
        Assert.SkipUnless(Socket.OSSupportsIPv6, "This machine has no IPv6.");
        MadeSockets made = Connected(rig, hook => CommonServer(rig, new IPEndPoint(IPAddress.IPv6Loopback, 0), hook),
            (endPoint, hook) => CommonClient(rig, endPoint, hook));
        foreach ((string name, int level, int number, int expected) in s_common)
            AllHave(made, name, level, number, expected);
        AllHave(made, "TypeOfService", SocketAbi.IPPROTO_IPV6, SocketAbi.IPV6_TCLASS, 0x28);
    });

    [Fact]
    public void Options_at_their_default_leave_the_system_alone_but_for_no_delay() => Run(rig =>
    {
        NeedsLinux();
        MadeSockets made = Connected(
            rig,
            hook =>
                new ServerOptions { Engine = rig.Engine, EndPoint = s_loopback, Socket = new() { OnCreated = hook } },
            (endPoint, hook) =>
                new ClientOptions { Engine = rig.Engine, EndPoint = endPoint, Socket = new() { OnCreated = hook } });
        AllHave(made, "NoDelay", SocketAbi.IPPROTO_TCP, SocketAbi.TCP_NODELAY, 1);
        AllHave(made, "KeepAlive", SocketAbi.SOL_SOCKET, SocketAbi.SO_KEEPALIVE, 0);
        AllHave(made, "UserTimeout", SocketAbi.IPPROTO_TCP, SocketAbi.TCP_USER_TIMEOUT, 0);
        AllHave(made, "TypeOfService", SocketAbi.IPPROTO_IP, SocketAbi.IP_TOS, 0);
        AllHave(made, "FreeBind", SocketAbi.IPPROTO_IP, SocketAbi.IP_FREEBIND, 0);
        Assert.Equal(1, made.Read(SocketRole.Listener, SocketAbi.SOL_SOCKET, SocketAbi.SO_REUSEADDR));
        Assert.Equal(0, made.Read(SocketRole.Listener, SocketAbi.SOL_SOCKET, SocketAbi.SO_REUSEPORT));
        Assert.Equal(0, made.Read(SocketRole.Listener, SocketAbi.IPPROTO_TCP, SocketAbi.TCP_FASTOPEN));
        Assert.Equal(0, made.Read(SocketRole.Listener, SocketAbi.IPPROTO_TCP, SocketAbi.TCP_DEFER_ACCEPT));
    });

    [Fact]
    public void NoDelay_can_be_switched_off() => Run(rig =>
    {
        NeedsLinux();
        MadeSockets made = Connected(
            rig,
            hook => new ServerOptions
            {
                Engine = rig.Engine,
                EndPoint = s_loopback,
                Socket = new() { NoDelay = false, OnCreated = hook }
            },
            (endPoint, hook) => new ClientOptions
            {
                Engine = rig.Engine,
                EndPoint = endPoint,
                Socket = new() { NoDelay = false, OnCreated = hook }
            });
        AllHave(made, "NoDelay", SocketAbi.IPPROTO_TCP, SocketAbi.TCP_NODELAY, 0);
    });

    [Fact]
    public void Accepted_sockets_have_what_the_hook_set_on_their_listener_and_nothing_sets_it_again() => Run(rig =>
    {
        NeedsLinux();
        MadeSockets made = new();
        RecordingServer server = rig.Serve(null, CommonServer(rig, s_loopback, socket =>
        {
            made.Report(socket);
            if (socket.Role != SocketRole.Listener) return;
            socket.SetOption(SocketAbi.IPPROTO_TCP, SocketAbi.TCP_KEEPIDLE, 77);
            socket.SetOption(SocketAbi.IPPROTO_TCP, SocketAbi.TCP_NODELAY, 0);
        }));
        rig.ConnectPeer(server.EndPoint!);
        server.Connected();
        Assert.Equal(77, made.Read(SocketRole.Accepted, SocketAbi.IPPROTO_TCP, SocketAbi.TCP_KEEPIDLE));
        Assert.Equal(0, made.Read(SocketRole.Accepted, SocketAbi.IPPROTO_TCP, SocketAbi.TCP_NODELAY));
    });

    [Fact]
    public void A_listener_has_the_options_that_only_listeners_have() => Run(rig =>
    {
        NeedsLinux();
        MadeSockets made = new();
        RecordingServer server = rig.Serve(
            static s => s.AtReceived = static (x, data) => x.Send(data),
            new ServerOptions
            {
                Engine = rig.Engine,
                EndPoint = s_loopback,
                Socket = new()
                {
                    DeferAccept = TimeSpan.FromSeconds(5),
                    ReusePort = true,
                    FreeBind = true,
                    OnCreated = made.Report
                }
            });
        Assert.Equal(1, made.Read(SocketRole.Listener, SocketAbi.SOL_SOCKET, SocketAbi.SO_REUSEPORT));
        Assert.Equal(1, made.Read(SocketRole.Listener, SocketAbi.IPPROTO_IP, SocketAbi.IP_FREEBIND));
        // In steps of its retransmissions: 1, 3, 7, 15...
        Assert.Equal(7, made.Read(SocketRole.Listener, SocketAbi.IPPROTO_TCP, SocketAbi.TCP_DEFER_ACCEPT));
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        rig.Settle();
        Assert.Equal(0, server.AcceptedCount);
        peer.Write("now");
        Assert.Equal("now", peer.ReadText(3));
        Assert.Equal(1, server.AcceptedCount);
    });

    [Fact]
    public void A_server_can_listen_at_an_address_that_is_not_there_yet() => Run(rig =>
    {
        NeedsLinux();
        // From the block reserved for documentation.
        IPEndPoint absent = new(IPAddress.Parse("203.0.113.1"), 0);
        RecordingServer server = rig.Serve(null,
            new ServerOptions { Engine = rig.Engine, EndPoint = absent, Socket = new() { FreeBind = true } });
        Assert.Equal(absent.Address, ((IPEndPoint)server.EndPoint!).Address);
    });

    // ------------------------------------------------------------------ the hook

    [Fact]
    public void The_hook_sees_each_socket_before_it_is_used_with_its_role_and_address() => Run(rig =>
    {
        List<string> seen = [];
        EndPoint asked = s_loopback;
        RecordingServer server = rig.Serve(null, new ServerOptions
        {
            Engine = rig.Engine,
            EndPoint = asked,
            Socket = new()
            {
                OnCreated = socket =>
                {
                    Assert.True(socket.Descriptor > 0);
                    lock (seen) seen.Add($"{socket.Role} {socket.EndPoint}");
                },
            },
        });
        RecordingClient client = rig.MakeClient(new ClientOptions
        {
            Engine = rig.Engine,
            EndPoint = server.EndPoint,
            Socket = new()
            {
                OnCreated = socket =>
                {
                    lock (seen) seen.Add($"{socket.Role} {socket.EndPoint}");
                },
            },
        });
        rig.Connect(client);
        server.Connected();
        lock (seen)
            Assert.Equal([$"Listener {asked}", $"Connected {server.EndPoint}", $"Accepted {server.EndPoint}"], seen);
    });

    [Fact]
    public void A_hook_that_throws_fails_the_start_and_leaves_nothing_open() => Run(rig =>
    {
        RecordingServer server = rig.MakeServer(null, new ServerOptions
        {
            Engine = rig.Engine,
            EndPoint = s_loopback,
            Socket = new() { OnCreated = static _ => throw new NotSupportedException("not today") }
        });
        NetworkException e = Assert.Throws<NetworkException>(() => rig.Await(server.StartAsync()));
        Assert.Equal(ErrorCategory.User, e.Error.Category);
        Assert.Contains("Socket.OnCreated threw NotSupportedException: not today", e.Message, StringComparison.Ordinal);
        Assert.Contains(s_loopback.ToString(), e.Message, StringComparison.Ordinal);
        Assert.IsType<NotSupportedException>(e.InnerException);
        Assert.False(server.IsAccepting);
    });

    [Fact]
    public void A_hook_that_throws_fails_the_connect_and_the_session_gets_the_cause() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        int calls = 0;
        RecordingClient client = rig.MakeClient(new ClientOptions
        {
            Engine = rig.Engine,
            EndPoint = server.EndPoint,
            Socket = new()
            {
                OnCreated = _ =>
                {
                    if (++calls == 1) throw new NotSupportedException("not today");
                },
            },
        });
        NetworkException e = Assert.Throws<NetworkException>(() => rig.Await(client.ConnectAsync()));
        Assert.Equal(ErrorCategory.User, e.Error.Category);
        Assert.Contains("Socket.OnCreated threw NotSupportedException: not today", e.Message, StringComparison.Ordinal);
        Assert.Equal("connecting, connect failed SocketOption", client.Attempt().Life);
        Assert.Contains(client.Attempt().Reason.Exception!.Message, e.Message, StringComparison.Ordinal);
        rig.Connect(client);
    });

    [Fact]
    public void A_hook_that_throws_at_an_accepted_connection_closes_that_one_only() => Run(rig =>
    {
        int accepted = 0;
        RecordingServer server = rig.Serve(null, new ServerOptions
        {
            Engine = rig.Engine,
            EndPoint = s_loopback,
            Socket = new()
            {
                OnCreated = socket =>
                {
                    if (socket.Role == SocketRole.Accepted && Interlocked.Increment(ref accepted) == 1)
                        throw new NotSupportedException("not you");
                },
            },
        });
        Peer refused = rig.ConnectPeer(server.EndPoint!);
        Assert.Empty(refused.ReadToEnd());
        rig.Until(() => server.Events.Contains("error NetworkException"), "the server's event");
        rig.ConnectPeer(server.EndPoint!);
        server.Connected();
        Assert.Single(server.Made);
    });

    [Fact]
    public void An_option_that_the_system_refuses_to_the_hook_is_named_by_its_number() => Run(rig =>
    {
        NeedsLinux();
        RecordingServer server = rig.MakeServer(null, new ServerOptions
        {
            Engine = rig.Engine,
            EndPoint = s_loopback,
            Socket = new() { OnCreated = static socket => socket.SetOption(SocketAbi.IPPROTO_TCP, 9999, 1) }
        });
        NetworkException e = Assert.Throws<NetworkException>(() => rig.Await(server.StartAsync()));
        Assert.Equal((ErrorCategory.Option, Errno.ENOPROTOOPT), (e.Error.Category, e.Error.Code));
        Assert.Contains("option 9999 of level 6", e.Message, StringComparison.Ordinal);
    });

    [Fact]
    public void The_hook_reads_and_writes_options_without_native_calls() => Run(rig =>
    {
        NeedsLinux();
        const int congestion = 13;
        string name = "";
        rig.Serve(null, new ServerOptions
        {
            Engine = rig.Engine,
            EndPoint = s_loopback,
            Socket = new()
            {
                OnCreated = socket =>
                {
                    Assert.Equal(1, socket.GetOption(SocketAbi.IPPROTO_TCP, SocketAbi.TCP_NODELAY));
                    socket.SetOption(SocketAbi.IPPROTO_TCP, congestion, "reno"u8);
                    byte[] bytes = new byte[16];
                    name = Text(bytes.AsSpan(0, socket.GetOption(SocketAbi.IPPROTO_TCP, congestion, bytes)))
                        .TrimEnd('\0');
                },
            },
        });
        Assert.Equal("reno", name);
    });

    [Fact]
    public void A_hook_that_would_make_closing_wait_is_refused() => Run(rig =>
    {
        NeedsLinux();
        RecordingServer server = rig.MakeServer(null, new ServerOptions
        {
            Engine = rig.Engine,
            EndPoint = s_loopback,
            Socket = new()
            {
                OnCreated = static socket => socket.SetOption(SocketAbi.SOL_SOCKET, SocketAbi.SO_LINGER,
                    [1, 0, 0, 0, 5, 0, 0, 0]),
            },
        });
        NetworkException e = Assert.Throws<NetworkException>(() => rig.Await(server.StartAsync()));
        Assert.Contains("SO_LINGER on with 5 s", e.Message, StringComparison.Ordinal);
        Assert.Contains("Timeouts.Drain", e.Message, StringComparison.Ordinal);
    });

    // ------------------------------------------------------------------ refused by the system

    [Fact]
    public void A_missing_device_fails_start_and_connect_by_name() => Run(rig =>
    {
        NeedsLinux();
        RecordingServer server = rig.MakeServer(null,
            new ServerOptions
            {
                Engine = rig.Engine,
                EndPoint = s_loopback,
                Socket = new() { BindToDevice = "whimbrel-none" }
            });
        NetworkException e = Assert.Throws<NetworkException>(() => rig.Await(server.StartAsync()));
        Assert.Equal((ErrorCategory.Option, Errno.ENODEV), (e.Error.Category, e.Error.Code));
        Assert.Contains("Socket.BindToDevice = 'whimbrel-none' (SO_BINDTODEVICE)", e.Message, StringComparison.Ordinal);
        Assert.Contains("no network device of that name", e.Message, StringComparison.Ordinal);
        Assert.Contains("socket-option.md", e.Message, StringComparison.Ordinal);

        RecordingClient client = rig.MakeClient(
            new ClientOptions
            {
                Engine = rig.Engine,
                EndPoint = rig.DeadAddress(),
                Socket = new() { BindToDevice = "whimbrel-none" }
            });
        e = Assert.Throws<NetworkException>(() => rig.Await(client.ConnectAsync()));
        Assert.Equal((ErrorCategory.Option, Errno.ENODEV), (e.Error.Category, e.Error.Code));
        Assert.Contains("Socket.BindToDevice = 'whimbrel-none'", e.Message, StringComparison.Ordinal);
        Assert.Equal("connecting, connect failed SocketOption", client.Attempt().Life);
    });

    [Fact]
    public void A_missing_privilege_is_named_with_the_option_that_needs_it() => Run(
        rig =>
        {
            LoopRoom.DropCapabilities(rig);
            RecordingServer server = rig.MakeServer(null,
                new ServerOptions { Engine = rig.Engine, EndPoint = s_loopback, Socket = new() { Mark = 0xCAFEBABE } });
            NetworkException e = Assert.Throws<NetworkException>(() => rig.Await(server.StartAsync()));
            Assert.Equal((ErrorCategory.Option, Errno.EPERM), (e.Error.Category, e.Error.Code));
            Assert.Contains("Mark (SO_MARK = 3405691582)", e.Message, StringComparison.Ordinal);
            Assert.Contains("CAP_NET_ADMIN", e.Message, StringComparison.Ordinal);
        },
        loops: 1);

    [Fact]
    public void Options_that_need_a_privilege_work_with_it() => Run(
        rig =>
        {
            LoopRoom.EnterNetwork(rig);
            MadeSockets made = Connected(
                rig,
                hook => new ServerOptions
                {
                    Engine = rig.Engine,
                    EndPoint = s_loopback,
                    Socket = new()
                    {
                        Mark = 0xCAFEBABE,
                        BusyPoll = TimeSpan.FromMicroseconds(50),
                        BindToDevice = "lo",
                        OnCreated = hook
                    }
                },
                (endPoint, hook) => new ClientOptions
                {
                    Engine = rig.Engine,
                    EndPoint = endPoint,
                    Socket = new()
                    {
                        Mark = 0xCAFEBABE,
                        BusyPoll = TimeSpan.FromMicroseconds(50),
                        BindToDevice = "lo",
                        OnCreated = hook
                    }
                });
            AllHave(made, "Mark", SocketAbi.SOL_SOCKET, SocketAbi.SO_MARK, unchecked((int)0xCAFEBABE));
            AllHave(made, "BusyPoll", SocketAbi.SOL_SOCKET, SocketAbi.SO_BUSY_POLL, 50);
            foreach (SocketRole role in Enum.GetValues<SocketRole>())
                Assert.Equal("lo\0", Text(made.ReadBytes(role, SocketAbi.SOL_SOCKET, SocketAbi.SO_BINDTODEVICE, 16)));
        },
        loops: 1);

    [Fact]
    public void One_local_port_serves_connects_to_several_targets() => Run(
        rig =>
        {
            LoopRoom.EnterNetwork(rig);
            RecordingServer one = rig.Serve(null, new ServerOptions { Engine = rig.Engine, EndPoint = s_loopback });
            RecordingServer two = rig.Serve(null, new ServerOptions { Engine = rig.Engine, EndPoint = s_loopback });
            LoopRoom.SetSysctl(rig, "ip_local_port_range", "50000 50000");
            foreach (RecordingServer server in (RecordingServer[])[one, two])
            {
                RecordingSession session = rig.Connect(rig.MakeClient(
                    new ClientOptions
                    {
                        Engine = rig.Engine,
                        EndPoint = server.EndPoint,
                        Socket = new() { LocalEndPoint = s_loopback }
                    }));
                // tidy: fixed port because it is the only one in the test's own network
                Assert.Equal(new IPEndPoint(IPAddress.Loopback, 50000), session.LocalEndPoint);
            }
        },
        loops: 1);

    [Fact]
    public void Child_processes_inherit_no_socket() => Run(rig =>
    {
        NeedsLinux();
        ConcurrentDictionary<SocketRole, int> made = [];
        RecordingServer server = rig.Serve(null,
            new ServerOptions { Engine = rig.Engine, EndPoint = s_loopback, Socket = new() { OnCreated = Report } });
        rig.Connect(rig.MakeClient(
            new ClientOptions
            {
                Engine = rig.Engine,
                EndPoint = server.EndPoint,
                Socket = new() { OnCreated = Report }
            }));
        server.Connected();
        Assert.Equal(3, made.Count);
        foreach ((SocketRole role, int descriptor) in made)
        {
            string flags = File.ReadLines($"/proc/self/fdinfo/{descriptor}")
                .Single(static l => l.StartsWith("flags:", StringComparison.Ordinal)).Split('\t')[1];
            Assert.True((Convert.ToInt32(flags, 8) & 0x80000) != 0, $"{role}: {flags} has no O_CLOEXEC");
        }

        void Report(NewSocket socket) => made[socket.Role] = (int)socket.Descriptor;
    });

    // ------------------------------------------------------------------ fast open

    private const int TcpInfo = 11;
    private const int OptionsOffset = 5; // tcpi_options of struct tcp_info
    private const int SynDataAcknowledged = 32; // TCPI_OPT_SYN_DATA

    private static ServerOptions FastServer(Rig rig, EndPoint endPoint, Action<NewSocket>? hook = null) =>
        new() { Engine = rig.Engine, EndPoint = endPoint, Socket = new() { FastOpenQueue = 16, OnCreated = hook } };

    private static RecordingServer ServeFast(Rig rig, MadeSockets made, Action<RecordingSession>? setUp)
    {
        LoopRoom.EnterNetwork(rig);
        LoopRoom.SetSysctl(rig, "tcp_fastopen", "3");
        RecordingServer server = rig.MakeServer(setUp, FastServer(rig, s_loopback, made.Report));
        // On the loop, so that the start reads the sysctl of the loop's network namespace.
        rig.Await(new ValueTask(LoopRoom.On(rig, () => server.StartAsync().AsTask())));
        Assert.Equal(16, made.Read(SocketRole.Listener, SocketAbi.IPPROTO_TCP, SocketAbi.TCP_FASTOPEN));
        return server;
    }

    private static RecordingSession ConnectFast(Rig rig, EndPoint endPoint, Action<RecordingSession>? setUp) =>
        rig.Connect(
            rig.MakeClient(
                new ClientOptions { Engine = rig.Engine, EndPoint = endPoint, Socket = new() { FastOpen = true } },
                setUp));

    /// <summary>The first connect gets the cookie that makes the next ones fast.</summary>
    private static void Introduce(Rig rig, RecordingServer server)
    {
        RecordingSession first = ConnectFast(rig, server.EndPoint!, null);
        server.Connected();
        first.Close();
        first.End();
    }

    private static bool CameWithSyn(MadeSockets made, int index) =>
        (made.ReadBytes(SocketRole.Accepted, SocketAbi.IPPROTO_TCP, TcpInfo, 104,
            index)[OptionsOffset] & SynDataAcknowledged) != 0;

    [Fact]
    public void With_fast_open_the_first_bytes_come_with_the_SYN() => Run(
        rig =>
        {
            MadeSockets made = new();
            RecordingServer server = ServeFast(rig, made, static s => s.AtReceived = static (x, data) => x.Send(data));
            Introduce(rig, server);
            RecordingSession second = ConnectFast(rig, server.EndPoint!,
                static s => s.AtConnected = static x => x.Send("hello"u8));
            second.UntilReceived(5);
            Assert.True(CameWithSyn(made, 1), "the bytes came after the handshake");
            // From then on it is an ordinary connection, with more data than fits into a SYN.
            byte[] data = Pattern(300_000);
            second.Send(data);
            second.UntilReceived(5 + data.Length);
            Assert.Equal(data, second.Received[5..]);
        },
        loops: 1);

    [Fact]
    public void With_fast_open_a_client_that_sends_nothing_receives_the_servers_data() => Run(
        rig =>
        {
            MadeSockets made = new();
            RecordingServer server = ServeFast(rig, made, static s => s.AtConnected = static x => x.Send("welcome"u8));
            Introduce(rig, server);
            RecordingSession second = ConnectFast(rig, server.EndPoint!, null);
            second.UntilReceived(7);
            Assert.Equal("welcome", second.ReceivedText);
        },
        loops: 1);

    [Theory]
    [InlineData(0)]
    [InlineData(5)]
    [InlineData(200_000)]
    public void With_fast_open_what_is_sent_before_an_immediate_close_arrives(int bytes) => Run(
        rig =>
        {
            MadeSockets made = new();
            RecordingServer server = ServeFast(rig, made, null);
            Introduce(rig, server);
            byte[] data = Pattern(bytes);
            RecordingSession second = ConnectFast(rig, server.EndPoint!, s => s.AtConnected = x =>
            {
                if (data.Length > 0) x.Send(data);
                x.Close();
            });
            Assert.Equal(CloseCause.LocalClose, second.End());
            Assert.Equal(CloseCause.PeerClosed, server.Session(1).End());
            Assert.Equal(data, server.Session(1).Received);
        },
        loops: 1);

    [Fact]
    public void With_fast_open_what_is_sent_before_a_close_arrives_however_late_the_answer_comes() => Run(
        rig =>
        {
            LoopRoom.EnterNetwork(rig);
            // Data is sent with the SYN even to an unknown server.
            LoopRoom.SetSysctl(rig, "tcp_fastopen", "5");
            List<Socket> sockets = [];
            EndPoint address = LoopRoom.On(rig, () =>
            {
                // Its backlog is full, so the SYN is dropped and retransmitted after a second.
                Socket listener = Keep();
                listener.Bind(s_loopback);
                listener.Listen(0);
                for (int i = 0; i < 3; i++)
                {
                    Socket filler = Keep();
                    filler.Blocking = false;
                    try
                    {
                        filler.Connect(listener.LocalEndPoint!);
                    }
                    catch (SocketException e) when (e.SocketErrorCode == SocketError.WouldBlock)
                    {
                        // Pending, or dropped.
                    }
                }

                return listener.LocalEndPoint!;
            });
            RecordingSession session = ConnectFast(rig, address, static s => s.AtConnected = static x =>
            {
                x.Send("hello"u8);
                x.Close();
            });
            rig.Settle();
            sockets[0].Blocking = false;
            byte[] got = [];
            rig.Until(() => Accept() is { } text && (got = text).Length > 0, "the bytes to arrive");
            Assert.Equal("hello"u8.ToArray(), got);
            foreach (Socket socket in sockets) socket.Dispose();
            session.End();

            Socket Keep()
            {
                Socket socket = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
                sockets.Add(socket);
                return socket;
            }

            byte[]? Accept()
            {
                try
                {
                    Socket accepted = sockets[0].Accept();
                    sockets.Add(accepted);
                    accepted.Blocking = true;
                    accepted.ReceiveTimeout = 200;
                    byte[] buffer = new byte[100];
                    return buffer[..accepted.Receive(buffer)];
                }
                catch (SocketException e) when (e.SocketErrorCode is SocketError.WouldBlock or SocketError.TimedOut)
                {
                    return null;
                }
            }
        },
        loops: 1);

    [Fact]
    public void With_fast_open_a_refusal_ends_the_connection_that_was_taken_for_granted() => Run(
        rig =>
        {
            MadeSockets made = new();
            RecordingServer server = ServeFast(rig, made, null);
            EndPoint address = server.EndPoint!;
            Introduce(rig, server);
            rig.Await(server.StopAsync());
            RecordingSession second = ConnectFast(rig, address,
                static s => s.AtConnected = static x => x.Send("hello"u8));
            // The refusal is a reset: which of the two the kernel reports depends on whether the first packet was sent.
            Assert.Contains(second.End(), (CloseCause[])[CloseCause.Refused, CloseCause.PeerReset]);
            RecordingSession third = ConnectFast(rig, address, null);
            Assert.Contains(third.End(), (CloseCause[])[CloseCause.Refused, CloseCause.PeerReset]);
        },
        loops: 1);

    [Fact]
    public void Fast_open_that_the_system_has_switched_off_is_a_mistake() => Run(
        rig =>
        {
            LoopRoom.EnterNetwork(rig);
            LoopRoom.SetSysctl(rig, "tcp_fastopen", "0");
            RecordingServer server = rig.MakeServer(null, FastServer(rig, s_loopback));
            ArgumentException e = Assert.Throws<ArgumentException>(
                () => rig.Await(new ValueTask(LoopRoom.On(rig, () => server.StartAsync().AsTask()))));
            Assert.Contains(
                "Socket.FastOpenQueue = 16, fast open is off for servers on this system: net.ipv4.tcp_fastopen = "
                    + "0, needs bit 2", e.Message, StringComparison.Ordinal);
            RecordingClient client = rig.MakeClient(
                new ClientOptions
                {
                    Engine = rig.Engine,
                    EndPoint = rig.DeadAddress(),
                    Socket = new() { FastOpen = true }
                });
            e = LoopRoom.On(rig, () => Assert.Throws<ArgumentException>(() => { _ = client.ConnectAsync(); }));
            Assert.Contains(
                "Socket.FastOpen = True, fast open is off for clients on this system: net.ipv4.tcp_fastopen = 0, "
                    + "needs bit 1", e.Message, StringComparison.Ordinal);
        },
        loops: 1);
}
