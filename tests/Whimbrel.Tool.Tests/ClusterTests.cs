using System.Globalization;
using System.Text.RegularExpressions;
using Whimbrel.Http.Tests.Programs;
using Whimbrel.Tests.RabbitMq;

namespace Whimbrel.Tool.Tests;

// Nodes as processes, with a real broker: one room on several `serve chat`.
public sealed class ClusterTests
{
    private static Task<RealProgram> BrokerAsync(int port) =>
        RealProgram.ServeAsync("nats-server", port, _ => ["-a", "127.0.0.1", "-p", $"{port}"]);

    private static Task<RunningTool> NodeAsync(string name, string broker) =>
        RunningTool.Serve("chat", "--cluster", broker, "--node", name, "--loops", "2");

    [Theory]
    [InlineData("nats", "-a", "127.0.0.1", "-p")]
    [InlineData("redis", "--save", "", "--bind", "127.0.0.1", "--port")]
    public async Task Two_servers_are_one_room_and_each_line_says_its_node(string kind, params string[] options)
    {
        int port = RealProgram.FreePort();
        using RealProgram broker = await RealProgram.ServeAsync($"{kind}-server", port, _ => [.. options, $"{port}"]);
        await AreOneRoomAsync($"{kind}://127.0.0.1:{port}", kind == "nats" ? "NATS" : "Redis");
    }

    [Fact]
    public async Task Two_servers_are_one_room_over_RabbitMQ_too()
    {
        int port = RealProgram.FreePort();
        await using RabbitMqProgram broker = await RabbitMqProgram.ServeAsync(port);
        await AreOneRoomAsync($"amqp://127.0.0.1:{port}", "RabbitMQ");
    }

    private static async Task AreOneRoomAsync(string address, string broker)
    {
        await using RunningTool a = await NodeAsync("a", address), b = await NodeAsync("b", address);
        using ClusterGuest anna = await ClusterGuest.EnterAsync(a, "a", "anna"),
            bert = await ClusterGuest.EnterAsync(b, "b", "bert");
        await anna.UntilAsync(static l => Regex.IsMatch(l, @"^\[b\] \* guest\d+ is bert now$"), "who came");
        await anna.SayAsync("hello, ünïcode ✓");
        await bert.UntilAsync(static l => Regex.IsMatch(l, @"^\[a\] anna: hello, ünïcode ✓$"), "what anna said");
        await bert.SayAsync("hi");
        await anna.UntilAsync(static l => l == "[b] bert: hi", "what bert said");
        Assert.Matches($@"cluster: healthy\. {broker} 127\.0\.0\.1:\d+ \(of {Regex.Escape(address)}\) is reached\.",
            await a.Error.ThatContains("cluster: "));
        await a.StopAsync();
        await b.StopAsync();
    }

