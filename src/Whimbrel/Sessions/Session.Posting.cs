using System.Runtime.ExceptionServices;
using Whimbrel.Connections;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;

namespace Whimbrel;

/// <summary>
/// Giving a session something to run in the order of its callbacks, from any thread (contract 18). On the loop it is an item of the
/// mailbox's data lane and so keeps its place between the sends of its caller; on the pool it is an event of the strand. Those that
/// were taken and have not run are counted here: the last callback waits for them.
/// </summary>
public abstract partial class Session
{
    /// <summary>Lowest bit of <see cref="_posts"/>; the bits above count what was taken and has not run.</summary>
    private const int TakesPosts = 1;
    private const int OnePost = 2;

    private static readonly Action<object?> s_rethrowPosted = static thrown => ((ExceptionDispatchInfo)thrown!).Throw();

    // Of a session whose callbacks run on the loop; on the pool the strand knows.
    private int _posts;

    /// <summary>
    /// Runs <paramref name="action"/> on the session's thread between two callbacks; never inside the caller's stack. What was sent
    /// to this session before by the same caller goes first. Sends of the action leave like those of a callback, and what it throws
    /// goes to <see cref="OnError"/>. Any thread.
    /// </summary>
    /// <remarks>
    /// Taken from OnConnected until the connection has ended; what was taken runs, if need be right before
    /// <see cref="OnDisconnecting"/> and <see cref="OnDisconnected"/>: a send gives <see cref="SendResult.Closed"/> then.
    /// With callbacks on the loop what another thread sends later goes behind what the action sends, unless the session sends on its loop meanwhile: that goes behind both, and the action behind that.
    /// </remarks>
    /// <param name="action">What to run.</param>
    /// <returns>False when there is no connection, or it has ended, or was handed over: it will not run.</returns>
    public bool Post(Action action)
    {
        ArgumentNullException.ThrowIfNull(action);
        return PostCall(action, null);
    }

    /// <summary>As <see cref="Post(Action)"/>, with an argument and so without a closure: allocates nothing.</summary>
    /// <param name="action">What to run.</param>
    /// <param name="state">Its argument.</param>
    /// <returns>False when there is no connection, or it has ended, or was handed over: it will not run.</returns>
    public bool Post(Action<object?> action, object? state)
    {
        ArgumentNullException.ThrowIfNull(action);
        return PostCall(action, state);
    }

    /// <summary>
    /// Starts an async function as <see cref="Post(Action)"/> runs an action. It is not serialized with callbacks where it awaits: awaits of this library
    /// inside of it continue in the session's order, those of others wherever they do. What it throws, also after an await, goes to
    /// <see cref="OnError"/> and ends the connection, as what a callback throws; after the end of the connection it is a notice.
    /// </summary>
    /// <param name="function">What to start.</param>
    /// <returns>False when there is no connection, or it has ended, or was handed over: it will not run.</returns>
    public bool Post(Func<Task> function)
    {
        ArgumentNullException.ThrowIfNull(function);
        return PostCall(function, this);
    }

    /// <summary>As <see cref="Post(Func{Task})"/>, with an argument.</summary>
    /// <param name="function">What to start.</param>
    /// <param name="state">Its argument.</param>
    /// <returns>False when there is no connection, or it has ended, or was handed over: it will not run.</returns>
    public bool Post(Func<object?, Task> function, object? state)
    {
        ArgumentNullException.ThrowIfNull(function);
        // tidy: allowed because an async function costs its state machine anyway
        return PostCall((Func<Task>)(() => function(state)), this);
    }

    /// <summary>
    /// As <see cref="Post(Action)"/>, and completes when it has run: true. False, at once, when it will not run. The awaiting code
    /// goes on on the loop, or in the order of the session, that it awaits in, else on the thread pool.
    /// </summary>
    /// <param name="action">What to run. What it throws goes to who awaits, and does not end the connection.</param>
    public ValueTask<bool> PostAsync(Action action)
    {
        ArgumentNullException.ThrowIfNull(action);
        return PostAwaited(action);
    }

    /// <summary>As <see cref="PostAsync(Action)"/>, with an argument and so without a closure: allocates nothing.</summary>
    /// <param name="action">What to run. What it throws goes to who awaits.</param>
    /// <param name="state">Its argument.</param>
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
    /// Starts an async function on the session's thread, and completes when it has ended. What it sends on the loop goes behind what other threads have sent before. Awaits of this library inside of it go on
    /// on the loop, or on the pool in the session's order; those of others go on wherever they do: come back by another PostAsync.
    /// The connection's end does not wait for what is awaited.
    /// </summary>
    /// <param name="function">What to start. What it throws goes to who awaits.</param>
    public ValueTask<bool> PostAsync(Func<Task> function)
    {
        ArgumentNullException.ThrowIfNull(function);
        return PostAwaited(function);
    }

    /// <summary>As <see cref="PostAsync(Func{Task})"/>, with an argument.</summary>
    /// <param name="function">What to start. What it throws goes to who awaits.</param>
    /// <param name="state">Its argument.</param>
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
        // With one counted neither the connection nor its session can be another's before it has run.
        if (!TryCountPost())
        {
            if (connection.Strand is { } strand && strand.Serves(_generation) && strand.TryPostCall(this, action, state)) return true;
            // The strand may have left between the two.
            if (!TryCountPost()) return false;
        }

        if (connection.Loop.Mailbox.PostItem(DataKind.Call, connection, _generation, action, state)) return true;
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

    /// <summary>Loop's thread; never for a session that has a strand.</summary>
    internal void StartPosts() => Volatile.Write(ref _posts, TakesPosts);

    /// <summary>Takes no more. True when none is under way. Loop's thread.</summary>
    internal bool StopPosts() => (Interlocked.And(ref _posts, ~TakesPosts) & ~TakesPosts) == 0;

    /// <summary>One has run. True when somebody may have waited for it.</summary>
    internal bool EndPost() => Interlocked.Add(ref _posts, -OnePost) == 0;

    /// <summary>None is under way, and none will be.</summary>
    internal bool PostsAreOver => Volatile.Read(ref _posts) == 0;

    /// <summary>Runs what was posted, and gives what it threw, unless that goes to somebody who awaits.</summary>
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
            await (function() ?? throw new InvalidOperationException("The function gave no task.")).ConfigureAwait(false);
        }
        catch (Exception e)
        {
            done.SetException(e);
            return;
        }

        done.SetResult(true);
    }
}
