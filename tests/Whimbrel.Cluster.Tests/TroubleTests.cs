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
}
