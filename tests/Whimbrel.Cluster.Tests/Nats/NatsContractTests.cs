namespace Whimbrel.Tests.Nats;

public sealed class NatsContractTests : ClusterContractSuite
{
    protected override async ValueTask<TestBroker> StartBrokerAsync() => await NatsBroker.StartAsync();
}
