namespace Whimbrel.Tests;

public sealed class MemoryHistoryTests : GroupHistorySuite
{
    protected override ValueTask<TestBroker> StartBrokerAsync() => new(new MemoryBroker());
}
