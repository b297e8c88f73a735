using System.Text;
using Whimbrel.Clusters;

namespace Whimbrel.Tests;

// Faults of a broker, and the messages that report them: one class for each bus.
public abstract class TroubleTests : IAsyncLifetime
{
    private readonly List<IAsyncDisposable> _open = [];

    protected Engine Engine { get; } = new(new EngineOptions { Loops = 1 });

    public virtual async ValueTask InitializeAsync() => await Engine.StartAsync();

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

    // The response violates the broker's protocol: the connection ends for that reason, not because this side closed
    // it.
    protected static async Task BrokenAsync(BusNode node)
    {
        NetworkException e = await Assert.ThrowsAsync<NetworkException>(node.StartAsync);
        Assert.Equal(ErrorCategory.Protocol, Assert.IsType<NetworkException>(e.InnerException).Error.Category);
    }

    // Appends pending messages, and reads.
    private protected async Task<HistoryPage?> HistoryAsync(BusNode node, HistoryLimits limits, params string[] texts)
    {
        IGroupHistory history = (IGroupHistory)node.Bus;
        TaskCompletionSource<HistoryPage?> read = new(TaskCreationOptions.RunContinuationsAsynchronously);
        await Engine.GetLoop(0).PostAsync(() =>
        {
            if (texts.Length == 0) Read();
            else if (!history.Append("t.one", limits,
                [.. texts.Select(static t => (ReadOnlyMemory<byte>)Encoding.UTF8.GetBytes(t))], isIn => Then(isIn)))
                read.SetResult(null);
        });
        return await read.Task.WaitAsync(BusNode.Patience);

        void Then(bool isIn)
        {
            if (isIn) Read();
            else read.SetResult(null);
        }

        void Read()
        {
            if (!history.Read("t.one", limits, 0, 100, read.SetResult)) read.SetResult(null);
        }
    }

    private protected Task<HistoryPage?> HistoryAsync(BusNode node, params string[] texts) =>
        HistoryAsync(node, new HistoryLimits(), texts);

    // Repeats until it is not null, because a broker may have to create something first.
    private protected async Task<HistoryPage> UntilReadAsync(BusNode node)
    {
        HistoryPage? page;
        for (int tries = 0; (page = await HistoryAsync(node)) is null; tries++)
            Assert.True(tries < 1000, "it is never read");
        return page;
    }

    internal static string Shown(HistoryPage? page) => page is null ? "nothing" : $"{page.First} {page.Last}: "
        + string.Join(' ', page.Entries.Select(static e => $"{e.Offset}={Encoding.UTF8.GetString(e.Envelope.Span)}"));

    // A node with a blocked loop while more is published than the broker keeps for it. The quick node waits until the
    // broker has sent everything.
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
        try
        {
            await quick.PublishAsync("t.one", Enumerable.Repeat(new string('x', 100_000), 300));
            await allHasLeft();
        }
        finally
        {
            goOn.Set(); // otherwise the engine cannot stop, and its error hides this one
        }

        await slow.UntilStateAsync(static s => s is [_, _, "connected", ..]);
        Assert.StartsWith("lost: ", slow.States[1], StringComparison.Ordinal);
        Assert.True(slow.Heard.Count < 300);
        await slow.SubscribeAsync("t.one");
        await slow.Bus.DisposeAsync();
    }
}
