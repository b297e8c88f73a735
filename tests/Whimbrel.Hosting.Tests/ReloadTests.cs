using System.Net.Sockets;
using Microsoft.Extensions.DependencyInjection;

namespace Whimbrel.Hosting.Tests;

/// <summary>A configuration that changes while the host runs.</summary>
public sealed class ReloadTests
{
    [Fact]
    public async Task Reloadable_options_apply_at_once_and_the_others_are_named()
    {
        await using TestHost host = new(static s => s.AddSingleton<Greeting>().AddWhimbrelServer<Echo>("Chat"),
            ("Chat:Address", "tcp://127.0.0.1:0"), ("Chat:Limits:Connections", "5"));
        await host.StartAsync();
        Server server = host.Server();
        NetworkStream old = (await host.ConnectAsync()).GetStream();
        Assert.Equal("hello a", await TestHost.AskAsync(old, "a", 7));
        host.Reload(("Chat:Limits:Connections", "2"), ("Chat:Timeouts:Idle", "01:00:00"),
            ("Chat:Socket:Backlog", "50"));
        Assert.Equal(2, server.MaxConnections);
        Assert.Equal("hello b", await TestHost.AskAsync((await host.ConnectAsync()).GetStream(), "b", 7));
        List<TimeSpan> limits = [];
        await server.Sessions.ForEachAsync(s => limits.Add(s.IdleTimeout)); // on the only loop
        Assert.Equal([TimeSpan.Zero, TimeSpan.FromHours(1)], limits.Order());
        Assert.Equal(
            ["102 Chat:Limits:Connections has changed and applies from now on: 2",
                "102 Chat:Timeouts:Idle has changed and applies from now on: 01:00:00",
                "103 Chat:Socket:Backlog has changed and applies from the next start of the program"],
            host.Log.Lines.Where(static l => l.Contains("has changed", StringComparison.Ordinal))
                .Select(static l => l[(l.IndexOf(" 10", StringComparison.Ordinal) + 1)..])
                .Order(StringComparer.Ordinal));

        // A second reload without a change has no effect.
        int lines = host.Log.Lines.Count;
        host.Reload();
        Assert.Equal(lines, host.Log.Lines.Count);
    }

    [Fact]
    public async Task A_reload_with_mistakes_changes_nothing_and_names_them_all()
    {
        await using TestHost host = new(static s => s.AddSingleton<Greeting>().AddWhimbrelServer<Echo>("Chat"),
            ("Chat:Address", "tcp://127.0.0.1:0"), ("Chat:Limits:Connections", "5"));
        await host.StartAsync();
        host.Reload(("Chat:Limits:Connections", "0"), ("Chat:Timeouts:Send", "soon"));
        Assert.Equal(5, host.Server().MaxConnections);
        string line = Assert.Single(host.Log.Lines, static l => l.Contains(" 104 ", StringComparison.Ordinal));
        Assert.Contains("Chat:Timeouts:Send: 'soon' is no time", line, StringComparison.Ordinal);
        Assert.Contains("Chat:Limits:Connections = 0, allowed 1 to 10000000", line, StringComparison.Ordinal);
        host.Reload(("Chat:Limits:Connections", "6"), ("Chat:Timeouts:Send", null));
        Assert.Equal(6, host.Server().MaxConnections);
        Assert.Equal("hello a", await TestHost.AskAsync((await host.ConnectAsync()).GetStream(), "a", 7));
    }

    [Theory] // siblings: each time by itself
    [InlineData("Idle")]
    [InlineData("Receive")]
    [InlineData("Send")]
    public async Task Each_time_of_a_reload_applies_to_new_sessions_and_a_reload_with_a_mistake_to_none(string time)
    {
        await using TestHost host = new(static s => s.AddSingleton<Greeting>().AddWhimbrelServer<Echo>("Chat"),
            ("Chat:Address", "tcp://127.0.0.1:0"));
        await host.StartAsync();
        HashSet<long> seen = [];
        for (int reload = 1; reload <= 3; reload++)
        {
            host.Reload(($"Chat:Timeouts:{time}", $"0{reload}:00:00"));
            await ExpectAsync(reload);
            host.Reload(($"Chat:Timeouts:{time}", "09:00:00"), ("Chat:Limits:Connections", "0"));
            await ExpectAsync(reload);
            host.Reload(("Chat:Limits:Connections", "100"), ($"Chat:Timeouts:{time}", $"0{reload}:00:00"));
        }

        async Task ExpectAsync(int hours)
        {
            using TcpClient client = await host.ConnectAsync();
            Assert.Equal("hello a", await TestHost.AskAsync(client.GetStream(), "a", 7));
            List<(string Name, TimeSpan Limit)> limits = [];
            await host.Server().Sessions.ForEachAsync(s =>
            {
                if (seen.Add(s.Id))
                    limits = [("Idle", s.IdleTimeout), ("Receive", s.ReceiveTimeout), ("Send", s.SendTimeout)];
            });
            Assert.Equal(3, limits.Count);
            Assert.All(limits,
                l => Assert.Equal((l.Name, l.Name == time ? TimeSpan.FromHours(hours) : TimeSpan.Zero), l));
        }
    }
}
