using System.Text.Json;
using Whimbrel.Clusters;
using Whimbrel.Http.Tests.Programs;

namespace Whimbrel.Tests.Nats;

public sealed class NatsFaultTests : ClusterFaultSuite
{
    private readonly int _monitor = RealProgram.FreePort(); // of the first server only
    private int _started;

    private protected override async Task<ProgramBroker> StartBrokerAsync() =>
        await NatsBroker.StartAsync(Interlocked.Increment(ref _started) == 1 ? $"http: \"127.0.0.1:{_monitor}\"" : "");

    private protected override async Task<int> SubscriptionsAsync()
    {
        using HttpClient client = new();
        using JsonDocument answer = JsonDocument.Parse(await client.GetStringAsync(
            new Uri($"http://127.0.0.1:{_monitor}/connz"), TestContext.Current.CancellationToken));
        return answer.RootElement.GetProperty("connections").EnumerateArray()
            .Sum(static c => c.GetProperty("subscriptions").GetInt32());
    }

    private protected override IGroupBus BusAt(params int[] ports) =>
        new NatsBus($"nats://{string.Join(',', ports.Select(static p => $"127.0.0.1:{p}"))}", new NatsOptions
        {
            PingInterval = TimeSpan.FromMilliseconds(200),
            ConnectTimeout = TimeSpan.FromMilliseconds(500),
            Reconnect = Quick
        });
}
