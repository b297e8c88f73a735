using System.Net.Sockets;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Options;

namespace Whimbrel.Hosting.Tests;

/// <summary>Results of the health check.</summary>
public sealed class HealthTests
{
    [Fact]
    public async Task A_server_is_healthy_while_it_serves_degraded_at_its_limit_and_unhealthy_when_it_drains()
    {
        await using TestHost host = new(
            static s =>
            {
                s.AddWhimbrelServer<Stubborn>("Chat");
                s.AddHealthChecks().AddWhimbrelServer("Chat", tags: ["ready"]);
            },
            ("Chat:Address", "tcp://127.0.0.1:0"), ("Chat:Limits:Connections", "2"));
        await TellsAsync(host, HealthStatus.Unhealthy, "Chat is not started");
        await host.StartAsync();
        await TellsAsync(host, HealthStatus.Healthy, "Chat serves 0 sessions");
        await host.ConnectAsync();
        await host.ConnectAsync();
        await TestHost.UntilAsync(() => host.Server().SessionCount == 2, "both sessions");
        await TellsAsync(host, HealthStatus.Degraded, "Chat has 2 sessions, which is its limit");
        NetworkStream third = (await host.ConnectAsync()).GetStream();
        await TestHost.UntilAsync(() => host.Server().RejectedCount == 1, "the rejection");
        host.Reload(("Chat:Limits:Connections", "100"));
        await TellsAsync(host, HealthStatus.Degraded, "Chat has rejected connections in the last 10 s");
        // Independent of other callers of the check.
        await TellsAsync(host, HealthStatus.Degraded, "Chat has rejected connections in the last 10 s");

        using CancellationTokenSource patience = new();
        Task stop = host.StopAsync(patience.Token);
        await TestHost.UntilAsync(() => !host.Server().IsAccepting, "the stop to begin");
        await TellsAsync(host, HealthStatus.Unhealthy,
            "Chat does not accept: it drains, or has stopped, with 2 sessions open");
        await patience.CancelAsync();
        await Record.ExceptionAsync(() => stop.WaitAsync(TestHost.Patience));
    }

    [Fact]
    public async Task A_loop_that_is_blocked_is_degraded_then_unhealthy_and_dead_until_it_continues()
    {
        using ManualResetEventSlim gate = new();
        await using TestHost host = new(
            s =>
            {
                s.AddSingleton(gate).AddWhimbrelServer<Blocker>("Chat");
                s.AddHealthChecks().AddWhimbrelServer("Chat", options: new ServerHealthOptions
                {
                    LoopSilence = TimeSpan.FromMilliseconds(100),
                    LoopStandstill = TimeSpan.FromSeconds(3)
                });
            },
            ("Chat:Address", "tcp://127.0.0.1:0"));
        await host.StartAsync();
        Assert.Equal((HealthStatus.Healthy, HealthStatus.Healthy), await LookAsync(host));
        await (await host.ConnectAsync()).GetStream().WriteAsync(new byte[1], TestContext.Current.CancellationToken);
        List<(HealthStatus Ready, HealthStatus Live)> seen = [];
        try
        {
            while (seen is not [.., (HealthStatus.Unhealthy, HealthStatus.Unhealthy)])
            {
                (HealthStatus, HealthStatus) now = await LookAsync(host);
                if (seen.Count == 0 || seen[^1] != now) seen.Add(now);
                Assert.True(seen.Count < 10, string.Join(", ", seen));
                // tidy: waits because a health check is polled
                await Task.Delay(20, TestContext.Current.CancellationToken);
            }

            // The two checks are polled one after the other, so the change may occur between them.
            seen.Remove((HealthStatus.Degraded, HealthStatus.Unhealthy));
            seen.Remove((HealthStatus.Unhealthy, HealthStatus.Healthy));
            seen.Remove((HealthStatus.Healthy, HealthStatus.Healthy));
            // On a busy machine a loop is silent for 100 ms before it is blocked, too: Degraded, Healthy, Degraded.
            Assert.Equal([(HealthStatus.Degraded, HealthStatus.Healthy),
                (HealthStatus.Unhealthy, HealthStatus.Unhealthy)], seen.Distinct());
            await TellsAsync(host, HealthStatus.Unhealthy, "Chat: loop 0 has not answered for ");
        }
        finally
        {
            gate.Set();
        }

        while (await LookAsync(host) != (HealthStatus.Healthy, HealthStatus.Healthy))
            // tidy: waits because a health check is polled
            await Task.Delay(20, TestContext.Current.CancellationToken);
    }

