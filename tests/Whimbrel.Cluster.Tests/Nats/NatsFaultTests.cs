using Whimbrel.Clusters;

namespace Whimbrel.Tests.Nats;

public sealed class NatsFaultTests : ClusterFaultSuite
{
    private protected override async Task<ProgramBroker> StartBrokerAsync() => await NatsBroker.StartAsync();

    private protected override IGroupBus BusAt(int port) =>
        new NatsBus($"nats://127.0.0.1:{port}", new NatsOptions { PingInterval = TimeSpan.FromMilliseconds(200), ConnectTimeout = TimeSpan.FromMilliseconds(500), Reconnect = Quick });
}
