namespace Whimbrel.Tests.RabbitMq;

[Collection(nameof(RabbitMqServer))]
public sealed class RabbitMqBusTests(RabbitMqServer server) : GroupBusSuite
{
    protected override ValueTask<TestBroker> StartBrokerAsync() => RabbitMqBroker.StartAsync(server);
}
