using Whimbrel.Clusters;

namespace Whimbrel.Tests;

// A broker of the suite, in memory or another program, which can go away and come back.
public abstract class TestBroker : IAsyncDisposable
{
    // A bus for one node, not started yet.
    public abstract IGroupBus Connect();

    // Gone without a word, as by kill -9.
    public abstract ValueTask LoseAsync();

    // There again, where it was.
    public abstract ValueTask RestoreAsync();

    public abstract ValueTask DisposeAsync();
}
