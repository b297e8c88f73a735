using System.Net;
using System.Net.Sockets;
using Whimbrel.Engines;

namespace Whimbrel.Conformance;

/// <summary>Options are validated once, before anything is opened, and all errors are reported together.</summary>
public sealed class OptionsTests
{
    private static readonly IPEndPoint s_any = new(IPAddress.Loopback, 0);

    private static string MistakesOf(ServerOptions options)
    {
        Server server = new(options, static () => throw new InvalidOperationException());
        return Assert.Throws<ArgumentException>(() => server.StartAsync().AsTask().GetAwaiter().GetResult()).Message;
    }

    private static string MistakesOf(ClientOptions options)
    {
        Client client = new(options, static () => throw new InvalidOperationException());
        return Assert.Throws<ArgumentException>(() => client.ConnectAsync().AsTask().GetAwaiter().GetResult()).Message;
    }

    [Fact]
    public void All_mistakes_are_reported_at_once_with_name_value_and_range()
    {
        string message = MistakesOf(new ServerOptions
        {
            EndPoint = s_any,
            Limits = new() { SendBytes = 4095, UnreadBytes = 1023, SlowConsumer = (SlowConsumer)99, Connections = 0 },
            Timeouts = new() { Drain = TimeSpan.FromMilliseconds(9) },
            Socket = new() { Backlog = 0, ReceiveBufferBytes = -1, SendBufferBytes = -1 },
        });
        Assert.Contains("ServerOptions has 8 mistakes", message, StringComparison.Ordinal);
        Assert.Contains("Limits.SendBytes = 4095, allowed 4096 to 1073741824", message, StringComparison.Ordinal);
        Assert.Contains("Limits.UnreadBytes = 1023, allowed 1024 to 1073741824", message, StringComparison.Ordinal);
        Assert.Contains("Timeouts.Drain = 00:00:00.0090000, allowed 00:00:00.0100000 to 01:00:00", message,
            StringComparison.Ordinal);
        Assert.Contains("Limits.SlowConsumer = 99, allowed Disconnect, DropNewest, Wait", message,
            StringComparison.Ordinal);
        Assert.Contains("Socket.Backlog = 0, allowed 1 to 65535", message, StringComparison.Ordinal);
        Assert.Contains("Limits.Connections = 0, allowed 1 to 10000000", message, StringComparison.Ordinal);
        Assert.Contains("Socket.ReceiveBufferBytes = -1", message, StringComparison.Ordinal);
        Assert.Contains("Socket.SendBufferBytes = -1", message, StringComparison.Ordinal);
    }

