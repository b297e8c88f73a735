using Whimbrel.Connections;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;

namespace Whimbrel;

/// <summary>
/// Posting work to the loop, from any thread, always in the order of the caller. Posts made before the engine is
/// started wait for the start. After a stop they are rejected until the engine is started again. Accepted posts always
/// run; if the engine is stopped meanwhile, they run last, on the loop's thread.
/// </summary>
public abstract partial class Loop
{
    /// <summary>
    /// Runs <paramref name="action"/> on the loop's thread in a later turn; never inside the caller's stack. Any
    /// thread.
    /// </summary>
    /// <param name="action">Action to run. Its exception is reported as a diagnostic event, and the loop
    /// continues.</param>
    /// <returns>False if the engine is stopped or disposed: the action will not run.</returns>
    public bool Post(Action action)
    {
        ArgumentNullException.ThrowIfNull(action);
        return PostInOrder(static (_, a, _, _) => ((Action)a!)(), action);
    }

    /// <summary>
    /// Runs <paramref name="action"/> with <paramref name="state"/> on the loop's thread in a later turn, without a
    /// closure. Any thread.
    /// </summary>
    /// <param name="action">Action to run.</param>
    /// <param name="state">Argument of the action.</param>
    /// <returns>False if the engine is stopped or disposed: the action will not run.</returns>
    public bool Post(Action<object?> action, object? state)
    {
        ArgumentNullException.ThrowIfNull(action);
        return PostInOrder(static (_, a, s, _) => ((Action<object?>)a!)(s), action, state);
    }

    /// <summary>
    /// Starts an async function on the loop's thread in a later turn. The loop does not wait for it: other work runs
    /// while it awaits. Awaits of this library inside it continue on the loop, others wherever they usually do. Its
    /// exceptions, also after an await, are reported as diagnostic events. Any thread.
    /// </summary>
    /// <param name="function">Function to start.</param>
    /// <returns>False if the engine is stopped or disposed: the function will not run.</returns>
    public bool Post(Func<Task> function)
    {
        ArgumentNullException.ThrowIfNull(function);
        return PostInOrder(static (loop, f, _, _) => loop.Watch(((Func<Task>)f!)(), "a posted function"), function);
    }

    /// <summary>As <see cref="Post(Func{Task})"/>, with an argument and therefore without a closure.</summary>
    /// <param name="function">Function to start.</param>
    /// <param name="state">Argument of the function.</param>
    /// <returns>False if the engine is stopped or disposed: the function will not run.</returns>
    public bool Post(Func<object?, Task> function, object? state)
    {
        ArgumentNullException.ThrowIfNull(function);
        return PostInOrder(static (loop, f, s, _) => loop.Watch(((Func<object?, Task>)f!)(s), "a posted function"),
            function, state);
    }

    /// <summary>
    /// Runs <paramref name="action"/> at once if the caller is on the loop's thread (then the caller gets its
    /// exception), otherwise posts it.
    /// </summary>
    /// <param name="action">Action to run.</param>
    /// <returns>False if the engine is stopped or disposed: the action will not run.</returns>
    public bool Dispatch(Action action)
    {
        ArgumentNullException.ThrowIfNull(action);
        if (!IsCurrent) return Post(action);
        action();
        return true;
    }

    /// <summary>
    /// Starts an async function at once if the caller is on the loop's thread, otherwise posts it. If it is started at
    /// once, the caller gets exceptions before its first await. Later exceptions are reported as diagnostic events.
    /// </summary>
    /// <param name="function">Function to start.</param>
    /// <returns>False if the engine is stopped or disposed: the function will not run.</returns>
    public bool Dispatch(Func<Task> function)
    {
        ArgumentNullException.ThrowIfNull(function);
        if (!IsCurrent) return Post(function);
        Watch(function(), "a dispatched function");
        return true;
    }

    // ------------------------------------------------------------------ awaitable

    /// <summary>
    /// As <see cref="Post(Action)"/>, and completes when the action has run. An awaiter on a loop continues on that
    /// loop, any other on the thread pool. Blocking on the result on a loop's thread throws; elsewhere use
    /// <c>AsTask().Wait()</c>.
    /// </summary>
    /// <param name="action">Action to run. Its exceptions are passed to the awaiter, not reported as diagnostic
    /// events.</param>
    /// <exception cref="InvalidOperationException">(Passed to the awaiter.) The engine is stopped: the action will not
    /// run.</exception>
    /// <exception cref="ObjectDisposedException">(Passed to the awaiter.) The engine is disposed: the action will not
    /// run.</exception>
    public ValueTask PostAsync(Action action)
    {
        ArgumentNullException.ThrowIfNull(action);
        Completion<bool> done = new(Engine);
        ValueTask task = done.PlainTask;
        if (PostInOrder(static (_, a, d, _) => CallTo((Completion<bool>)d!, (Action)a!), action, done)) return task;
        return ValueTask.FromException(Engine.EndedError());
    }

    /// <summary>As <see cref="PostAsync(Action)"/>, without a closure.</summary>
    /// <param name="action">Action to run. Its exceptions are passed to the awaiter.</param>
    /// <param name="state">Argument of the action.</param>
    public ValueTask PostAsync(Action<object?> action, object? state)
    {
        ArgumentNullException.ThrowIfNull(action);
        Completion<bool> done = new(Engine);
        ValueTask task = done.PlainTask;
        // The user's action comes first, because messages name it.
        if (PostInOrder(static (_, a, call, _) => CallTo((Action<object?>)a!, ((Completion<bool>, object?))call!),
            action, (done, state)))
            return task;
        return ValueTask.FromException(Engine.EndedError());
    }

