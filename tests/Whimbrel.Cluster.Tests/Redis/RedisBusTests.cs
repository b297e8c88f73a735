namespace Whimbrel.Tests.Redis;

public sealed class RedisBusTests : GroupBusSuite
{
    protected override async ValueTask<TestBroker> StartBrokerAsync() => await RedisBroker.StartAsync();
}
