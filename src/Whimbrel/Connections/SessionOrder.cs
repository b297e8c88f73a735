using Whimbrel.Engines;

namespace Whimbrel.Connections;

/// <summary>
/// For methods of this library that await internally. Started in a callback on the pool, they run outside the order of
/// its session, so that they continue while the callback blocks on the result. An awaiter of the result still continues
/// in that order.
/// </summary>
internal static class SessionOrder
{
    /// <summary>
    /// Leaves the order until <see cref="Keep{T}"/>. Returns the session that was left, or null. Has no cost outside of
    /// callbacks on the pool.
    /// </summary>
    internal static PoolSession? Leave()
    {
        PoolSession.Current?.Flush();
        return PoolSession.Exchange(null);
    }

    /// <summary>
    /// Returns the task for the caller instead of <paramref name="work"/>, which was started after <see cref="Leave"/>
    /// and never throws at the call.
    /// </summary>
    internal static ValueTask<T> Keep<T>(PoolSession? left, ValueTask<T> work)
    {
        if (left is null) return work;
        if (!work.IsCompleted)
        {
            Completion<T> done = new(left.Loop.Engine);
            ValueTask<T> task = done.Task;
            _ = FollowAsync(work, done);
            work = task;
        }

        PoolSession.Exchange(left);
        return work;
    }

    /// <summary>The same without a result.</summary>
    internal static ValueTask Keep(PoolSession? left, ValueTask work)
    {
        if (left is null) return work;
        if (!work.IsCompleted)
        {
            Completion<bool> done = new(left.Loop.Engine);
            ValueTask task = done.PlainTask;
            _ = FollowAsync(WithResult(work), done);
            work = task;
        }

        PoolSession.Exchange(left);
        return work;
    }

    /// <summary>Starts work that reports its end by a <see cref="Completion{T}"/>, and never throws.</summary>
    internal static void Begin(Func<Task> work)
    {
        PoolSession? left = Leave();
        _ = work();
        PoolSession.Exchange(left);
    }

    /// <summary>
    /// Starts work, and completes <paramref name="done"/> with its result or exception, unless the deadline was first.
    /// Returns <paramref name="done"/>.
    /// </summary>
    internal static StopWait<T> Begin<T>(StopWait<T> done, Func<ValueTask<T>> work)
    {
        Begin(FinishAsync);
        return done;

        // tidy: allowed because starts and stops are rare
        async Task FinishAsync()
        {
            try
            {
                // tidy: allowed because starts and stops are rare
                done.TryEnd(await work().ConfigureAwait(false));
            }
            catch (Exception e)
            {
                done.TryFail(e);
            }
        }
    }

    // tidy: allowed because it runs only where a callback on the pool has to wait
    private static async Task FollowAsync<T>(ValueTask<T> work, Completion<T> done)
    {
        T result;
        try
        {
            // tidy: allowed because it runs only where a callback on the pool has to wait
            result = await work.ConfigureAwait(false);
        }
        catch (Exception e)
        {
            done.SetException(e);
            return;
        }

        done.SetResult(result);
    }

    // tidy: allowed because it runs only where a callback on the pool has to wait
    private static async ValueTask<bool> WithResult(ValueTask work)
    {
        // tidy: allowed because it runs only where a callback on the pool has to wait
        await work.ConfigureAwait(false);
        return true;
    }
}
