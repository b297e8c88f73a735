using System.Text.Json;
using Whimbrel.Clusters;
using Whimbrel.Http.Tests.Programs;

namespace Whimbrel.Tests.Nats;

public sealed class NatsFaultTests : ClusterFaultSuite
{
    private readonly int _monitor = RealProgram.FreePort();

    private protected override async Task<ProgramBroker> StartBrokerAsync() => await NatsBroker.StartAsync($"http: \"127.0.0.1:{_monitor}\"");

    private protected override async Task<int> SubscriptionsAsync()
    {
        using HttpClient client = new();
        using JsonDocument answer = JsonDocument.Parse(await client.GetStringAsync(new Uri($"http://127.0.0.1:{_monitor}/connz"), TestContext.Current.CancellationToken));
        return answer.RootElement.GetProperty("connections").EnumerateArray().Sum(static c => c.GetProperty("subscriptions").GetInt32());
    }

    private protected override IGroupBus BusAt(int port) =>
        new NatsBus($"nats://127.0.0.1:{port}", new NatsOptions { PingInterval = TimeSpan.FromMilliseconds(200), ConnectTimeout = TimeSpan.FromMilliseconds(500), Reconnect = Quick });
}
