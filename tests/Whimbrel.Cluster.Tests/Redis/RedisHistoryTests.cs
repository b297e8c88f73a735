using System.Net.Sockets;
using System.Text;
using Whimbrel.Clusters;

namespace Whimbrel.Tests.Redis;

public sealed class RedisHistoryTests : GroupHistorySuite
{
    private const string Known = "whimbrel:{t.one}:known", Entries = "whimbrel:{t.one}:entries";

    protected override async ValueTask<TestBroker> StartBrokerAsync() => await RedisBroker.StartAsync();

    private async Task<string> CommandAsync(string command)
    {
        using TcpClient client = new();
        await client.ConnectAsync("127.0.0.1", ((RedisBroker)Broker).Port);
        await client.GetStream().WriteAsync(Encoding.ASCII.GetBytes($"{command}\r\n"));
        using StreamReader reader = new(client.GetStream());
        return (await reader.ReadLineAsync())!;
    }

    [Fact]
    public async Task Keys_changed_by_others_make_a_trimmed_stream_or_another_epoch()
    {
        Assert.True(await AppendAsync(0, "t.one", "a", "b", "c"));
        HistoryPage? first = await ReadAsync(0, "t.one", 0);

        // Only this key was evicted: the entries are lost, and the numbers continue.
        Assert.Equal(":1", await CommandAsync($"DEL {Entries}"));
        Assert.True(await AppendAsync(0, "t.one", "d"));
        HistoryPage? page = await ReadAsync(0, "t.one", 0);
        Assert.Equal(("4 4: 4=d", first!.Epoch), (Shown(page), page!.Epoch));

        // The metadata is lost: it is unknown what the entries are.
        Assert.Equal(":1", await CommandAsync($"DEL {Known}"));
        page = await ReadAsync(1, "t.one", 0);
        Assert.Equal("1 0: ", Shown(page));
        Assert.NotEqual(first.Epoch, page!.Epoch);

        // An entry in the middle is missing.
        Assert.True(await AppendAsync(0, "t.one", "a", "b", "c"));
        Assert.Equal(":1", await CommandAsync($"XDEL {Entries} 2-0"));
        Assert.Null(await ReadAsync(1, "t.one", 0));
        HistoryPage? anew = await ReadAsync(1, "t.one", 0);
        Assert.Equal("1 0: ", Shown(anew));
        Assert.NotEqual(page.Epoch, anew!.Epoch);

        // The key has another type.
        Assert.Equal("+OK", await CommandAsync($"SET {Entries} x"));
        Assert.False(await AppendAsync(0, "t.one", "a"));
        Assert.Equal(":1", await CommandAsync($"DEL {Entries}"));
        Assert.True(await AppendAsync(0, "t.one", "a"));
        Assert.Equal("1 1: 1=a", Shown(await ReadAsync(0, "t.one", 0)));
    }

    [Fact]
    public async Task A_stream_that_is_not_read_is_removed_an_hour_after_its_entries()
    {
        Assert.True(await AppendAsync(0, "t.one", new HistoryLimits { MaxAge = TimeSpan.FromSeconds(10) }, "a"));
        foreach (string key in (string[])[Known, Entries])
            Assert.InRange(int.Parse((await CommandAsync($"TTL {key}"))[1..],
                System.Globalization.CultureInfo.InvariantCulture), 3000, 3610);
    }

    [Fact]
    public async Task Reduced_limits_apply_to_existing_entries()
    {
        Assert.True(await AppendAsync(0, "t.one", [.. Enumerable.Range(1, 50).Select(static n => $"{n}")]));
        Assert.Equal("49 50: 49=49 50=50",
            Shown(await ReadAsync(0, "t.one", 0, limits: new HistoryLimits { MaxCount = 2 })));
    }
}
