namespace Whimbrel.Engines;

/// <summary>
/// Work item for the pool. A thread of its own runs it if the pool has not started it in time, because all pool threads
/// may be blocked.
/// </summary>
internal sealed class SureWork : IThreadPoolWorkItem
{
    private const int PatienceMs = 50;

    private readonly Engine _engine;
    private readonly Action<object?> _action;
    private readonly object? _state;
    private readonly Deadline _deadline;
    private int _hasBegun;

    internal SureWork(Engine engine, Action<object?> action, object? state)
    {
        _engine = engine;
        _action = action;
        _state = state;
        _deadline = engine.StartDeadline(TimeSpan.FromMilliseconds(PatienceMs),
            static work => ((SureWork)work!).Run(), this);
    }

    void IThreadPoolWorkItem.Execute()
    {
        _engine.CancelDeadline(_deadline);
        Run();
    }

    private void Run()
    {
        if (Interlocked.Exchange(ref _hasBegun, 1) == 0) _action(_state);
    }
}
