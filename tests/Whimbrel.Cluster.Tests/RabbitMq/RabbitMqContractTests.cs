namespace Whimbrel.Tests.RabbitMq;

[Collection(nameof(RabbitMqServer))]
public sealed class RabbitMqContractTests(RabbitMqServer server) : ClusterContractSuite
{
    protected override int Restarts => 1;

    protected override ValueTask<TestBroker> StartBrokerAsync() => RabbitMqBroker.StartAsync(server);
}
