using Whimbrel.Clusters;

namespace Whimbrel.Tests;

// What can be wrong with a broker, and what a person is told of it: a class for each bus.
public abstract class TroubleTests : IAsyncLifetime
{
    private readonly List<IAsyncDisposable> _open = [];

    protected Engine Engine { get; } = new(new EngineOptions { Loops = 1 });

    public async ValueTask InitializeAsync() => await Engine.StartAsync();

    public async ValueTask DisposeAsync()
    {
        GC.SuppressFinalize(this);
        _open.Reverse();
        foreach (IAsyncDisposable each in _open) await each.DisposeAsync();
        await Engine.DisposeAsync();
    }

    protected T Keep<T>(T each)
        where T : IAsyncDisposable
    {
        _open.Add(each);
        return each;
    }

    protected BusNode NodeOf(IGroupBus bus) => new(Keep(bus), Engine.GetLoop(0));

    protected static async Task RefusedAsync(BusNode node, string[] words)
    {
        NetworkException e = await Assert.ThrowsAsync<NetworkException>(node.StartAsync);
        foreach (string word in words) Assert.Contains(word, e.Message, StringComparison.Ordinal);
        Assert.DoesNotContain("secret", e.Message, StringComparison.Ordinal);
        Assert.Empty(node.States);
    }

    // A node whose loop stands still while more is published than the broker keeps for it. The quick one waits until all has left the broker.
    private protected async Task StallAsync(ProgramBroker broker, BusNode quick, Func<Task> allHasLeft)
    {
        await using Engine stalling = new(new EngineOptions { Loops = 1 });
        await stalling.StartAsync();
        BusNode slow = new(Keep(broker.Connect()), stalling.GetLoop(0));
        await slow.StartAsync();
        await slow.SubscribeAsync("t.one");
        await quick.StartAsync();
        using ManualResetEventSlim goOn = new();
        stalling.GetLoop(0).Post(() => goOn.Wait(BusNode.Patience));
        await quick.PublishAsync("t.one", Enumerable.Repeat(new string('x', 100_000), 300));
        await allHasLeft();
        goOn.Set();
        await slow.UntilStateAsync(static s => s is [_, _, "connected", ..]);
        Assert.StartsWith("lost: ", slow.States[1], StringComparison.Ordinal);
        Assert.True(slow.Heard.Count < 300);
        await slow.SubscribeAsync("t.one");
        await slow.Bus.DisposeAsync();
    }
}