    public static TheoryData<string, ServerOptions> ServerMistakes => new()
    {
        { "EndPoint is missing", new ServerOptions() },
        { "EndPoint and EndPoints are both given", new ServerOptions { EndPoint = s_any, EndPoints = [s_any] } },
        { "host names are not resolved here", new ServerOptions { EndPoint = new DnsEndPoint("localhost", 0) } },
        { "Limits.SendBytes = 1073741825",
            new ServerOptions { EndPoint = s_any, Limits = new() { SendBytes = (1 << 30) + 1 } } },
        { "Limits.UnreadBytes = 1073741825",
            new ServerOptions { EndPoint = s_any, Limits = new() { UnreadBytes = (1 << 30) + 1 } } },
        { "Address and EndPoint are both given",
            new ServerOptions { EndPoint = s_any, Address = "tcp://127.0.0.1:0" } },
        { "Address and EndPoints are both given",
            new ServerOptions { EndPoints = [s_any], Address = "tcp://127.0.0.1:0" } },
        { "Address: 'tcp://127.0.0.1' is no address: the port is missing",
            new ServerOptions { Address = "tcp://127.0.0.1" } },
        { "a server listens at addresses of this machine", new ServerOptions { Address = "tcp://example.org:80" } },
        { "Address = memory://a, the ", new ServerOptions { Address = "memory://a" } },
        { "names the service 'no-such-service'", new ServerOptions { Address = "tcp://127.0.0.1:no-such-service" } },
        { "Timeouts.Drain = 01:00:00.0010000", new ServerOptions
        {
            EndPoint = s_any,
            Timeouts = new() { Drain = TimeSpan.FromHours(1) + TimeSpan.FromMilliseconds(1) }
        } },
        { "Socket.Backlog = 65536", new ServerOptions { EndPoint = s_any, Socket = new() { Backlog = 65_536 } } },
        { "Limits.Connections = 10000001",
            new ServerOptions { EndPoint = s_any, Limits = new() { Connections = 10_000_001 } } },
        { "allowed IPEndPoint or UnixDomainSocketEndPoint", new ServerOptions { EndPoint = new OtherEndPoint() } },
        { "Socket.KeepAliveTime = 00:01:00, has no effect without Socket.KeepAlive = True",
            new ServerOptions { EndPoint = s_any, Socket = new() { KeepAliveTime = TimeSpan.FromMinutes(1) } } },
        { "Socket.KeepAliveInterval = 00:00:01, has no effect without Socket.KeepAlive = True",
            new ServerOptions { EndPoint = s_any, Socket = new() { KeepAliveInterval = TimeSpan.FromSeconds(1) } } },
        { "Socket.KeepAliveCount = 1, has no effect without Socket.KeepAlive = True",
            new ServerOptions { EndPoint = s_any, Socket = new() { KeepAliveCount = 1 } } },
        { "Socket.KeepAliveTime = 00:00:01.5000000, allowed whole seconds from 00:00:01 to 09:06:07, or zero",
            new ServerOptions
            {
                EndPoint = s_any,
                Socket = new() { KeepAlive = true, KeepAliveTime = TimeSpan.FromSeconds(1.5) }
            } },
        { "Socket.KeepAliveTime = 09:06:08",
            new ServerOptions
            {
                EndPoint = s_any,
                Socket = new() { KeepAlive = true, KeepAliveTime = TimeSpan.FromSeconds(32_768) }
            } },
        { "Socket.KeepAliveInterval = -00:00:01",
            new ServerOptions
            {
                EndPoint = s_any,
                Socket = new() { KeepAlive = true, KeepAliveInterval = TimeSpan.FromSeconds(-1) }
            } },
        { "Socket.KeepAliveCount = 128, allowed 0 to 127",
            new ServerOptions { EndPoint = s_any, Socket = new() { KeepAlive = true, KeepAliveCount = 128 } } },
        { "Socket.UserTimeout = 24.00:00:00.0010000, allowed whole milliseconds", new ServerOptions
        {
            EndPoint = s_any,
            Socket = new() { UserTimeout = TimeSpan.FromDays(24) + TimeSpan.FromMilliseconds(1) }
        } },
        { "Socket.UserTimeout = 00:00:00.0005000, allowed whole milliseconds",
            new ServerOptions { EndPoint = s_any, Socket = new() { UserTimeout = TimeSpan.FromMicroseconds(500) } } },
        { "Socket.BusyPoll = 00:00:01.0000010, allowed whole microseconds",
            new ServerOptions
            {
                EndPoint = s_any,
                Socket = new() { BusyPoll = TimeSpan.FromSeconds(1) + TimeSpan.FromMicroseconds(1) }
            } },
        { "Socket.TypeOfService = 253, allowed multiples of 4 from 0 to 252",
            new ServerOptions { EndPoint = s_any, Socket = new() { TypeOfService = 253 } } },
        { "Socket.TypeOfService = 256",
            new ServerOptions { EndPoint = s_any, Socket = new() { TypeOfService = 256 } } },
        { "Socket.TypeOfService = -4", new ServerOptions { EndPoint = s_any, Socket = new() { TypeOfService = -4 } } },
        { "Socket.BindToDevice = '', a device name has 1 to 15 bytes",
            new ServerOptions { EndPoint = s_any, Socket = new() { BindToDevice = "" } } },
        { "Socket.BindToDevice = '1234567890123456'",
            new ServerOptions { EndPoint = s_any, Socket = new() { BindToDevice = "1234567890123456" } } },
        { "Socket.FastOpenQueue = -1, allowed 0 to 65535",
            new ServerOptions { EndPoint = s_any, Socket = new() { FastOpenQueue = -1 } } },
        { "Socket.DeferAccept = 01:00:01, allowed whole seconds",
            new ServerOptions { EndPoint = s_any, Socket = new() { DeferAccept = TimeSpan.FromSeconds(3601) } } },
    };

