namespace Whimbrel.Engines;

/// <summary>
/// Time at which a stop stops waiting, even if every loop and every pool thread is blocked. One thread of the process
/// sleeps until the next deadline. Each action runs on a thread of its own, because it completes tasks that users
/// await.
/// </summary>
internal sealed class Deadline
{
    private static readonly object s_gate = new();
    private static readonly List<Deadline> s_armed = [];
    // idle time after which the thread ends; longer than the pause between two steps of a stop
    private const int LastsMs = 5_000;

    private static bool s_isRunning;

    private readonly Action<object?> _action;
    private readonly object? _state;

    internal Deadline(long dueMs, Action<object?> action, object? state)
    {
        DueMs = dueMs;
        _action = action;
        _state = state;
    }

    /// <summary>Due time on the engine's clock.</summary>
    internal long DueMs { get; }

    internal void Run() => _action(_state);

    /// <summary>Starts waiting, on the real clock. Any thread.</summary>
    internal void Arm()
    {
        // tidy: allowed because it runs only during a stop
        lock (s_gate)
        {
            s_armed.Add(this);
            Monitor.Pulse(s_gate);
            if (s_isRunning) return;
            s_isRunning = true;
        }

        new Thread(RunAll) { IsBackground = true, Name = "whimbrel-deadlines" }.UnsafeStart();
    }

    /// <summary>Cancels the deadline. Any thread; the action may already be running.</summary>
    internal void Disarm()
    {
        // tidy: allowed because it runs only during a stop
        lock (s_gate) s_armed.Remove(this);
    }

    private static void RunAll()
    {
        while (TakeNext() is { } due) RunOnItsOwn(due);
    }

    /// <summary>
    /// Waits for the next deadline and removes it. Returns null if none is left; then the thread ends.
    /// </summary>
    private static Deadline? TakeNext()
    {
        // tidy: allowed because it is the deadlines' own thread
        lock (s_gate)
        {
            while (true)
            {
                // tidy: allowed because there are as many as stops in progress
                Deadline? next = s_armed.MinBy(static d => d.DueMs);
                long leftMs = next is null ? LastsMs : next.DueMs - Engine.ClockMs;
                if (leftMs > 0)
                {
                    if (Monitor.Wait(s_gate, (int)Math.Min(leftMs, int.MaxValue)) || next is not null
                        || s_armed.Count > 0)
                        continue;
                    s_isRunning = false;
                    return null;
                }

                s_armed.Remove(next!);
                return next;
            }
        }
    }

    private static void RunOnItsOwn(Deadline due)
    {
        try
        {
            new Thread(static d => ((Deadline)d!).Run()) { IsBackground = true, Name = "whimbrel-deadline" }
                .UnsafeStart(due);
        }
        catch (Exception e) when (e is OutOfMemoryException or ThreadStartException)
        {
            // No thread could be created. Running the action here delays the other deadlines, but loses none.
            due.Run();
        }
    }
}
