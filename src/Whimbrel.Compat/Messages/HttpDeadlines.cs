using System.Collections.Concurrent;

namespace Whimbrel.Compat;

/// <summary>
/// Ends requests that arrive too slowly. One timer of the process checks started, incomplete requests a few times a
/// second; it stops while there are none. Any thread may use it.
/// </summary>
internal static class HttpDeadlines
{
    private const int PeriodMs = 250;

    private static readonly ConcurrentDictionary<HttpServing, long> s_begun = new();
    private static readonly Lock s_gate = new();
    private static readonly Timer s_timer = new(static _ => Look());
    private static bool s_runs;

    /// <summary>Sets the time limit of a request, or replaces it.</summary>
    internal static void Set(HttpServing serving, long dueMs)
    {
        s_begun[serving] = dueMs;
        lock (s_gate)
        {
            if (s_runs) return;
            s_runs = true;
            s_timer.Change(PeriodMs, PeriodMs);
        }
    }

    internal static void Clear(HttpServing serving) => s_begun.TryRemove(serving, out _);

    private static void Look()
    {
        long now = Environment.TickCount64;
        foreach ((HttpServing serving, long due) in s_begun)
        {
            // An end may wait for the peer, and other requests may be due as well.
            if (due <= now && s_begun.TryRemove(serving, out _))
                ThreadPool.UnsafeQueueUserWorkItem(static s => s.TimedOut(), serving, preferLocal: false);
        }

        lock (s_gate)
        {
            if (!s_begun.IsEmpty) return;
            s_runs = false;
            s_timer.Change(Timeout.Infinite, Timeout.Infinite);
        }
    }
}