    [Theory]
    [MemberData(nameof(ServerMistakes), DisableDiscoveryEnumeration = true)]
    public void A_mistake_in_server_options_is_named(string expected, ServerOptions options)
    {
        string message = MistakesOf(options);
        Assert.Contains(expected, message, StringComparison.Ordinal);
        Assert.Contains("1 mistake:", message, StringComparison.Ordinal);
    }

    private static ClientOptions Policy(ReconnectPolicy policy) =>
        new() { EndPoint = new UnixDomainSocketEndPoint("/a"), Reconnect = policy };

    public static TheoryData<string, ClientOptions> ClientMistakes => new()
    {
        { "EndPoint is missing", new ClientOptions() },
        { "EndPoint has port 0", new ClientOptions { EndPoint = s_any } },
        { "EndPoint has port 0", new ClientOptions { EndPoint = new DnsEndPoint("localhost", 0) } },
        { "EndPoints has 65 entries, allowed 1 to 64",
            new ClientOptions { EndPoints = [.. Enumerable.Repeat(new UnixDomainSocketEndPoint("/a"), 65)] } },
        { "EndPoint and EndPoints are both given", new ClientOptions
        {
            EndPoint = new UnixDomainSocketEndPoint("/a"),
            EndPoints = [new UnixDomainSocketEndPoint("/a")]
        } },
        { "Socket.LocalEndPoint = ", new ClientOptions
        {
            EndPoint = new UnixDomainSocketEndPoint("/a"),
            Socket = new() { LocalEndPoint = new DnsEndPoint("localhost", 0) }
        } },
        { "Reconnect.InitialDelay = 00:00:00", Policy(new ReconnectPolicy { InitialDelay = TimeSpan.Zero }) },
        { "Reconnect.MaxDelay = 00:00:00.4000000, allowed 00:00:00.5000000 to ",
            Policy(new ReconnectPolicy { MaxDelay = TimeSpan.FromMilliseconds(400) }) },
        { "Reconnect.ResetAfter = ", Policy(new ReconnectPolicy { ResetAfter = TimeSpan.FromDays(2) }) },
        { "Reconnect.Factor = 0.9, allowed 1 to 100", Policy(new ReconnectPolicy { Factor = 0.9 }) },
        { "Reconnect.Factor = NaN, allowed 1 to 100", Policy(new ReconnectPolicy { Factor = double.NaN }) },
        { "Reconnect.MaxAttempts = 0", Policy(new ReconnectPolicy { MaxAttempts = 0 }) },
        { "Reconnect.MaxElapsed = 00:00:00", Policy(new ReconnectPolicy { MaxElapsed = TimeSpan.Zero }) },
        { "Address has port 0", new ClientOptions { Address = "tcp://127.0.0.1:0" } },
        { "Address and EndPoint are both given",
            new ClientOptions { Address = "tcp://127.0.0.1:1", EndPoint = new UnixDomainSocketEndPoint("/a") } },
        { "Address: 'tcp:/127.0.0.1:80' is no address", new ClientOptions { Address = "tcp:/127.0.0.1:80" } },
        { "EndPoint = [fe80::1]:80, a link-local address needs its interface",
            new ClientOptions { EndPoint = IPEndPoint.Parse("[fe80::1]:80") } },
        { "Timeouts.Connect = 00:00:00",
            new ClientOptions
            {
                EndPoint = new UnixDomainSocketEndPoint("/a"),
                Timeouts = new() { Connect = TimeSpan.Zero }
            } },
        { "Timeouts.Connect = 02:00:00", new ClientOptions
        {
            EndPoint = new UnixDomainSocketEndPoint("/a"),
            Timeouts = new() { Connect = TimeSpan.FromHours(2) }
        } },
        { "Socket.LocalEndPoint = ",
            new ClientOptions
            {
                EndPoint = new UnixDomainSocketEndPoint("/a"),
                Socket = new() { LocalEndPoint = new OtherEndPoint() }
            } },
        { "Socket.FreeBind = True, has no effect without Socket.LocalEndPoint",
            new ClientOptions
            {
                // tidy: fixed port because nothing is bound or connected
                EndPoint = new IPEndPoint(IPAddress.Loopback, 1),
                Socket = new() { FreeBind = true }
            } },
        { "Socket.KeepAlive = True, Unix sockets have no SO_KEEPALIVE",
            new ClientOptions { EndPoint = new UnixDomainSocketEndPoint("/a"), Socket = new() { KeepAlive = true } } },
        { "Limits.SendBytes = 0",
            new ClientOptions { EndPoint = new UnixDomainSocketEndPoint("/a"), Limits = new() { SendBytes = 0 } } },
    };

