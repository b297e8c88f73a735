namespace Whimbrel.Tests.Redis;

public sealed class RedisContractTests : ClusterContractSuite
{
    protected override async ValueTask<TestBroker> StartBrokerAsync() => await RedisBroker.StartAsync();
}
