using System.Runtime.ExceptionServices;
using Whimbrel.Connections;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;

namespace Whimbrel;

/// <summary>
/// Runs actions in the order of the session's callbacks, from any thread (contract 18). On the loop a post is an item
/// in the mailbox's data lane, so it keeps its order among the sends of its caller; on the pool it is an event of the
/// strand. Accepted posts that have not run are counted here, because the last callback waits for them.
/// </summary>
public abstract partial class Session
{
    /// <summary>Lowest bit of <see cref="_posts"/>; the higher bits count accepted posts that have not run.</summary>
    private const int TakesPosts = 1;
    private const int OnePost = 2;

    private static readonly Action<object?> s_rethrowPosted = static thrown => ((ExceptionDispatchInfo)thrown!).Throw();

    // For sessions with callbacks on the loop; on the pool the strand counts.
    private int _posts;

    /// <summary>
    /// Runs <paramref name="action"/> on the session's thread between two callbacks, after earlier sends of the same
    /// caller to this session; never inside the call. Sends of the action leave like those of a callback, and an
    /// exception goes to <see cref="OnError"/>. Any thread.
    /// </summary>
    /// <remarks>
    /// Accepted from OnConnected until the connection has ended. An accepted action always runs, at the latest right
    /// before <see cref="OnDisconnecting"/> and <see cref="OnDisconnected"/>; sends then return
    /// <see cref="SendResult.Closed"/>. With callbacks on the loop, later sends of another thread are queued after the
    /// sends of the action, unless the session sends on its loop in between. Such a send is queued after the other
    /// thread's, and before those of the action.
    /// </remarks>
    /// <param name="action">Action to run.</param>
    /// <returns>False if there is no connection, or it has ended or was handed over: the action will not run.</returns>
    public bool Post(Action action)
    {
        ArgumentNullException.ThrowIfNull(action);
        return PostCall(action, null);
    }

    /// <summary>
    /// Runs an action like <see cref="Post(Action)"/>, with an argument: without a closure, and so without an
    /// allocation.
    /// </summary>
    /// <param name="action">Action to run.</param>
    /// <param name="state">Argument of the action.</param>
    /// <returns>False if there is no connection, or it has ended or was handed over: the action will not run.</returns>
    public bool Post(Action<object?> action, object? state)
    {
        ArgumentNullException.ThrowIfNull(action);
        return PostCall(action, state);
    }

    /// <summary>
    /// Starts an async function like <see cref="Post(Action)"/> runs an action. Callbacks may run while it awaits.
    /// Awaits of this library resume in the session's order, other awaits wherever they complete. Its exception, also
    /// after an await, goes to <see cref="OnError"/> and ends the connection; after the end of the connection it is a
    /// diagnostic event.
    /// </summary>
    /// <param name="function">Function to start.</param>
    /// <returns>False if there is no connection, or it has ended or was handed over: the function will not
    /// run.</returns>
    public bool Post(Func<Task> function)
    {
        ArgumentNullException.ThrowIfNull(function);
        return PostCall(function, this);
    }

    /// <summary>Starts an async function like <see cref="Post(Func{Task})"/>, with an argument.</summary>
    /// <param name="function">Function to start.</param>
    /// <param name="state">Argument of the function.</param>
    /// <returns>False if there is no connection, or it has ended or was handed over: the function will not
    /// run.</returns>
    public bool Post(Func<object?, Task> function, object? state)
    {
        ArgumentNullException.ThrowIfNull(function);
        // tidy: allowed because an async function costs its state machine anyway
        return PostCall((Func<Task>)(() => function(state)), this);
    }

    /// <summary>
    /// Runs an action like <see cref="Post(Action)"/> and completes when it has run: with true; or at once with false
    /// if it will not run. The awaiting code resumes on the loop or in the session's order if it awaits there,
    /// otherwise on the thread pool.
    /// </summary>
    /// <param name="action">Action to run. Its exception goes to the awaiting code and does not end the
    /// connection.</param>
    public ValueTask<bool> PostAsync(Action action)
    {
        ArgumentNullException.ThrowIfNull(action);
        return PostAwaited(action);
    }

    /// <summary>
    /// Runs an action like <see cref="PostAsync(Action)"/>, with an argument: without a closure, and so without an
    /// allocation.
    /// </summary>
    /// <param name="action">Action to run. Its exception goes to the awaiting code.</param>
    /// <param name="state">Argument of the action.</param>
    public ValueTask<bool> PostAsync(Action<object?> action, object? state)
    {
        ArgumentNullException.ThrowIfNull(action);
        if (_loop is not { } loop) return new(false);
        PostedCall call = PostedCall.Take(loop.Engine, action, state);
        ValueTask<bool> task = call.Task;
        if (PostCall(PostedCall.Run, call)) return task;
        call.GiveUp();
        return new(false);
    }