    [Theory]
    [MemberData(nameof(ClientMistakes), DisableDiscoveryEnumeration = true)]
    public void A_mistake_in_client_options_is_named(string expected, ClientOptions options)
    {
        string message = MistakesOf(options);
        Assert.Contains(expected, message, StringComparison.Ordinal);
        Assert.Contains("ClientOptions has 1 mistake:", message, StringComparison.Ordinal);
    }

    [Fact]
    public void The_edges_of_every_range_are_allowed()
    {
        new ServerOptions
        {
            EndPoint = s_any,
            Limits = new() { SendBytes = 4096, UnreadBytes = 1024, Connections = 1 },
            Timeouts = new() { Drain = TimeSpan.FromMilliseconds(10) },
            Socket = new() { Backlog = 1 }
        }.Validate(Engine.Default);
        new ServerOptions
        {
            EndPoint = s_any,
            Limits = new() { SendBytes = 1 << 30, UnreadBytes = 1 << 30, Connections = 10_000_000 },
            Timeouts = new() { Drain = TimeSpan.FromHours(1) },
            Socket = new() { Backlog = 65_535, ReceiveBufferBytes = 1 << 30, SendBufferBytes = 1 << 30 }
        }.Validate(Engine.Default);
        new ClientOptions
        {
            EndPoint = new UnixDomainSocketEndPoint(new string('a', 107)),
            Timeouts = new() { Connect = TimeSpan.FromMilliseconds(1) }
        }.Validate(Engine.Default);
        new ClientOptions
        {
            EndPoint = new UnixDomainSocketEndPoint("a"),
            Timeouts = new() { Connect = TimeSpan.FromHours(1) }
        }
            .Validate(Engine.Default);
        new ClientOptions { EndPoints = [.. Enumerable.Repeat(new UnixDomainSocketEndPoint("/a"), 64)] }.Validate(
            Engine.Default);
        Policy(new ReconnectPolicy
        {
            InitialDelay = TimeSpan.FromMilliseconds(1),
            MaxDelay = TimeSpan.FromMilliseconds(1),
            Factor = 1,
            MaxAttempts = 1,
            MaxElapsed = TimeSpan.FromMilliseconds(1),
            ResetAfter = TimeSpan.Zero
        }).Validate(Engine.Default);
        Policy(new ReconnectPolicy
        {
            InitialDelay = TimeSpan.FromHours(1),
            MaxDelay = TimeSpan.FromDays(1),
            Factor = 100,
            MaxElapsed = TimeSpan.MaxValue,
            ResetAfter = TimeSpan.FromDays(1)
        }).Validate(Engine.Default);
    }

