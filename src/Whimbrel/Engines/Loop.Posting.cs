using Whimbrel.Connections;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;

namespace Whimbrel;

/// <summary>
/// Giving the loop something to run, from any thread. Always in the order of the caller. What is posted before the engine is
/// started waits for the start; after a stop it is refused until the engine is started again; what was taken runs, also when
/// the engine is stopped meanwhile (then last of all, on the loop's thread).
/// </summary>
public abstract partial class Loop
{
    /// <summary>Runs <paramref name="action"/> on the loop's thread in a later turn; never inside the caller's stack. Any thread.</summary>
    /// <param name="action">What to run. If it throws, the engine gives a notice and the loop goes on.</param>
    /// <returns>False when the engine is stopped or disposed: it will not run.</returns>
    public bool Post(Action action)
    {
        ArgumentNullException.ThrowIfNull(action);
        return PostInOrder(static (_, a, _, _) => ((Action)a!)(), action);
    }

    /// <summary>Runs <paramref name="action"/> with <paramref name="state"/> on the loop's thread in a later turn, without a closure. Any thread.</summary>
    /// <param name="action">What to run.</param>
    /// <param name="state">Its argument.</param>
    /// <returns>False when the engine is stopped or disposed: it will not run.</returns>
    public bool Post(Action<object?> action, object? state)
    {
        ArgumentNullException.ThrowIfNull(action);
        return PostInOrder(static (_, a, s, _) => ((Action<object?>)a!)(s), action, state);
    }

    /// <summary>
    /// Starts an async function on the loop's thread in a later turn. Nothing waits for it: other work runs where it awaits. Awaits of this
    /// library inside of it continue on the loop, others wherever they do. What it throws, also after an await, is given as a notice. Any thread.
    /// </summary>
    /// <param name="function">What to start.</param>
    /// <returns>False when the engine is stopped or disposed: it will not run.</returns>
    public bool Post(Func<Task> function)
    {
        ArgumentNullException.ThrowIfNull(function);
        return PostInOrder(static (loop, f, _, _) => loop.Watch(((Func<Task>)f!)(), "a posted function"), function);
    }

    /// <summary>As <see cref="Post(Func{Task})"/>, with an argument and so without a closure.</summary>
    /// <param name="function">What to start.</param>
    /// <param name="state">Its argument.</param>
    /// <returns>False when the engine is stopped or disposed: it will not run.</returns>
    public bool Post(Func<object?, Task> function, object? state)
    {
        ArgumentNullException.ThrowIfNull(function);
        return PostInOrder(static (loop, f, s, _) => loop.Watch(((Func<object?, Task>)f!)(s), "a posted function"), function, state);
    }

    /// <summary>Runs <paramref name="action"/> at once when this is the loop's thread (then what it throws goes to the caller), else posts it.</summary>
    /// <param name="action">What to run.</param>
    /// <returns>False when the engine is stopped or disposed: it will not run.</returns>
    public bool Dispatch(Action action)
    {
        ArgumentNullException.ThrowIfNull(action);
        if (!IsCurrent) return Post(action);
        action();
        return true;
    }

    /// <summary>Starts an async function at once when this is the loop's thread (then what it throws before its first await goes to the caller), else posts it. Later exceptions are given as a notice.</summary>
    /// <param name="function">What to start.</param>
    /// <returns>False when the engine is stopped or disposed: it will not run.</returns>
    public bool Dispatch(Func<Task> function)
    {
        ArgumentNullException.ThrowIfNull(function);
        if (!IsCurrent) return Post(function);
        Watch(function(), "a dispatched function");
        return true;
    }

    // ------------------------------------------------------------------ awaitable

    /// <summary>
    /// As <see cref="Post(Action)"/>, and completes when it has run. The awaiting code goes on on the loop it awaits on, else on
    /// the thread pool. Blocking on it on a loop's thread throws; elsewhere use <c>AsTask().Wait()</c>.
    /// </summary>
    /// <param name="action">What to run. What it throws goes to who awaits, and not into a notice.</param>
    /// <exception cref="InvalidOperationException">(To who awaits.) The engine is stopped: it will not run.</exception>
    /// <exception cref="ObjectDisposedException">(To who awaits.) The engine is disposed: it will not run.</exception>
    public ValueTask PostAsync(Action action)
    {
        ArgumentNullException.ThrowIfNull(action);
        Completion<bool> done = new(Engine);
        ValueTask task = done.PlainTask;
        if (PostInOrder(static (_, a, d, _) => CallTo((Completion<bool>)d!, (Action)a!), action, done)) return task;
        return ValueTask.FromException(Engine.EndedError());
    }

