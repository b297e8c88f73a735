namespace Whimbrel.Engines;

/// <summary>
/// A completion that is used again and again, often by who goes on on the thread pool: it is itself the work item there, so that a wait allocates nothing. One use at a time, so
/// one continuation.
/// </summary>
internal abstract class WorkItemCompletion<T>(Engine engine) : Completion<T>(engine), IThreadPoolWorkItem
{
    private Action<object?>? _next;
    private object? _nextState;

    private protected override void Offload(Action<object?> continuation, object? state)
    {
        _next = continuation;
        _nextState = state;
        Engine.Offload(this);
    }

    void IThreadPoolWorkItem.Execute()
    {
        // It may be used again inside of the call.
        Action<object?> next = _next!;
        object? state = _nextState;
        _next = null;
        _nextState = null;
        next(state);
    }
}
