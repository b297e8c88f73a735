using System.Net.Sockets;

namespace Whimbrel.Relays.Tests;

// Targets that fail more than once, and several targets that fail.
public sealed partial class RelayTests
{
    [Fact]
    public async Task A_relay_that_is_started_again_checks_its_targets_again()
    {
        using TcpListener target = Listen();
        await using Relay relay = new(Anywhere(),
            new RelayOptions { Targets = [NameOf(target)], CheckEvery = TimeSpan.FromMilliseconds(100) });
        for (int start = 0; start < 3; start++)
        {
            await relay.StartAsync();
            using Socket check = await target.AcceptSocketAsync(Stop).AsTask().WaitAsync(s_patience, Stop);
            await relay.StopAsync(TimeSpan.Zero);
            while (target.Pending()) (await target.AcceptSocketAsync(Stop)).Dispose();
        }
    }

    [Fact] // the second and the third silent target have the time of the first
    public async Task Each_target_that_answers_no_connect_costs_a_client_the_same_time()
    {
        using SilentTarget one = new(), two = new(), three = new();
        await using Server healthy = await ServeAsync();
        await using Relay relay = new(Anywhere(), new RelayOptions
        {
            Targets = [one.Name, two.Name, three.Name, $"tcp://{healthy.EndPoint}"],
            NextAfter = TimeSpan.FromMilliseconds(200),
            ConnectTimeout = TimeSpan.FromHours(1),
            RetryAfter = TimeSpan.FromHours(1)
        });
        await relay.StartAsync();
        Assert.True(await IsServedAsync(relay));
        Assert.True(await IsServedAsync(relay));
        Assert.Equal((0L, 2L), (relay.Unserved, relay.Targets[3].Connections));
    }

    [Fact]
    public async Task A_stop_ends_the_connects_of_clients_that_wait()
    {
        using SilentTarget silent = new();
        await using Relay relay = new(Anywhere(),
            new RelayOptions { Targets = [silent.Name], ConnectTimeout = TimeSpan.FromHours(1) });
        await relay.StartAsync();
        using Socket client = await ConnectAsync(relay);
        await UntilAsync(() => relay.Targets[0].OpenConnections == 1, "the connect");
        await relay.StopAsync(TimeSpan.Zero);
        await UntilAsync(() => relay.Targets[0].OpenConnections == 0, "the end of the connect");
    }

    [Fact]
    public async Task A_client_whose_targets_all_refuse_is_reset_each_time()
    {
        TcpListener[] gone = [Listen(), Listen(), Listen()];
        await using Relay relay = new(Anywhere(), new RelayOptions { Targets = [.. gone.Select(NameOf)] });
        foreach (TcpListener each in gone) each.Stop();
        await relay.StartAsync();
        for (int i = 1; i <= 3; i++)
        {
            await AssertResetAsync(relay);
            Assert.Equal(i, relay.Unserved);
        }
    }

    [Fact] // RetryAtMost: doubled twelve times, the rest would be of minutes
    public async Task The_rest_of_a_failed_target_grows_up_to_its_limit()
    {
        TcpListener gone = Listen();
        await using Server healthy = await ServeAsync();
        await using Relay relay = new(Anywhere(), new RelayOptions
        {
            Targets = [NameOf(gone), $"tcp://{healthy.EndPoint}"],
            RetryAfter = TimeSpan.FromMilliseconds(50),
            RetryAtMost = TimeSpan.FromMilliseconds(100)
        });
        gone.Stop();
        await relay.StartAsync();
        for (long start = Environment.TickCount64; relay.Targets[0].Failures < 12;)
        {
            Assert.True(Environment.TickCount64 - start < s_patience.TotalMilliseconds, "it is not tried again");
            Assert.True(await IsServedAsync(relay));
        }
    }
}
