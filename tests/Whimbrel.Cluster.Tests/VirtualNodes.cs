using Whimbrel.Clusters;
using Whimbrel.Testing;

namespace Whimbrel.Tests;

// Nodes on one bus in virtual time; the end of the test ends them.
public abstract class VirtualNodes : IDisposable
{
    private protected VirtualNodes(Action<DiagnosticEvent>? onDiagnosticEvent = null) =>
        Engine = new MemoryEngine(1, faults: MemoryFaults.None, onDiagnosticEvent: onDiagnosticEvent);

    private protected MemoryEngine Engine { get; }

    private protected MemoryBus Bus { get; } = new();

    private protected List<TestNode> Nodes { get; } = [];

    public void Dispose()
    {
        foreach (TestNode node in Nodes) node.End();
        Engine.Run(Engine.DisposeAsync());
        GC.SuppressFinalize(this);
    }

    private protected TestNode Node(string name, Func<ClusterOptions, ClusterOptions>? change = null)
    {
        TestNode node = new(Engine, Bus, name, change);
        Nodes.Add(node);
        return node;
    }

    private protected void Pass(double seconds = 0.1) => Engine.RunFor(TimeSpan.FromSeconds(seconds));

    private protected static void Say(TestNode node, string text, string group = "g") =>
        Assert.Equal(SendResult.Queued, node.Cluster.Group(group).Broadcast(text));
}
