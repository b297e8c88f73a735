using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Conformance;

/// <summary>Groups of options: immutable, never null, and shared by the options that are given the same one.</summary>
public sealed class OptionGroupTests
{
    [Fact]
    public void A_group_that_is_not_set_has_its_defaults()
    {
        ServerOptions server = new();
        ClientOptions client = new();
        Assert.Equal((1 << 20, 1 << 20, 100_000),
            (server.Limits.SendBytes, server.Limits.UnreadBytes, server.Limits.Connections));
        Assert.Equal((TimeSpan.FromSeconds(5), TimeSpan.FromSeconds(15)),
            (client.Timeouts.Drain, client.Timeouts.Connect));
        Assert.True(server.Socket.NoDelay && client.Socket.NoDelay && server.Accept.AtStart);
        Assert.Equal(4096, server.Socket.Backlog);
    }

    [Fact]
    public void A_group_that_is_set_keeps_the_defaults_of_its_other_members()
    {
        ServerOptions options = new() { Limits = new() { SendBytes = 4096 } };
        Assert.Equal((4096, 1 << 20), (options.Limits.SendBytes, options.Limits.UnreadBytes));
    }

    [Fact]
    public void Null_for_a_group_throws_in_the_initializer()
    {
        Action[] initializers =
        [
            static () => _ = new ServerOptions { Limits = null! },
            static () => _ = new ServerOptions { Timeouts = null! },
            static () => _ = new ServerOptions { Socket = null! },
            static () => _ = new ServerOptions { Accept = null! },
            static () => _ = new ClientOptions { Limits = null! },
            static () => _ = new ClientOptions { Timeouts = null! },
            static () => _ = new ClientOptions { Socket = null! },
        ];
        Assert.All(initializers, static i => Assert.Throws<ArgumentNullException>(i));
    }

    [Fact]
    public void A_copy_with_another_address_has_the_same_groups()
    {
        ServerOptions server = new() { Address = "tcp://127.0.0.1:0", Limits = new() { Connections = 3 } };
        Assert.Same(server.Limits, server.With("unix:/a").Limits);
        ClientOptions client = new() { Address = "tcp://127.0.0.1:1", Socket = new() { NoDelay = false } };
        Assert.Same(client.Socket, client.With("unix:/a").Socket);
    }

    [Fact]
    public void One_group_serves_servers_and_clients()
    {
        ConnectionTimeouts timeouts = new() { Drain = TimeSpan.Zero };
        ConnectionLimits limits = new() { SendBytes = 1 };
        Assert.Equal(["Timeouts.Drain = 00:00:00, allowed 00:00:00.0100000 to 01:00:00"],
            new ServerOptions { EndPoint = new IPEndPoint(IPAddress.Loopback, 0), Timeouts = timeouts }.FindMistakes());
        ClientOptions client = new() { EndPoint = new UnixDomainSocketEndPoint("/a"), Limits = limits };
        Assert.Contains("Limits.SendBytes = 1, allowed 4096 to 1073741824",
            Assert.Throws<ArgumentException>(() => client.Validate(Engine.Default)).Message, StringComparison.Ordinal);
    }
}
