using System.Net.Sockets;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Options;
using Whimbrel.Clusters;

namespace Whimbrel.Hosting.Tests;

/// <summary>Servers of a host as cluster nodes: sources of their options, when they join and leave, and their
/// health.</summary>
public sealed class ClusterTests
{
    private const string AnyPort = "tcp://127.0.0.1:0";

    [Fact]
    public async Task Sessions_of_two_hosts_receive_each_others_last_messages_when_one_host_stops()
    {
        MemoryBus bus = new();
        await using TestHost one = Node(bus.Connect(), "one");
        await using TestHost two = Node(bus.Connect(), "two");
        await one.StartAsync();
        await two.StartAsync();
        NetworkStream here = (await one.ConnectAsync()).GetStream();
        NetworkStream there = (await two.ConnectAsync()).GetStream();
        Assert.Equal("in", await TestHost.AskAsync(here, "", 2));
        Assert.Equal("in", await TestHost.AskAsync(there, "", 2));
        Assert.Equal("hello", await TestHost.AskAsync(here, "hello", 5));
        Assert.Equal("hello", await TestHost.AskAsync(there, "", 5));
        Assert.True(one.Log.Has("Whimbrel.Cluster.Chat Information 108 Chat is node one of room: the bus in memory"));

        Task stop = one.StopAsync();
        await one.HangUpAsync();
        Assert.Equal("gone", await TestHost.AskAsync(there, "", 4));
        await stop.WaitAsync(TestHost.Patience);
        Assert.True(one.Log.Has("111 Chat, node one, has left its cluster"));
    }

    [Fact]
    public async Task Without_an_address_the_cluster_is_one_process_and_the_configuration_wins_over_the_program()
    {
        await using TestHost host = new(
            static s => s.AddWhimbrelServer<Member>("Chat")
                .AddWhimbrelCluster("Chat", static _ => new ClusterOptions { Application = "other", NodeId = "mine" }),
            ("Chat:Address", AnyPort), ("Chat:Cluster:Application", "room"));
        InvalidOperationException early =
            Assert.Throws<InvalidOperationException>(() => host.Services.GetRequiredKeyedService<Cluster>("Chat"));
        Assert.StartsWith("Chat is no node of its cluster now: it joins when the host starts", early.Message,
            StringComparison.Ordinal);
        await host.StartAsync();
        Assert.Equal("mine", host.Services.GetRequiredKeyedService<Cluster>("Chat").NodeId);
        Assert.True(host.Log.Has("108 Chat is node mine of room"));
        Assert.Equal("in", await TestHost.AskAsync((await host.ConnectAsync()).GetStream(), "", 2));
        host.Reload(("Chat:Cluster:Application", "lobby"));
        await TestHost.UntilAsync(() =>
            host.Log.Has("103 Chat:Cluster:Application has changed and applies from the next start"), "the reload");
    }

    [Fact]
    public async Task Mistakes_of_nodes_are_reported_with_those_of_servers_and_without_secrets()
    {
        await using TestHost host = new(
            static s => s.AddWhimbrelServer<Member>("Chat").AddWhimbrelServer<Member>("Far")
                .AddWhimbrelServer<Member>("Plain").AddWhimbrelCluster("Chat").AddWhimbrelCluster("Far"),
            ("Chat:Address", AnyPort), ("Chat:Cluster:Key", "not base64"), ("Chat:Cluster:IsolatedAfter", "-00:00:01"),
            ("Chat:Cluster:Queue", "5"),
            ("Far:Address", AnyPort), ("Far:Cluster:Application", "room"),
            ("Far:Cluster:Address", "carrier-pigeon://user:secret@roof"), ("Plain:Address", AnyPort),
            ("Plain:Cluster:Application", "room"));
        string[] told = [.. (await Assert.ThrowsAsync<OptionsValidationException>(host.StartAsync)).Failures];
        string[] expected =
        [
            "Chat:Cluster:Key: is no base64",
            "Chat:Cluster:Queue: there is no such option; there are Address, AnnounceInterval",
            "Chat:Cluster:Application has to be 1 to 64 ASCII letters",
            "Chat:Cluster:IsolatedAfter has to be above zero, up to 7 days",
            "Far:Cluster:Address: No bus is registered for carrier-pigeon://", "Plain:Cluster: there is no such option",
        ];
        Assert.All(expected, e => Assert.Contains(told, t => t.StartsWith(e, StringComparison.Ordinal)));
        Assert.Equal(expected.Length, told.Length);
        Assert.DoesNotContain(told, static t => t.Contains("secret", StringComparison.Ordinal)
            || t.Contains("not base64", StringComparison.Ordinal) || t.Contains("Parameter", StringComparison.Ordinal));
    }

    [Fact]
    public async Task A_node_leaves_again_when_its_server_cannot_listen()
    {
        using Socket taken = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        taken.Bind(new System.Net.IPEndPoint(System.Net.IPAddress.Loopback, 0));
        taken.Listen();
        await using TestHost host = Node(new MemoryBus().Connect(), "one");
        host.Reload(("Chat:Address", $"tcp://{taken.LocalEndPoint}"));
        await Assert.ThrowsAsync<NetworkException>(host.StartAsync);
        Assert.True(host.Log.Has("108 Chat is node one of room"));
        Assert.True(host.Log.Has("111 Chat, node one, has left its cluster"));
    }