    [Fact]
    public async Task A_blocked_loop_affects_the_health_of_servers_with_sessions_on_it()
    {
        using ManualResetEventSlim gate = new();
        await using TestHost host = new(
            s =>
            {
                s.AddSingleton(gate).AddWhimbrelServer<Blocker>("Chat").AddWhimbrelServer<Stubborn>("Other");
                ServerHealthOptions options =
                    new() { LoopSilence = TimeSpan.FromMilliseconds(100), LoopStandstill = TimeSpan.FromHours(1) };
                s.AddHealthChecks().AddWhimbrelServer("Chat", options: options)
                    .AddWhimbrelServer("Other", options: options);
            },
            ("Whimbrel:Loops", "2"), ("Chat:Address", "tcp://127.0.0.1:0"), ("Other:Address", "tcp://127.0.0.1:0"));
        await host.StartAsync();
        await (await host.ConnectAsync()).GetStream().WriteAsync(new byte[1], TestContext.Current.CancellationToken);
        try
        {
            HealthReport report;
            do report = await host.Services.GetRequiredService<HealthCheckService>()
                .CheckHealthAsync(TestContext.Current.CancellationToken);
            while (report.Entries["Chat"].Status != HealthStatus.Degraded);
            Assert.Equal(HealthStatus.Healthy, report.Entries["Other"].Status);
            Assert.Contains("1 of its sessions wait there", report.Entries["Chat"].Description,
                StringComparison.Ordinal);
        }
        finally
        {
            gate.Set();
        }
    }

    [Fact]
    public async Task Readiness_and_liveness_are_distinguished_by_tags_and_a_drain_is_not_unhealthy()
    {
        await using TestHost host = new(
            static s =>
            {
                s.AddWhimbrelServer<Stubborn>("Chat");
                s.AddHealthChecks().AddWhimbrelServer("Chat", tags: ["mine"]);
            },
            ("Chat:Address", "tcp://127.0.0.1:0"));
        await host.StartAsync();
        await host.StopAsync();
        HealthCheckService service = host.Services.GetRequiredService<HealthCheckService>();
        HealthReport ready = await service.CheckHealthAsync(static c => c.Tags.Contains(HostingExtensions.ReadyTag),
            TestContext.Current.CancellationToken);
        HealthReport live = await service.CheckHealthAsync(static c => c.Tags.Contains(HostingExtensions.LiveTag),
            TestContext.Current.CancellationToken);
        HealthReport mine = await service.CheckHealthAsync(static c => c.Tags.Contains("mine"),
            TestContext.Current.CancellationToken);
        Assert.Equal((HealthStatus.Unhealthy, HealthStatus.Healthy), (ready.Status, live.Status));
        Assert.Equal(["Chat", "Chat:Live", "Chat"],
            ((HealthReport[])[ready, live, mine]).Select(static r => Assert.Single(r.Entries.Keys)));
    }

    [Fact]
    public async Task A_check_of_a_name_that_nothing_has_fails_the_start()
    {
        await using TestHost host = new(
            static s =>
            {
                s.AddHealthChecks().AddWhimbrelServer("Chta").AddWhimbrelCluster("Chat").AddWhimbrelServer("Chat");
                s.AddWhimbrelServer<Stubborn>("Chat");
            },
            ("Chat:Address", "tcp://127.0.0.1:0"));
        OptionsValidationException thrown = await Assert.ThrowsAsync<OptionsValidationException>(host.StartAsync);
        Assert.Equal(
            [
                "AddHealthChecks().AddWhimbrelServer(\"Chta\"): there is no server of this name, there are Chat. "
                + "builder.Services.AddWhimbrelServer adds one",
                "AddHealthChecks().AddWhimbrelCluster(\"Chat\"): there is no node of a cluster of this name, none was "
                + "added. builder.Services.AddWhimbrelCluster adds one",
            ],
            thrown.Failures);
        await using TestHost alone = new(static s => s.AddHealthChecks().AddWhimbrelServer("Chat"));
        await Assert.ThrowsAsync<OptionsValidationException>(alone.StartAsync);
        Assert.Throws<ArgumentException>(static () => new ServiceCollection().AddHealthChecks()
            .AddWhimbrelServer("Chat", options: new ServerHealthOptions { LoopSilence = TimeSpan.FromMinutes(1) }));
        Assert.Throws<ArgumentOutOfRangeException>(
            static () => new ServerHealthOptions { LoopSilence = TimeSpan.Zero });
    }

