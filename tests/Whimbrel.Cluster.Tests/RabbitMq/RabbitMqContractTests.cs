namespace Whimbrel.Tests.RabbitMq;

[Collection(nameof(RabbitMqServer))]
public sealed class RabbitMqContractTests(RabbitMqServer server) : ClusterContractSuite
{
    protected override ValueTask<TestBroker> StartBrokerAsync() => new(new RabbitMqBroker(server));
}
