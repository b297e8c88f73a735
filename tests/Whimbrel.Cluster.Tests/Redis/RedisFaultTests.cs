using Whimbrel.Clusters;

namespace Whimbrel.Tests.Redis;

public sealed class RedisFaultTests : ClusterFaultSuite
{
    private protected override async Task<ProgramBroker> StartBrokerAsync() => await RedisBroker.StartAsync();

    private protected override IGroupBus BusAt(int port) =>
        new RedisBus($"redis://127.0.0.1:{port}", new RedisOptions { PingInterval = TimeSpan.FromMilliseconds(200), ConnectTimeout = TimeSpan.FromMilliseconds(500), Reconnect = Quick });
}