    private static async Task<(HealthStatus Ready, HealthStatus Live)> LookAsync(TestHost host)
    {
        HealthReport report = await host.Services.GetRequiredService<HealthCheckService>()
            .CheckHealthAsync(TestContext.Current.CancellationToken);
        return (report.Entries["Chat"].Status, report.Entries["Chat:Live"].Status);
    }

    private static async Task<HealthReportEntry> LookAtAsync(TestHost host) =>
        (await host.Services.GetRequiredService<HealthCheckService>()
            .CheckHealthAsync(TestContext.Current.CancellationToken)).Entries["Chat"];

    private static async Task TellsAsync(TestHost host, HealthStatus status, string text)
    {
        HealthReportEntry entry = await LookAtAsync(host);
        Assert.StartsWith(text, entry.Description, StringComparison.Ordinal);
        Assert.Equal(status, entry.Status);
    }

    [Fact] // the second time, and a check that finds a question open waits only for the rest of its time
    public async Task Each_blocked_loop_is_noticed_and_asked_once_at_a_time()
    {
        using ManualResetEventSlim gate = new();
        await using TestHost host = new(
            s =>
            {
                s.AddSingleton(gate).AddWhimbrelServer<Blocker>("Chat");
                s.AddHealthChecks().AddWhimbrelServer("Chat", tags: ["ready"], options: new ServerHealthOptions
                {
                    LoopSilence = TimeSpan.FromSeconds(2),
                    LoopStandstill = TimeSpan.FromHours(1)
                });
            },
            ("Chat:Address", "tcp://127.0.0.1:0"));
        await host.StartAsync();
        NetworkStream stream = (await host.ConnectAsync()).GetStream();
        for (int time = 0; time < 2; time++)
        {
            await TestHost.UntilAsync(() => host.Server().SessionCount == 1, "the session");
            await TellsAsync(host, HealthStatus.Healthy, "Chat serves 1 sessions");
            await stream.WriteAsync(new byte[1], TestContext.Current.CancellationToken);
            try
            {
                // A check that comes before the byte finds the loop free.
                while ((await LookAtAsync(host)).Status != HealthStatus.Degraded)
                {
                }

                // A check that asks again takes two seconds each time; on a busy machine one of the others may.
                long shortest = long.MaxValue;
                for (int look = 0; look < 5 && shortest > 1_500; look++)
                {
                    long began = Environment.TickCount64;
                    await TellsAsync(host, HealthStatus.Degraded, "Chat: loop 0 has not answered for ");
                    shortest = Math.Min(shortest, Environment.TickCount64 - began);
                }

                Assert.InRange(shortest, 0, 1_500);
            }
            finally
            {
                gate.Set();
            }

            while ((await LookAtAsync(host)).Status != HealthStatus.Healthy)
            {
            }

            gate.Reset();
        }
    }

    [Theory] // siblings: whatever other threads could not send
    [InlineData(false)]
    [InlineData(true)]
    public async Task Refused_sends_and_refused_broadcasts_of_other_threads_degrade_the_health(bool isBroadcast)
    {
        using ManualResetEventSlim gate = new();
        await using TestHost host = new(
            s =>
            {
                s.AddSingleton(gate).AddWhimbrelServer<Blocker>("Chat");
                s.AddHealthChecks().AddWhimbrelServer("Chat", tags: ["ready"]);
            },
            ("Chat:Address", "tcp://127.0.0.1:0"), ("Whimbrel:MailboxLimitBytes", "65536"),
            ("Chat:Limits:SendBytes", "1048576"));
        await host.StartAsync();
        NetworkStream stream = (await host.ConnectAsync()).GetStream();
        await TestHost.UntilAsync(() => host.Server().SessionCount == 1, "the session");
        Session? session = null;
        await host.Server().Sessions.ForEachAsync(s => session = s);
        await TellsAsync(host, HealthStatus.Healthy, "Chat serves 1 sessions");
        await stream.WriteAsync(new byte[1], TestContext.Current.CancellationToken);
        try
        {
            SendResult result = SendResult.Queued;
            await TestHost.UntilAsync(() =>
            {
                for (int i = 0; i < 100 && result == SendResult.Queued; i++)
                    result = isBroadcast
                        ? host.Server().Sessions.Broadcast(new byte[1000])
                        : session!.Send(new byte[1000]);
                return result == SendResult.Full;
            }, "a full mailbox");
        }
        finally
        {
            gate.Set();
        }

        await TellsAsync(host, HealthStatus.Degraded, "Chat: sends were refused in the last 10 s");
        await TellsAsync(host, HealthStatus.Degraded, "Chat: sends were refused in the last 10 s");
    }
}
