namespace Whimbrel.Tests.RabbitMq;

[Collection(nameof(RabbitMqServer))]
public sealed class RabbitMqContractTests(RabbitMqServer server) : ClusterContractSuite
{
    protected override bool IsQuickToRestart => false;

    protected override ValueTask<TestBroker> StartBrokerAsync() => new(new RabbitMqBroker(server));
}
