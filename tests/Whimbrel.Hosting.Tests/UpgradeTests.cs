using System.Net.Sockets;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;

namespace Whimbrel.Hosting.Tests;

/// <summary>Hosts that replace one another, and what they report before they stop.</summary>
public sealed class UpgradeTests : IDisposable
{
    private readonly string _folder = Directory.CreateTempSubdirectory("whimbrel-").FullName;

    private string UpgradePath => Path.Combine(_folder, "upgrade");

    public void Dispose() => Directory.Delete(_folder, recursive: true);

    [Fact]
    public async Task A_host_takes_the_sockets_of_the_old_one_which_stops_by_itself()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Upgrades of a process need Linux.");
        await using TestHost old = Make();
        await old.StartAsync();
        using TcpClient early = await old.ConnectAsync();
        await TestHost.AskAsync(early.GetStream(), "ping", 4);
        await using TestHost fresh = Make();
        await fresh.StartAsync();
        Assert.Equal(old.Server().EndPoint, fresh.Server().EndPoint);
        Assert.True(old.Services.GetRequiredService<ProcessUpgrade>().IsReplaced);
        IHostApplicationLifetime lifetime = old.Services.GetRequiredService<IHostApplicationLifetime>();
        await TestHost.UntilAsync(() => lifetime.ApplicationStopping.IsCancellationRequested, "the host to stop");
        await TestHost.UntilAsync(() => old.Log.Has("A new process has the sockets of this one"), "the log line");
        await TestHost.UntilAsync(() => fresh.Log.Has("has given its sockets to this one"), "the log line");
        Task stop = old.StopAsync();
        await old.HangUpAsync();
        await stop.WaitAsync(TestHost.Patience);
        TcpClient late = await fresh.ConnectAsync();
        Assert.Equal("ping", await TestHost.AskAsync(late.GetStream(), "ping", 4));

        TestHost Make() => new(
            s =>
            {
                s.AddWhimbrelUpgrade(UpgradePath);
                s.AddWhimbrelServer<Mirror>("Chat");
            },
            ("Chat:Address", "tcp://127.0.0.1:0"));
    }

    [Fact]
    public async Task Readiness_is_unhealthy_before_the_servers_stop_accepting_and_liveness_stays_healthy()
    {
        await using TestHost host = new(
            static s =>
            {
                s.AddWhimbrelServer<Mirror>("Chat");
                s.AddHealthChecks().AddWhimbrelServer("Chat",
                    options: new ServerHealthOptions { NotReadyBeforeStop = TimeSpan.FromMinutes(10) });
                s.Configure<HostOptions>(static o => o.ShutdownTimeout = TimeSpan.FromHours(1));
            },
            ("Chat:Address", "tcp://127.0.0.1:0"));
        await host.StartAsync();
        Assert.Equal((HealthStatus.Healthy, HealthStatus.Healthy), await LookAsync(host));
        using CancellationTokenSource cut = new();
        Task stop = host.StopAsync(cut.Token);
        await TestHost.UntilAsync(() => host.Log.Has("Not ready from now on"), "the stop to begin");
        Assert.Equal((HealthStatus.Unhealthy, HealthStatus.Healthy), await LookAsync(host));
        // Clients that a load balancer still sends are served.
        using TcpClient client = await host.ConnectAsync();
        Assert.Equal("ping", await TestHost.AskAsync(client.GetStream(), "ping", 4));
        Assert.False(stop.IsCompleted);
        await cut.CancelAsync();
        await Record.ExceptionAsync(() => stop.WaitAsync(TestHost.Patience));
        Assert.False(host.Server().IsAccepting);
        Assert.Equal((HealthStatus.Unhealthy, HealthStatus.Healthy), await LookAsync(host));
    }

    [Fact]
    public void A_second_upgrade_of_a_host_and_a_wrong_path_are_refused_at_the_call()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Upgrades of a process need Linux.");
        ServiceCollection services = new();
        services.AddWhimbrelUpgrade(UpgradePath);
        Assert.Contains("has an upgrade already",
            Assert.Throws<InvalidOperationException>(() => services.AddWhimbrelUpgrade(UpgradePath)).Message,
            StringComparison.Ordinal);
        Assert.Throws<ArgumentException>(() => new ServiceCollection().AddWhimbrelUpgrade(""));
        Assert.Throws<ArgumentOutOfRangeException>(
            () => new ServiceCollection().AddWhimbrelUpgrade(UpgradePath, TimeSpan.Zero));
    }

    private static async Task<(HealthStatus Ready, HealthStatus Live)> LookAsync(TestHost host)
    {
        HealthReport report = await host.Services.GetRequiredService<HealthCheckService>()
            .CheckHealthAsync(TestContext.Current.CancellationToken);
        return (report.Entries["Chat"].Status, report.Entries["Chat:Live"].Status);
    }

    private sealed class Mirror : Session
    {
        protected override void OnReceived(ReadOnlySpan<byte> data) => Send(data);
    }
}
