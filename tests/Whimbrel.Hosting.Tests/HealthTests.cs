using System.Net.Sockets;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;

namespace Whimbrel.Hosting.Tests;

/// <summary>What the health check says, and when.</summary>
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
            ("Chat:Address", "tcp://127.0.0.1:0"), ("Chat:MaxConnections", "2"));
        await TellsAsync(host, HealthStatus.Unhealthy, "Chat is not started");
        await host.StartAsync();
        await TellsAsync(host, HealthStatus.Healthy, "Chat serves 0 sessions");
        await host.DialAsync();
        await host.DialAsync();
        await TestHost.UntilAsync(() => host.Server().SessionCount == 2, "both sessions");
        await TellsAsync(host, HealthStatus.Degraded, "Chat has 2 sessions, which is its limit");
        NetworkStream third = (await host.DialAsync()).GetStream();
        await TestHost.UntilAsync(() => host.Server().RejectedCount == 1, "the rejection");
        host.Reload(("Chat:MaxConnections", "100"));
        await TellsAsync(host, HealthStatus.Degraded, "Chat has rejected connections in the last 10 s");
        await TellsAsync(host, HealthStatus.Degraded, "Chat has rejected connections in the last 10 s"); // one asker does not take it from another

        using CancellationTokenSource patience = new();
        Task stop = host.StopAsync(patience.Token);
        await TestHost.UntilAsync(() => !host.Server().IsAccepting, "the stop to begin");
        await TellsAsync(host, HealthStatus.Unhealthy, "Chat does not accept: it drains, or has stopped, with 2 sessions open");
        await patience.CancelAsync();
        await Record.ExceptionAsync(() => stop.WaitAsync(TestHost.Patience));
    }

    [Fact]
    public async Task A_loop_that_is_blocked_is_unhealthy_until_it_goes_on()
    {
        using ManualResetEventSlim gate = new();
        await using TestHost host = new(
            s =>
            {
                s.AddSingleton(gate).AddWhimbrelServer<Blocker>("Chat");
                s.AddHealthChecks().AddWhimbrelServer("Chat", HealthStatus.Degraded);
            },
            ("Chat:Address", "tcp://127.0.0.1:0"));
        await host.StartAsync();
        await (await host.DialAsync()).GetStream().WriteAsync(new byte[1], TestContext.Current.CancellationToken);
        await TestHost.UntilAsync(() => host.Server().BytesReceived == 1 || host.Server().ReadCounters().MessagesReceived == 1 || host.Server().SessionCount == 1, "the session");
        try
        {
            await TestHost.UntilAsync(() => host.Services.GetRequiredService<HealthCheckService>().CheckHealthAsync(TestContext.Current.CancellationToken).GetAwaiter().GetResult().Status == HealthStatus.Degraded, "the loop to be seen blocked");
            await TellsAsync(host, HealthStatus.Degraded, "Chat: loop 0 has not answered within 1 s; a callback blocks it");
        }
        finally
        {
            gate.Set();
        }

        await TestHost.UntilAsync(() => host.Services.GetRequiredService<HealthCheckService>().CheckHealthAsync(TestContext.Current.CancellationToken).GetAwaiter().GetResult().Status == HealthStatus.Healthy, "the loop to go on");
    }

    private static async Task TellsAsync(TestHost host, HealthStatus status, string text)
    {
        HealthReport report = await host.Services.GetRequiredService<HealthCheckService>().CheckHealthAsync(TestContext.Current.CancellationToken);
        HealthReportEntry entry = report.Entries["Chat"];
        Assert.StartsWith(text, entry.Description, StringComparison.Ordinal);
        Assert.Equal(status, entry.Status);
    }
}
