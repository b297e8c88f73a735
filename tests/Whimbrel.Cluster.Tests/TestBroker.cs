using Whimbrel.Clusters;

namespace Whimbrel.Tests;

// A broker of the suite, in memory or an external program, which can fail and be restarted.
public abstract class TestBroker : IAsyncDisposable
{
    // A bus for one node, not started yet.
    public abstract IGroupBus Connect();

    // Ends abruptly, as by kill -9.
    public abstract ValueTask LoseAsync();

    // Ends as in a restart by a service manager: it is asked to stop. A broker without an orderly stop ends abruptly.
    public virtual ValueTask StopAsync() => LoseAsync();

    // Starts again, at the same address.
    public abstract ValueTask RestoreAsync();

    public abstract ValueTask DisposeAsync();
}