    [Fact]
    public async Task A_missing_broker_is_reported_before_any_client_is_served()
    {
        int port = RealProgram.FreePort();
        var (code, output, errors) = await RunningTool.Run(null, "serve", "chat", "--port", "0", "--cluster",
            $"nats://u:secret@127.0.0.1:{port}");
        Assert.Equal(1, code);
        Assert.Empty(output);
        string error = Assert.Single(errors);
        Assert.StartsWith(
            $"whimbrel: NATS nats://127.0.0.1:{port}: Cannot connect to 127.0.0.1:{port}: connection refused", error,
            StringComparison.Ordinal);
        Assert.DoesNotContain("secret", error, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("--node is the name in a cluster", "--node", "x")]
    [InlineData("--cluster takes nats://HOST:PORT, redis://HOST:PORT or amqp://HOST:PORT", "--cluster",
        "127.0.0.1:4222")]
    [InlineData("--node takes 1 to 20", "--cluster", "nats://x", "--node", "a b")]
    public async Task Options_that_mean_nothing_are_refused(string message, params string[] options) =>
        await RunningTool.AssertRefused(message, "whimbrel serve chat", ["serve", "chat", .. options]);

    // Guests of three nodes send all the time. Whatever is killed or stopped: only guests of a killed node are
    // disconnected; each guest receives each line of each other guest once and in order, or a diagnostic event that it
    // is lost; within five seconds after a fault, all guests receive all lines again.
    [Fact, Trait("Runs", "quiet")]
    public async Task When_broker_and_nodes_fail_no_other_guest_is_disconnected_and_every_loss_is_reported()
    {
        int port = RealProgram.FreePort();
        string address = $"nats://127.0.0.1:{port}";
        TimeSpan fault = TimeSpan.FromSeconds(Depth.IsDeep ? 10 : 1.5);
        RealProgram broker = await BrokerAsync(port);
        RunningTool[] nodes = [await NodeAsync("a", address), await NodeAsync("b", address),
            await NodeAsync("c", address)];
        List<ClusterGuest> guests = [];
        try
        {
            foreach (RunningTool node in nodes)
                guests.Add(await ClusterGuest.EnterAsync(node, $"{(char)('a' + guests.Count)}",
                    $"{(char)('a' + guests.Count)}"));
            foreach (ClusterGuest guest in guests) guest.StartTalking();
            await AllHearAllAsync(guests);

            // The broker is killed, and restarted.
            broker.Dispose();
            await PassAsync(fault);
            broker = await BrokerAsync(port);
            await AllHearAllAsync(guests);

            // A node is suspended for a while.
            await nodes[2].SignalAsync("STOP");
            await PassAsync(fault);
            await AllHearAllAsync(guests[..2]);
            await nodes[2].SignalAsync("CONT");
            await AllHearAllAsync(guests);

            // A node is killed, and another process replaces it. Its guest has stopped sending before, so that all its
            // lines have left the node.
            await guests[1].FallSilentAsync(guests);
            await nodes[1].DisposeAsync();
            await AllHearAllAsync([guests[0], guests[2]]);
            guests[1].Dispose();
            nodes[1] = await NodeAsync("b", address);
            ClusterGuest late = await ClusterGuest.EnterAsync(nodes[1], "b", "d");
            guests.Add(late);
            late.StartTalking();
            await AllHearAllAsync([guests[0], guests[2], late]);

            // The broker is killed again while a node is suspended.
            await nodes[0].SignalAsync("STOP");
            broker.Dispose();
            await PassAsync(fault);
            broker = await BrokerAsync(port);
            await nodes[0].SignalAsync("CONT");
            await AllHearAllAsync([guests[0], guests[2], late]);

            ClusterGuest[] alive = [guests[0], guests[2], late];
            foreach (ClusterGuest guest in alive) await guest.FallSilentAsync(alive);
            foreach (ClusterGuest guest in alive) Assert.True(guest.IsConnected, $"{guest.Name} was disconnected");
            foreach (ClusterGuest guest in alive) guest.Check(alive);
        }
        finally
        {
            foreach (ClusterGuest guest in guests) guest.Dispose();
            foreach (RunningTool node in nodes) await node.DisposeAsync();
            broker.Dispose();
        }
    }

    // The network between a node and the broker drops all packets without an error: for less than the time after which
    // a connection is abandoned, for more, in one direction, and for all nodes.
    [Theory, Trait("Runs", "quiet")]
    [InlineData("nats", "Server is ready", "-a", "0.0.0.0", "-p")]
    [InlineData("redis", "Ready to accept connections", "--save", "", "--protected-mode", "no", "--port")]
    public async Task A_network_that_falls_apart_disconnects_no_guest_and_every_loss_is_reported(string kind,
        string isReady, params string[] options)
    {
        const string Port = "4222"; // tidy: fixed port because the broker runs in a network namespace of its own
        await using ClusterNetwork network = await ClusterNetwork.MakeAsync("a", "b", "c");
        using RealProgram broker = RealProgram.Start("ip",
            ["netns", "exec", network.SpaceOf("broker"), RealProgram.Find($"{kind}-server"), .. options, Port]);
        await Deadline.Within(
            async cancellation =>
            {
                // tidy: waits because another program begins to listen
                while (!broker.Output.Contains(isReady, StringComparison.Ordinal)) await Task.Delay(20, cancellation);
                return true;
            },
            () => broker.Output);
        List<RunningTool> nodes = [];
        List<ClusterGuest> guests = [];
        try
        {
            foreach (string name in (string[])["a", "b", "c"])
            {
                nodes.Add(await RunningTool.ServeIn(
                    network.SpaceOf(name), "chat", "--unix", Path.Combine(broker.Directory, name), "--cluster",
                    $"{kind}://{ClusterNetwork.BrokerAddress}:{Port}", "--node", name, "--loops", "1"));
                guests.Add(await ClusterGuest.EnterAsync(nodes[^1], name, name));
            }

            foreach (ClusterGuest guest in guests) guest.StartTalking();
            await AllHearAllAsync(guests);

            await network.CutAsync("c");
            await PassAsync(TimeSpan.FromSeconds(2));
            await AllHearAllAsync(guests[..2]);
            await network.HealAsync("c");
            await AllHearAllAsync(guests);

            // Longer than three unanswered pings, after which a silent broker is disconnected.
            await network.CutAsync("c");
            await PassAsync(TimeSpan.FromSeconds(Depth.IsDeep ? 20 : 8));
            await AllHearAllAsync(guests[..2]);
            Assert.Contains("cluster: degraded.", await nodes[2].Error.ThatContains("degraded"),
                StringComparison.Ordinal);
            await network.HealAsync("c");
            await AllHearAllAsync(guests);

            await network.CutAsync("a", isOneWay: true);
            await PassAsync(TimeSpan.FromSeconds(Depth.IsDeep ? 10 : 3));
            await network.HealAsync("a");
            await AllHearAllAsync(guests);

            await network.CutAsync("broker");
            await PassAsync(TimeSpan.FromSeconds(Depth.IsDeep ? 10 : 3));
            await network.HealAsync("broker");
            await AllHearAllAsync(guests);

            foreach (ClusterGuest guest in guests) await guest.FallSilentAsync(guests);
            foreach (ClusterGuest guest in guests) Assert.True(guest.IsConnected, $"{guest.Name} was disconnected");
            foreach (ClusterGuest guest in guests) guest.Check(guests);
        }
        finally
        {
            foreach (ClusterGuest guest in guests) guest.Dispose();
            foreach (RunningTool node in nodes) await node.DisposeAsync();
        }
    }

    // The guarantee is five seconds. Because machines are shared, the test allows ten times that, and prints the
    // measured time.
    private static async Task AllHearAllAsync(IReadOnlyList<ClusterGuest> guests)
    {
        long start = System.Diagnostics.Stopwatch.GetTimestamp();
        foreach (ClusterGuest guest in guests)
        {
            foreach (ClusterGuest other in guests)
            {
                if (guest != other) await guest.HearsFreshAsync(other);
            }
        }

        TimeSpan took = System.Diagnostics.Stopwatch.GetElapsedTime(start);
        TestContext.Current.TestOutputHelper!.WriteLine(string.Create(CultureInfo.InvariantCulture,
            $"all receive all after {took.TotalSeconds:0.00} s"));
        Assert.True(took < TimeSpan.FromSeconds(5), $"service after {took}");
    }

    private static Task PassAsync(TimeSpan time) => Task.Delay(time); // tidy: waits because a fault lasts
}
