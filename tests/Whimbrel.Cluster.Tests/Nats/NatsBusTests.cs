namespace Whimbrel.Tests.Nats;

public sealed class NatsBusTests : GroupBusSuite
{
    protected override async ValueTask<TestBroker> StartBrokerAsync() => await NatsBroker.StartAsync();
}
