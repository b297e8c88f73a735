namespace Whimbrel.Tests.Nats;

public sealed class NatsHistoryTests : GroupHistorySuite
{
    // A stream accepts the largest message of its server.
    protected override int Unit => 2_000_000;

    protected override async ValueTask<TestBroker> StartBrokerAsync() =>
        await NatsBroker.StartAsync("max_payload: 4MB", isStreaming: true);
}
