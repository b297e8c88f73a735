using Whimbrel.Clusters;

namespace Whimbrel.Tests;

// A broker of the suite, in memory or another program, which can go away and come back.
public abstract class TestBroker : IAsyncDisposable
{
    // A bus for one node, not started yet.
    public abstract IGroupBus Connect();

    // Gone without a word, as by kill -9.
    public abstract ValueTask LoseAsync();

    // Gone in the way of a service manager's restart: it was asked to end. A broker that knows no such way is lost.
    public virtual ValueTask StopAsync() => LoseAsync();

    // There again, where it was.
    public abstract ValueTask RestoreAsync();

    public abstract ValueTask DisposeAsync();
}
