using Whimbrel.Engines;

namespace Whimbrel.Connections;

/// <summary>
/// For methods of ours that await inside. Begun in a callback on the pool they run outside of the order of its session, so that they go on
/// while the callback blocks on the result; who awaits the result there comes back into the order all the same.
/// </summary>
internal static class SessionOrder
{
    /// <summary>Leaves the order until <see cref="Keep{T}"/>. Costs nothing but in a callback on the pool. The strand that was left, or null.</summary>
    internal static Strand? Leave()
    {
        Strand.Current?.FlushBatch();
        return Strand.Exchange(null);
    }

    /// <summary>What to give to the caller in place of <paramref name="work"/>, which was begun behind <see cref="Leave"/> and never throws at the call.</summary>
    internal static ValueTask<T> Keep<T>(Strand? left, ValueTask<T> work)
    {
        if (left is null) return work;
        if (!work.IsCompleted)
        {
            Completion<T> done = new(left.Engine);
            ValueTask<T> task = done.Task;
            _ = FollowAsync(work, done);
            work = task;
        }

        Strand.Exchange(left);
        return work;
    }

    /// <summary>The same without a result.</summary>
    internal static ValueTask Keep(Strand? left, ValueTask work)
    {
        if (left is null) return work;
        if (!work.IsCompleted)
        {
            Completion<bool> done = new(left.Engine);
            ValueTask task = done.PlainTask;
            _ = FollowAsync(WithResult(work), done);
            work = task;
        }

        Strand.Exchange(left);
        return work;
    }

    /// <summary>Begins work that tells its end by a <see cref="Completion{T}"/>, and never throws.</summary>
    internal static void Begin(Func<Task> work)
    {
        Strand? left = Leave();
        _ = work();
        Strand.Exchange(left);
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
