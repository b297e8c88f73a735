namespace Whimbrel.Compat.Tests.Connections;

/// <summary>An engine for one test, with callbacks on the pool or the loop. The tests of this project run one at a
/// time.</summary>
internal sealed class OnEngine : IAsyncDisposable
{
    private readonly Engine _engine;
    private readonly Setting _setting;

    private OnEngine(Engine engine, Scheduling callbacks)
    {
        _engine = engine;
        _setting = new Setting(callbacks);
        CompatOptions.Engine = engine;
    }

    internal static TheoryData<EngineKind, Scheduling> Cases => new()
    {
        { EngineKind.Epoll, Scheduling.ThreadPool },
        { EngineKind.Epoll, Scheduling.Inline },
        { EngineKind.Uring, Scheduling.ThreadPool },
        { EngineKind.Uring, Scheduling.Inline },
    };

    internal static async Task<OnEngine> StartAsync(EngineKind kind, Scheduling callbacks, long mailboxLimitBytes = 0)
    {
        Engine engine = new(new EngineOptions { Kind = kind, Loops = 2, MailboxLimitBytes = mailboxLimitBytes });
        try
        {
            await engine.StartAsync();
        }
        catch (NetworkException e)
        {
            await engine.DisposeAsync();
            Assert.Skip($"{kind} does not run here: {e.Message}");
        }

        return new OnEngine(engine, callbacks);
    }

    public async ValueTask DisposeAsync()
    {
        CompatOptions.Engine = null;
        _setting.Dispose();
        await _engine.DisposeAsync();
    }
}