    [Fact]
    public void The_edges_of_socket_options_are_allowed()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Most of these socket options need Linux.");
        TimeSpan second = TimeSpan.FromSeconds(1);
        new ServerOptions
        {
            EndPoint = s_any,
            Socket = new()
            {
                KeepAlive = true,
                KeepAliveTime = second,
                KeepAliveInterval = second,
                KeepAliveCount = 1,
                UserTimeout = TimeSpan.FromMilliseconds(1),
                BusyPoll = TimeSpan.FromMicroseconds(1),
                TypeOfService = 4,
                Mark = 1,
                BindToDevice = "a",
                DeferAccept = second,
                FreeBind = true,
                ReusePort = true,
            },
        }.Validate(Engine.Default);
        new ServerOptions
        {
            EndPoint = s_any,
            Socket = new()
            {
                KeepAlive = true,
                KeepAliveTime = 32_767 * second,
                KeepAliveInterval = 32_767 * second,
                KeepAliveCount = 127,
                UserTimeout = TimeSpan.FromDays(24),
                BusyPoll = second,
                TypeOfService = 252,
                Mark = uint.MaxValue,
                BindToDevice = "123456789012345",
                DeferAccept = TimeSpan.FromHours(1),
            },
        }.Validate(Engine.Default);
        new ClientOptions
        {
            // tidy: fixed port because nothing is bound or connected
            EndPoint = new IPEndPoint(IPAddress.Loopback, 1),
            Socket = new() { LocalEndPoint = s_any, FreeBind = true }
        }
            .Validate(Engine.Default);
    }

    [Fact]
    public async Task Options_of_another_system_or_engine_are_refused_by_name()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "The test is for systems other than Linux.");
        string message =
            MistakesOf(new ServerOptions
            {
                EndPoint = s_any,
                Socket = new() { ExclusiveAddressUse = true, ReusePort = true }
            });
        Assert.Contains("2 mistakes", message, StringComparison.Ordinal);
        Assert.Contains("Socket.ExclusiveAddressUse = True, only Windows has SO_EXCLUSIVEADDRUSE", message,
            StringComparison.Ordinal);
        Assert.Contains("Socket.ExclusiveAddressUse and Socket.ReusePort are both true", message,
            StringComparison.Ordinal);
        await using Engine portable = new(new EngineOptions { Kind = EngineKind.Portable, Loops = 1 });
        Assert.Contains("Socket.ReuseAddress = False, the portable engine cannot",
            MistakesOf(
                new ServerOptions { Engine = portable, EndPoint = s_any, Socket = new() { ReuseAddress = false } }),
            StringComparison.Ordinal);
    }

    [Fact]
    public void Missing_arguments_are_thrown_at_the_call()
    {
        Assert.Throws<ArgumentNullException>(() => new Server((ServerOptions)null!, static () => null!));
        Assert.Throws<ArgumentNullException>(() => new Server(new ServerOptions(), (Func<Session>)null!));
        Assert.Throws<ArgumentNullException>(
            () => new Server(new ServerOptions(), (Func<SessionContext, Session>)null!));
        Assert.Throws<ArgumentNullException>(() => new Client((ClientOptions)null!, static () => null!));
        Assert.Throws<ArgumentNullException>(() => new Client(new ClientOptions(), (Func<Session>)null!));
        Assert.Throws<ArgumentNullException>(() => new Server((string)null!, static () => null!));
        Assert.Throws<ArgumentNullException>(() => new Client((string)null!, static () => null!));
        Assert.Throws<ArgumentNullException>(
            () => new Client(new ClientOptions(), (Func<SessionContext, Session>)null!));
    }

    // ------------------------------------------------------------------ the engine's own options

    [Fact]
    public void All_mistakes_in_engine_options_are_reported_at_once()
    {
        string message = Assert.Throws<ArgumentException>(
            () => new Engine(new EngineOptions { Kind = (EngineKind)77, Loops = 257, BlockedLoopMs = 0 })).Message;
        Assert.Contains("EngineOptions has 3 mistakes", message, StringComparison.Ordinal);
        Assert.Contains("Kind = 77, allowed Auto, Uring, Epoll, Portable", message, StringComparison.Ordinal);
        Assert.Contains("Loops = 257, allowed 0 to 256", message, StringComparison.Ordinal);
        Assert.Contains("BlockedLoopMs = 0, allowed 1 to 60000", message, StringComparison.Ordinal);
        Assert.Contains("Loops = -1",
            Assert.Throws<ArgumentException>(() => new Engine(new EngineOptions { Loops = -1 })).Message,
            StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("epoll", EngineKind.Epoll)]
    [InlineData("EPOLL", EngineKind.Epoll)]
    [InlineData("portable", EngineKind.Portable)]
    [InlineData("Portable", EngineKind.Portable)]
    public void The_environment_variable_chooses_the_engine_and_is_given_as_the_reason(string word, EngineKind expected)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "epoll needs Linux.");
        (EngineKind kind, string reason) = EngineSelector.Choose(EngineKind.Auto, word);
        Assert.Equal(expected, kind);
        Assert.Contains("WHIMBREL_ENGINE", reason, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("eepoll")]
    [InlineData("1")]
    [InlineData("99")]
    [InlineData(" ")]
    [InlineData("epoll,portable")]
    public void A_wrong_value_of_the_environment_variable_fails_instead_of_being_ignored(string word)
    {
        ArgumentException e = Assert.Throws<ArgumentException>(() => EngineSelector.Choose(EngineKind.Auto, word));
        Assert.Contains($"WHIMBREL_ENGINE = '{word}', allowed auto, uring, epoll, portable", e.Message,
            StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(null)]
    [InlineData("")]
    [InlineData("auto")]
    public void Without_a_setting_the_best_engine_is_used(string? word)
    {
        (EngineKind kind, string reason) = EngineSelector.Choose(EngineKind.Auto, word);
        Assert.NotEqual(EngineKind.Auto, kind);
        Assert.NotEmpty(reason);
    }

    [Fact]
    public void The_option_wins_over_the_environment_variable()
    {
        (EngineKind kind, string reason) = EngineSelector.Choose(EngineKind.Portable, "epoll");
        Assert.Equal(EngineKind.Portable, kind);
        Assert.Contains("EngineOptions.Kind", reason, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_wrong_value_in_the_environment_fails_the_first_engine()
    {
        string? before = Environment.GetEnvironmentVariable("WHIMBREL_ENGINE");
        try
        {
            Environment.SetEnvironmentVariable("WHIMBREL_ENGINE", "kqueue");
            Assert.Throws<ArgumentException>(static () => new Engine());
            Environment.SetEnvironmentVariable("WHIMBREL_ENGINE", "epoll");
            Assert.SkipUnless(OperatingSystem.IsLinux(), "epoll needs Linux.");
            await using Engine engine = new(new EngineOptions { Loops = 3 });
            Assert.Equal((EngineKind.Epoll, "epoll", 3), (engine.Kind, engine.KindName, engine.LoopCount));
            Assert.Equal("epoll (3 loops, asked for by WHIMBREL_ENGINE)", engine.ToString());
            Assert.Throws<ArgumentOutOfRangeException>(() => engine.GetLoop(3));
        }
        finally
        {
            Environment.SetEnvironmentVariable("WHIMBREL_ENGINE", before);
        }
    }

    private sealed class OtherEndPoint : EndPoint
    {
        public override AddressFamily AddressFamily => AddressFamily.Unknown;
    }
}
