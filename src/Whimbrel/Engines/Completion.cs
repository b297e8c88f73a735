using System.Threading.Tasks.Sources;
using Whimbrel.Connections;
using Whimbrel.Diagnostics;

namespace Whimbrel.Engines;

/// <summary>
/// The result of an operation that somebody awaits. Completed once, from any thread. The continuation runs on the loop
/// if it was awaited there, in a turn of its own and never inside the caller's stack; awaited in a callback on the pool,
/// in the order of that session's callbacks; else wherever the engine offloads to (the thread pool). No SynchronizationContext is used. Reusable after <see cref="GetResult"/> by <see cref="Reset"/>.
/// In a callback on the pool <c>AsTask</c> alone stands apart from that order: it is what a callback blocks on, and what waits for its return would
/// never come (<see cref="AsTaskContinuation"/>).
/// </summary>
internal class Completion<T> : IValueTaskSource<T>, IValueTaskSource, IThreadPoolWorkItem
{
    private static readonly Action<object?> s_done = static _ => { };
    private static readonly Action<object?> s_signal = static signal => ((ManualResetEventSlim)signal!).Set();

    // The whole life of one use, in one word: nothing, then who waits, then s_done. The exchange of s_done *is* the completion: whoever
    // sees it may take the result and use the object again at once, while the completer is still on its way out of Complete.
    private Action<object?>? _continuation;
    private object? _state;
    private ExecutionContext? _context;
    private object? _awaitedOn; // a loop, or the strand of a session on the pool; from an offload on the continuation
    private T _result = default!;
    private Exception? _exception;
    private short _version;

    internal Completion(Engine engine) => Engine = engine;

    internal Engine Engine { get; }

    internal ValueTask<T> Task => new(this, _version);

    internal ValueTask PlainTask => new(this, _version);

    internal short Version => _version;

    internal bool IsCompleted => ReferenceEquals(Volatile.Read(ref _continuation), s_done);

    internal void SetResult(T result)
    {
        _result = result;
        Complete();
    }

    internal void SetException(Exception exception)
    {
        _exception = exception;
        Complete();
    }

    private void Complete()
    {
        Completing();
        Action<object?>? continuation = Interlocked.Exchange(ref _continuation, s_done);
        // With a continuation the object is the completer's until that runs. Without one it is the awaiter's already: not a field of it is touched.
        if (continuation is not null) Schedule(continuation, _state);
    }

    /// <summary>The result stands here, and nobody can see it yet. Where a test holds the completer up.</summary>
    private protected virtual void Completing()
    {
    }

    private void Schedule(Action<object?> continuation, object? state)
    {
        if (ReferenceEquals(continuation, s_signal))
        {
            // Somebody blocks: a hop over the pool would need a free thread of it, and they may all be blocked here.
            continuation(state);
            return;
        }

        if (_context is not null) continuation = InContext(_context, continuation);
        if (TryPlace(continuation, state)) return;
        if (_awaitedOn is Loop loop) loop.PostContinuation(continuation, state);
        else if (_awaitedOn is Strand strand) strand.PostContinuation(continuation, state);
        else Offload(continuation, state);
    }

    /// <summary>True when its awaiter goes on elsewhere than where it awaited, and was sent there.</summary>
    private protected virtual bool TryPlace(Action<object?> continuation, object? state) => false;

    /// <summary>Where an awaiter goes on that awaited on no loop and on no strand. The completion is the work item itself, so that this allocates nothing.</summary>
    private protected virtual void Offload(Action<object?> continuation, object? state)
    {
        _awaitedOn = continuation;
        _state = state;
        Engine.Offload(this);
    }

    void IThreadPoolWorkItem.Execute()
    {
        // In the call it may be used again.
        object? state = _state;
        ((Action<object?>)_awaitedOn!)(state);
    }

    // A method of its own: where it stands in another, the closure is made even when it is not needed.
    private static Action<object?> InContext(ExecutionContext context, Action<object?> inner) =>
        // tidy: allowed because only callers that flow their context come here, never async methods
        state => ExecutionContext.Run(context, x => inner(x), state);

    /// <summary>For a thread that is no loop's and wants to block: set by whoever completes this. Null when it is completed already.</summary>
    internal ManualResetEventSlim? SignalWhenCompleted()
    {
        if (Strand.Current is { } strand) LeaveOrder(strand);
        ManualResetEventSlim signal = new();
        _state = signal;
        return Interlocked.CompareExchange(ref _continuation, s_signal, null) is null ? signal : null;
    }

    public ValueTaskSourceStatus GetStatus(short token)
    {
        CheckToken(token);
        return !IsCompleted ? ValueTaskSourceStatus.Pending
            : _exception is null ? ValueTaskSourceStatus.Succeeded
            : _exception is OperationCanceledException ? ValueTaskSourceStatus.Canceled
            : ValueTaskSourceStatus.Faulted;
    }

    public void OnCompleted(Action<object?> continuation, object? state, short token, ValueTaskSourceOnCompletedFlags flags)
    {
        CheckToken(token);
        _state = state;
        _awaitedOn = Loop.Current;
        if (_awaitedOn is null && Strand.Current is { } strand)
        {
            if (AsTaskContinuation.Is<T>(continuation)) LeaveOrder(strand);
            else _awaitedOn = strand;
        }

        if ((flags & ValueTaskSourceOnCompletedFlags.FlowExecutionContext) != 0) _context = ExecutionContext.Capture();
        Action<object?>? previous = Interlocked.CompareExchange(ref _continuation, continuation, null);
        if (previous is null) return;
        if (!ReferenceEquals(previous, s_done)) Throw.State("A ValueTask may be awaited once only.");
        Schedule(continuation, state);
    }

    private void LeaveOrder(Strand strand)
    {
        // What the callback has sent leaves now, and not when it returns: perhaps that is what it waits for.
        strand.FlushBatch();
        AwaitedApart(strand);
    }

    /// <summary>The callback on the pool that asks may block until the end. Called once, before the continuation is there.</summary>
    private protected virtual void AwaitedApart(Strand strand)
    {
    }

    public T GetResult(short token)
    {
        CheckToken(token);
        if (!IsCompleted) ThrowNotCompleted();
        T result = _result;
        Exception? exception = _exception;
        Consumed();
        if (exception is not null) System.Runtime.ExceptionServices.ExceptionDispatchInfo.Throw(exception);
        return result;
    }

    void IValueTaskSource.GetResult(short token) => GetResult(token);

    private static void ThrowNotCompleted()
    {
        if (Loop.Current is not null) Throw.WouldBlockLoop();
        Throw.State("This ValueTask has not completed. Await it, or block on its AsTask().");
    }

    /// <summary>The one awaiter has its result: the object may be used again.</summary>
    private protected virtual void Consumed()
    {
    }

    private protected void Reset()
    {
        _version++;
        _continuation = null;
        _state = null;
        _context = null;
        _awaitedOn = null;
        _exception = null;
        _result = default!;
    }

    private void CheckToken(short token)
    {
        if (token != _version) Throw.State("A ValueTask may be awaited once only.");
    }
}
