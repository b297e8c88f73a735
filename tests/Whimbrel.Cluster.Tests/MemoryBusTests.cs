namespace Whimbrel.Tests;

public sealed class MemoryBusTests : GroupBusSuite
{
    protected override ValueTask<TestBroker> StartBrokerAsync() => new(new MemoryBroker());
}
