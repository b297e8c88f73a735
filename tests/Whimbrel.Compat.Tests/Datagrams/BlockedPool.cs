using System.Diagnostics;

namespace Whimbrel.Compat.Tests.Datagrams;

/// <summary>Runs an action on a thread of its own while all threads of the pool are blocked.</summary>
internal static class BlockedPool
{
    // The pool adds a few threads per second: within the patience far fewer than are blocked here.
    private const int Blocked = 300;
    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(20), s_deadline = TimeSpan.FromSeconds(60);

    /// <summary>Returns the time that the action took; null if it did not return before the pool was released. All
    /// work that the pool had queued before the release has run when this returns.</summary>
    internal static TimeSpan? Time(Action action)
    {
        using ManualResetEventSlim release = new(), queued = new();
        using CountdownEvent ended = new(Blocked);
        for (int i = 0; i < Blocked; i++)
        {
            ThreadPool.UnsafeQueueUserWorkItem(
                _ =>
                {
                    release.Wait();
                    ended.Signal();
                },
                null);
        }

        TimeSpan took = default;
        Thread thread = new(() =>
        {
            long began = Stopwatch.GetTimestamp();
            action();
            took = Stopwatch.GetElapsedTime(began);
        }) { IsBackground = true };
        thread.Start();
        bool isThere = thread.Join(s_patience);
        ThreadPool.UnsafeQueueUserWorkItem(_ => queued.Set(), null);
        release.Set();
        Assert.True(ended.Wait(s_deadline) && queued.Wait(s_deadline) && thread.Join(s_deadline));
        return isThere ? took : null;
    }
}