    /// <summary>As <see cref="PostAsync(Func{Task})"/>, with an argument.</summary>
    /// <param name="function">Function to start. Its exceptions are passed to the awaiter.</param>
    /// <param name="state">Argument of the function.</param>
    public ValueTask PostAsync(Func<object?, Task> function, object? state)
    {
        ArgumentNullException.ThrowIfNull(function);
        // tidy: allowed because it runs once a call, off the hot path, and the result needs an object anyway
        return PostAsync(() => function(state));
    }

    /// <summary>As <see cref="PostAsync(Action)"/>, with the result of the function.</summary>
    /// <param name="function">Function to run. Its exceptions are passed to the awaiter.</param>
    public ValueTask<T> PostAsync<T>(Func<T> function)
    {
        ArgumentNullException.ThrowIfNull(function);
        Completion<T> done = new(Engine);
        ValueTask<T> task = done.Task;
        if (PostInOrder(static (_, f, d, _) => CallTo((Completion<T>)d!, (Func<T>)f!), function, done)) return task;
        return ValueTask.FromException<T>(Engine.EndedError());
    }

    /// <summary>
    /// Starts an async function on the loop, and completes when it has ended. Awaits of this library inside it continue
    /// on the loop; others mostly on the thread pool. To return to the loop, await another PostAsync.
    /// </summary>
    /// <param name="function">Function to start. Its exceptions are passed to the awaiter.</param>
    public ValueTask PostAsync(Func<Task> function)
    {
        ArgumentNullException.ThrowIfNull(function);
        Completion<bool> done = new(Engine);
        ValueTask task = done.PlainTask;
        if (PostInOrder(static (_, f, d, _) => Follow((Completion<bool>)d!, (Func<Task>)f!), function, done))
            return task;
        return ValueTask.FromException(Engine.EndedError());
    }

    /// <summary>As <see cref="PostAsync(Func{Task})"/>, with the result of the function.</summary>
    /// <param name="function">Function to start. Its exceptions are passed to the awaiter.</param>
    public ValueTask<T> PostAsync<T>(Func<Task<T>> function)
    {
        ArgumentNullException.ThrowIfNull(function);
        Completion<T> done = new(Engine);
        ValueTask<T> task = done.Task;
        if (PostInOrder(static (_, f, d, _) => Follow((Completion<T>)d!, (Func<Task<T>>)f!), function, done))
            return task;
        return ValueTask.FromException<T>(Engine.EndedError());
    }

    private static void CallTo(Action<object?> action, (Completion<bool> Done, object? State) call) =>
        // tidy: allowed because it runs once a call, off the hot path, and the result needs an object anyway
        CallTo(call.Done, () => action(call.State));

    internal static void CallTo(Completion<bool> done, Action action)
    {
        try
        {
            action();
        }
        catch (Exception e)
        {
            done.SetException(e);
            return;
        }

        done.SetResult(true);
    }

    private static void CallTo<T>(Completion<T> done, Func<T> function)
    {
        T result;
        try
        {
            result = function();
        }
        catch (Exception e)
        {
            done.SetException(e);
            return;
        }

        done.SetResult(result);
    }

    private static void Follow<T>(Completion<T> done, Func<Task> function)
    {
        Task task;
        try
        {
            task = function() ?? throw new InvalidOperationException("The function gave no task.");
        }
        catch (Exception e)
        {
            done.SetException(e);
            return;
        }

        if (task.IsCompleted) Followed(task, done);
        else task.ContinueWith(static (t, d) => Followed(t, (Completion<T>)d!), done, CancellationToken.None,
            TaskContinuationOptions.ExecuteSynchronously, TaskScheduler.Default);
    }

    private static void Followed<T>(Task task, Completion<T> done)
    {
        if (task.IsCanceled) done.SetException(new TaskCanceledException(task));
        else if (task.IsFaulted) done.SetException(task.Exception!.InnerExceptions[0]);
        else done.SetResult(task is Task<T> typed ? typed.Result : default!);
    }

    // ------------------------------------------------------------------ for the library

    /// <summary>
    /// Throws the exception of a user's async function if it has already ended; otherwise reports it as a diagnostic
    /// event at its end.
    /// </summary>
    internal void Watch(Task? task, string what)
    {
        if (task is null) throw new InvalidOperationException("The function gave no task.");
        if (task.IsCompleted) task.GetAwaiter().GetResult();
        else _ = WatchAsync(task, what);
    }

    // tidy: allowed because it waits for an async function of the user, outside the turn of the loop
    private async Task WatchAsync(Task task, string what)
    {
        try
        {
            await task.ConfigureAwait(false); // tidy: allowed because it belongs to a function that awaits
        }
        catch (Exception e)
        {
            Engine.ReportException(what, e, "Nothing was ended; the loop continues.");
        }
    }

    /// <summary>
    /// Posts work of the user. It runs after everything that the caller has sent, joined and broadcast before on this
    /// loop (contract 7).
    /// </summary>
    private bool PostInOrder(ControlAction action, object? first, object? second = null)
    {
        DataItem post = new() { Kind = DataKind.Post, Payload = action, Extra = first, Subject = second };
        return Mailbox.Post(post);
    }

    internal bool PostControl(ControlAction action, object? first = null, object? second = null, long value = 0) =>
        Mailbox.PostControl(action, first, second, value);

    internal void PostContinuation(Action<object?> continuation, object? state)
    {
        if (IsCurrent && !IsStopped)
        {
            _ready.Add((continuation, state));
            return;
        }

        // A loop that has ended runs nothing, so the continuation runs where the engine offloads work.
        if (!PostControl(static (_, c, s, _) => ((Action<object?>)c!)(s), continuation, state))
            Engine.Offload(continuation, state);
    }
}
