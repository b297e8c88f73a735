using Whimbrel.Clusters;

namespace Whimbrel.Tests.RabbitMq;

// A test's share of the server: its own exchange. If the server was stopped for a test, it is started again for the
// next one.
internal sealed class RabbitMqBroker(RabbitMqServer server) : TestBroker
{
    private readonly string _exchange = $"whimbrel.{Guid.NewGuid():N}";

    internal static async ValueTask<TestBroker> StartAsync(RabbitMqServer server)
    {
        await server.StartAsync();
        return new RabbitMqBroker(server);
    }

    public override IGroupBus Connect() =>
        new RabbitMqBus($"amqp://127.0.0.1:{server.Port}", new RabbitMqOptions { Exchange = _exchange });

    public override ValueTask LoseAsync() => server.LoseAsync();

    public override ValueTask StopAsync() => server.StopAsync();

    public override ValueTask RestoreAsync() => server.StartAsync();

    public override ValueTask DisposeAsync() => default;
}