    /// <summary>As <see cref="PostAsync(Action)"/>, without a closure.</summary>
    /// <param name="action">What to run. What it throws goes to who awaits.</param>
    /// <param name="state">Its argument.</param>
    public ValueTask PostAsync(Action<object?> action, object? state)
    {
        ArgumentNullException.ThrowIfNull(action);
        Completion<bool> done = new(Engine);
        ValueTask task = done.PlainTask;
        // The user's action comes first: it is what messages name.
        if (PostInOrder(static (_, a, call, _) => CallTo((Action<object?>)a!, ((Completion<bool>, object?))call!), action, (done, state))) return task;
        return ValueTask.FromException(Engine.EndedError());
    }

    /// <summary>As <see cref="PostAsync(Func{Task})"/>, with an argument.</summary>
    /// <param name="function">What to start. What it throws goes to who awaits.</param>
    /// <param name="state">Its argument.</param>
    public ValueTask PostAsync(Func<object?, Task> function, object? state)
    {
        ArgumentNullException.ThrowIfNull(function);
        // tidy: allowed because it runs once a call, off the hot path, and the result needs an object anyway
        return PostAsync(() => function(state));
    }

    /// <summary>As <see cref="PostAsync(Action)"/>, and brings back what it returned.</summary>
    /// <param name="function">What to run. What it throws goes to who awaits.</param>
    public ValueTask<T> PostAsync<T>(Func<T> function)
    {
        ArgumentNullException.ThrowIfNull(function);
        Completion<T> done = new(Engine);
        ValueTask<T> task = done.Task;
        if (PostInOrder(static (_, f, d, _) => CallTo((Completion<T>)d!, (Func<T>)f!), function, done)) return task;
        return ValueTask.FromException<T>(Engine.EndedError());
    }

    /// <summary>
    /// Starts an async function on the loop, and completes when it has ended. Awaits of this library inside of it go on on the
    /// loop; those of others go on wherever they do, mostly on the thread pool: come back by awaiting another PostAsync.
    /// </summary>
    /// <param name="function">What to start. What it throws goes to who awaits.</param>
    public ValueTask PostAsync(Func<Task> function)
    {
        ArgumentNullException.ThrowIfNull(function);
        Completion<bool> done = new(Engine);
        ValueTask task = done.PlainTask;
        if (PostInOrder(static (_, f, d, _) => Follow((Completion<bool>)d!, (Func<Task>)f!), function, done)) return task;
        return ValueTask.FromException(Engine.EndedError());
    }

    /// <summary>As <see cref="PostAsync(Func{Task})"/>, and brings back the result.</summary>
    /// <param name="function">What to start. What it throws goes to who awaits.</param>
    public ValueTask<T> PostAsync<T>(Func<Task<T>> function)
    {
        ArgumentNullException.ThrowIfNull(function);
        Completion<T> done = new(Engine);
        ValueTask<T> task = done.Task;
        if (PostInOrder(static (_, f, d, _) => Follow((Completion<T>)d!, (Func<Task<T>>)f!), function, done)) return task;
        return ValueTask.FromException<T>(Engine.EndedError());
    }

    // tidy: allowed because it runs once a call, off the hot path, and the result needs an object anyway
    private static void CallTo(Action<object?> action, (Completion<bool> Done, object? State) call) => CallTo(call.Done, () => action(call.State));

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
        else task.ContinueWith(static (t, d) => Followed(t, (Completion<T>)d!), done, CancellationToken.None, TaskContinuationOptions.ExecuteSynchronously, TaskScheduler.Default);
    }

    private static void Followed<T>(Task task, Completion<T> done)
    {
        if (task.IsCanceled) done.SetException(new TaskCanceledException(task));
        else if (task.IsFaulted) done.SetException(task.Exception!.InnerExceptions[0]);
        else done.SetResult(task is Task<T> typed ? typed.Result : default!);
    }

    // ------------------------------------------------------------------ for the library

    /// <summary>What an async function of the user's throws is thrown here when it has ended already, and else a notice when it ends.</summary>
    internal void Watch(Task? task, string what)
    {
        if (task is null) throw new InvalidOperationException("The function gave no task.");
        if (task.IsCompleted) task.GetAwaiter().GetResult();
        else _ = WatchAsync(task, what);
    }

    // tidy: allowed because it waits for an async function of the user's, outside the turn of the loop
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

    /// <summary>What the user posts: behind what its caller has sent, joined and broadcast before, to whomever on
    /// this loop (contract 7).</summary>
    private bool PostInOrder(ControlAction action, object? first, object? second = null)
    {
        Strand.Current?.FlushBatch();
        return Mailbox.PostAction(action, first, second);
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

        // A loop that has ended runs nothing: the awaiting code goes on wherever the engine offloads to.
        if (!PostControl(static (_, c, s, _) => ((Action<object?>)c!)(s), continuation, state)) Engine.Offload(continuation, state);
    }
}