    /// <summary>
    /// Starts an async function on the session's thread, and completes when it has ended. What it sends on the loop is
    /// queued after earlier sends of other threads. Awaits of this library resume on the loop, or on the pool in the
    /// session's order; other awaits resume wherever they complete: use another PostAsync to return. The connection's
    /// end does not wait for the function.
    /// </summary>
    /// <param name="function">Function to start. Its exception goes to the awaiting code.</param>
    public ValueTask<bool> PostAsync(Func<Task> function)
    {
        ArgumentNullException.ThrowIfNull(function);
        return PostAwaited(function);
    }

    /// <summary>Starts an async function like <see cref="PostAsync(Func{Task})"/>, with an argument.</summary>
    /// <param name="function">Function to start. Its exception goes to the awaiting code.</param>
    /// <param name="state">Argument of the function.</param>
    public ValueTask<bool> PostAsync(Func<object?, Task> function, object? state)
    {
        ArgumentNullException.ThrowIfNull(function);
        // tidy: allowed because an async function costs its state machine anyway
        return PostAwaited((Func<Task>)(() => function(state)));
    }

    private ValueTask<bool> PostAwaited(Delegate action)
    {
        if (_loop is not { } loop) return new(false);
        Completion<bool> done = new(loop.Engine);
        ValueTask<bool> task = done.Task;
        return PostCall(action, done) ? task : new(false);
    }

    private bool PostCall(Delegate action, object? state)
    {
        if (_connection is not { } connection) return false;
        // While a post is counted, connection and session cannot be reused for another one.
        if (!TryCountPost())
            return connection.Pool is { } pool && pool.Serves(_generation) && pool.TryPost(this, action, state);
        if (connection.Loop.Mailbox.Post(new DataItem
        {
            Kind = DataKind.Call,
            Receiver = connection,
            Generation = _generation,
            Payload = action,
            Extra = state
        }))
            return true;
        EndPost();
        return false;
    }

    private bool TryCountPost()
    {
        while (true)
        {
            int posts = Volatile.Read(ref _posts);
            if ((posts & TakesPosts) == 0) return false;
            if (Interlocked.CompareExchange(ref _posts, posts + OnePost, posts) == posts) return true;
        }
    }

    /// <summary>Starts to accept posts. Loop's thread; never for a session on the pool.</summary>
    internal void StartPosts() => Volatile.Write(ref _posts, TakesPosts);

    /// <summary>Stops accepting posts. Returns true if none is pending. Loop's thread.</summary>
    internal bool StopPosts() => (Interlocked.And(ref _posts, ~TakesPosts) & ~TakesPosts) == 0;

    /// <summary>
    /// Counts one post as run. Returns true if it was the last one, so that the connection may be waiting for it.
    /// </summary>
    internal bool EndPost() => Interlocked.Add(ref _posts, -OnePost) == 0;

    /// <summary>True if no post is pending and none will be accepted.</summary>
    internal bool PostsAreOver => Volatile.Read(ref _posts) == 0;

    /// <summary>Runs a posted action. Returns its exception, unless an awaiting caller receives that.</summary>
    internal static Exception? RunPosted(Delegate action, object? state)
    {
        try
        {
            if (action is Action<object?> withState) withState(state);
            else if (state is Completion<bool> done)
            {
                if (action is Action awaited) Loop.CallTo(done, awaited);
                else _ = RunTo(done, (Func<Task>)action);
            }
            else if (action is Action plain) plain();
            else ((Session)state!).Follow(((Func<Task>)action)());

            return null;
        }
        catch (Exception e)
        {
            return e;
        }
    }

    private void Follow(Task? task)
    {
        if (task is null) throw new InvalidOperationException("The function gave no task.");
        if (task.IsCompleted) task.GetAwaiter().GetResult();
        else _ = FollowAsync(task);
    }

    // tidy: allowed because it belongs to a function that awaits
    private async Task FollowAsync(Task task)
    {
        try
        {
            await task.ConfigureAwait(false);
        }
        catch (Exception e)
        {
            if (!PostCall(s_rethrowPosted, ExceptionDispatchInfo.Capture(e))) NoteLate(e, "A posted function");
        }
    }

    private static async Task RunTo(Completion<bool> done, Func<Task> function)
    {
        try
        {
            await (function() ?? throw new InvalidOperationException("The function gave no task."))
                .ConfigureAwait(false);
        }
        catch (Exception e)
        {
            done.SetException(e);
            return;
        }

        done.SetResult(true);
    }
}
