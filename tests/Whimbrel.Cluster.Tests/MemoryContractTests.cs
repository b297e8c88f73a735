namespace Whimbrel.Tests;

public sealed class MemoryContractTests : ClusterContractSuite
{
    protected override ValueTask<TestBroker> StartBrokerAsync() => new(new MemoryBroker());
}
