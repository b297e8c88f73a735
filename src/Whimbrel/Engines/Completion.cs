using System.Threading.Tasks.Sources;
using Whimbrel.Connections;
using Whimbrel.Diagnostics;

namespace Whimbrel.Engines;

/// <summary>
/// Awaitable result of an operation. Completed once, from any thread, and reusable after <see cref="GetResult"/> by
/// <see cref="Reset"/>. No SynchronizationContext is used.
/// </summary>
/// <remarks>
/// <para>The continuation never runs inside the completing call. It runs on the loop, in a later turn, if it was
/// awaited there. If it was awaited in a callback on the pool, it runs in the order of the session's callbacks.
/// Otherwise it runs where the engine offloads work (the thread pool).</para>
/// <para>In a callback on the pool, the continuation of <c>AsTask</c> is exempt from that order: a callback that blocks
/// on the task would otherwise wait for its own return (<see cref="AsTaskContinuation"/>).</para>
/// </remarks>
internal class Completion<T> : IValueTaskSource<T>, IValueTaskSource, IThreadPoolWorkItem
{
    private static readonly Action<object?> s_done = static _ => { };
    private static readonly Action<object?> s_signal = static signal => ((ManualResetEventSlim)signal!).Set();

    // State of one use in one field: null, then the awaiter's continuation, then s_done. The exchange of s_done is the
    // completion: a thread that sees it may take the result and reuse the object at once, while the completing thread
    // is still inside Complete.
    private Action<object?>? _continuation;
    private object? _state;
    private ExecutionContext? _context;
    private object? _awaitedOn; // loop, or strand of a session on the pool; after Offload the continuation
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
        // With a continuation, the completing thread owns the object until the continuation runs. Without one, the
        // awaiter may own it already, so no field is touched.
        if (continuation is not null) Schedule(continuation, _state);
    }

    /// <summary>
    /// Called when the result is set and not yet visible. A hook for tests that delay the completing thread.
    /// </summary>
    private protected virtual void Completing()
    {
    }

    private void Schedule(Action<object?> continuation, object? state)
    {
        if (ReferenceEquals(continuation, s_signal))
        {
            // A thread blocks on this signal. Going through the pool would need a free pool thread, and all of them may
            // be blocked here.
            continuation(state);
            return;
        }

        if (_context is not null) continuation = InContext(_context, continuation);
        if (TryPlace(continuation, state)) return;
        if (_awaitedOn is Loop loop) loop.PostContinuation(continuation, state);
        else if (_awaitedOn is PoolSession pool) pool.PostContinuation(continuation, state);
        else Offload(continuation, state);
    }

    /// <summary>Returns true if the continuation was posted to another place than the one that awaited.</summary>
    private protected virtual bool TryPlace(Action<object?> continuation, object? state) => false;

    /// <summary>
    /// Runs the continuation of an awaiter that was on no loop and on no strand. The completion is the work item
    /// itself, so this allocates nothing.
    /// </summary>
    private protected virtual void Offload(Action<object?> continuation, object? state)
    {
        _awaitedOn = continuation;
        _state = state;
        Engine.Offload(this);
    }

    void IThreadPoolWorkItem.Execute()
    {
        // Read the state first: the call may reuse this object.
        object? state = _state;
        ((Action<object?>)_awaitedOn!)(state);
    }

    // A separate method, because otherwise the closure would be allocated even if it is not needed.
    private static Action<object?> InContext(ExecutionContext context, Action<object?> inner) =>
        // tidy: allowed because only callers that flow their context come here, never async methods
        state => ExecutionContext.Run(context, x => inner(x), state);

    /// <summary>
    /// Returns an event that completion sets, for a thread outside the loops that blocks. Null if it is already
    /// completed.
    /// </summary>
    internal ManualResetEventSlim? SignalWhenCompleted()
    {
        if (PoolSession.Current is { } pool) LeaveOrder(pool);
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

    public void OnCompleted(Action<object?> continuation, object? state, short token,
        ValueTaskSourceOnCompletedFlags flags)
    {
        CheckToken(token);
        _state = state;
        _awaitedOn = Loop.Current;
        if (_awaitedOn is null && PoolSession.Current is { } pool)
        {
            if (IsOfAsTask(continuation)) LeaveOrder(pool);
            else _awaitedOn = pool;
        }

        if ((flags & ValueTaskSourceOnCompletedFlags.FlowExecutionContext) != 0) _context = ExecutionContext.Capture();
        Action<object?>? previous = Interlocked.CompareExchange(ref _continuation, continuation, null);
        if (previous is null) return;
        if (!ReferenceEquals(previous, s_done)) Throw.State("A ValueTask may be awaited once only.");
        Schedule(continuation, state);
    }

    /// <summary>True if <c>AsTask</c> awaits, for a caller that may block.</summary>
    private protected virtual bool IsOfAsTask(Action<object?> continuation) => AsTaskContinuation.Is<T>(continuation);

    private void LeaveOrder(PoolSession pool)
    {
        // Messages that the callback has sent so far leave now, not when it returns, because the callback may wait for
        // their effect.
        pool.Flush();
        AwaitedApart(pool);
    }

    /// <summary>
    /// Called once, before the continuation is set, if the awaiting callback on the pool may block until completion.
    /// </summary>
    private protected virtual void AwaitedApart(PoolSession pool)
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

    /// <summary>Called when the single awaiter has taken the result: the object may be reused.</summary>
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