    [Fact]
    public void A_node_needs_its_server_and_is_one_once()
    {
        ServiceCollection services = [];
        Assert.StartsWith("There is no server Chat: add it first",
            Assert.Throws<InvalidOperationException>(() => services.AddWhimbrelCluster("Chat")).Message,
            StringComparison.Ordinal);
        services.AddWhimbrelServer<Member>("Chat").AddWhimbrelCluster("Chat");
        Assert.Throws<InvalidOperationException>(() => services.AddWhimbrelCluster("Chat"));
    }

    [Theory]
    [InlineData(null, HealthStatus.Degraded)]
    [InlineData(HealthStatus.Unhealthy, HealthStatus.Unhealthy)]
    public async Task A_lost_broker_is_degraded_and_isolated_what_the_program_wants(HealthStatus? wanted,
        HealthStatus isolated)
    {
        MemoryBusLink link = new MemoryBus().Connect();
        await using TestHost host = Node(link, "one", wanted, ("Chat:Cluster:IsolatedAfter", "00:10:00"));
        await TellsAsync(host, HealthStatus.Unhealthy, "Chat is no node of its cluster");
        await host.StartAsync();
        await UntilTellsAsync(host, HealthStatus.Healthy, "Chat is node one");
        link.IsCut = true;
        await UntilTellsAsync(host, HealthStatus.Degraded, "Chat: the bus in memory lost: it was cut off. Broadcasts "
            + "to other nodes wait, local delivery continues. 0 bytes wait");
        await TestHost.UntilAsync(() => host.Log.Has(
            "Whimbrel.Cluster.Chat Warning 109 Chat is Degraded in its cluster: the bus in memory lost"), "the log");
        link.IsCut = false;
        await UntilTellsAsync(host, HealthStatus.Healthy, "Chat is node one");

        MemoryBusLink other = new MemoryBus().Connect();
        await using TestHost hasty = Node(other, "two", wanted, ("Chat:Cluster:IsolatedAfter", "00:00:00.01"),
            ("Chat:Cluster:MarkInterval", "00:00:00.01"));
        await hasty.StartAsync();
        other.IsCut = true;
        await UntilTellsAsync(hasty, isolated, "Chat has been without its broker for a while");
        // Members on this node are served.
        Assert.Equal("in", await TestHost.AskAsync((await hasty.ConnectAsync()).GetStream(), "", 2));
    }

    [Fact]
    public async Task Losses_degrade_the_health_for_a_while_for_every_caller()
    {
        MemoryBusLink link = new MemoryBus().Connect();
        await using TestHost host = Node(link, "one", ("Chat:Cluster:MaxPayloadBytes", "1024"),
            ("Chat:Cluster:QueueLimitBytes", "4096"));
        await host.StartAsync();
        await UntilTellsAsync(host, HealthStatus.Healthy, "Chat is node one");
        link.IsCut = true;
        await UntilTellsAsync(host, HealthStatus.Degraded, "Chat: the bus in memory lost");
        Cluster cluster = host.Services.GetRequiredKeyedService<Cluster>("Chat");
        for (int i = 0; i < 10; i++) cluster.Group("lobby").Broadcast(new byte[1000]);
        await TestHost.UntilAsync(() => cluster.ReadCounters().Dropped > 0, "the queue to be full");
        link.IsCut = false;
        await UntilTellsAsync(host, HealthStatus.Degraded,
            "Chat has lost broadcasts from or to other nodes in the last 10 s");
        await TellsAsync(host, HealthStatus.Degraded,
            "Chat has lost broadcasts from or to other nodes in the last 10 s");
        await host.StopAsync();
        await TellsAsync(host, HealthStatus.Unhealthy, "Chat is no node of its cluster");
    }

    private static TestHost Node(MemoryBusLink link, string id, params (string Key, string? Value)[] settings) =>
        Node(link, id, null, settings);

    private static TestHost Node(MemoryBusLink link, string id, HealthStatus? isolated,
        params (string Key, string? Value)[] settings) => new(
            s =>
            {
                s.AddWhimbrelServer<Member>("Chat").AddWhimbrelCluster("Chat", bus: (_, _) => link);
                s.AddHealthChecks().AddWhimbrelCluster("Chat", isolated);
            },
            [("Chat:Address", AnyPort), ("Chat:Cluster:Application", "room"), ("Chat:Cluster:NodeId", id),
                .. settings]);

    private static async Task<HealthReportEntry> LookAsync(TestHost host) =>
        (await host.Services.GetRequiredService<HealthCheckService>()
            .CheckHealthAsync(TestContext.Current.CancellationToken)).Entries["Chat:Cluster"];

    private static async Task TellsAsync(TestHost host, HealthStatus status, string text)
    {
        HealthReportEntry entry = await LookAsync(host);
        Assert.StartsWith(text, entry.Description, StringComparison.Ordinal);
        Assert.Equal(status, entry.Status);
    }

    private static Task UntilTellsAsync(TestHost host, HealthStatus status, string text) => TestHost.UntilAsync(
        () => LookAsync(host).GetAwaiter().GetResult() is var entry && entry.Status == status
            && entry.Description!.StartsWith(text, StringComparison.Ordinal), $"{status}: {text}");
}
