using System.Globalization;
using System.Net.Sockets;
using Whimbrel.Clusters;

namespace Whimbrel.Tests.Redis;

public sealed class RedisFaultTests : ClusterFaultSuite
{
    private protected override async Task<ProgramBroker> StartBrokerAsync() => await RedisBroker.StartAsync();

    private protected override async Task<int> SubscriptionsAsync()
    {
        using TcpClient client = new("127.0.0.1", Broker.Port);
        using StreamReader answers = new(client.GetStream());
        await client.GetStream().WriteAsync("INFO stats\r\n"u8.ToArray(), TestContext.Current.CancellationToken);
        for (string? line; (line = await answers.ReadLineAsync(TestContext.Current.CancellationToken)) is not null;)
        {
            if (line.StartsWith("pubsub_channels:", StringComparison.Ordinal))
                return int.Parse(line.AsSpan(16), CultureInfo.InvariantCulture);
        }

        throw new InvalidOperationException("it says nothing of channels");
    }

    private protected override IGroupBus BusAt(params int[] ports) =>
        new RedisBus($"redis://{string.Join(',', ports.Select(static p => $"127.0.0.1:{p}"))}", new RedisOptions
        {
            PingInterval = TimeSpan.FromMilliseconds(200),
            ConnectTimeout = TimeSpan.FromMilliseconds(500),
            Reconnect = Quick
        });
}
