namespace Whimbrel.Engines;

/// <summary>
/// The moment at which a stop stops waiting, though every loop and every thread of the pool may be blocked: one thread of the
/// process sleeps until the next one. What is to be done then is done on a thread of its own, because it completes what users await.
/// </summary>
internal sealed class Deadline
{
    private static readonly object s_gate = new();
    private static readonly List<Deadline> s_armed = [];
    private const int LastsMs = 5_000; // without anything to do: a stop has several steps

    private static bool s_isRunning;

    private readonly Action<object?> _action;
    private readonly object? _state;

    internal Deadline(long dueMs, Action<object?> action, object? state)
    {
        DueMs = dueMs;
        _action = action;
        _state = state;
    }

    /// <summary>On the clock of its engine.</summary>
    internal long DueMs { get; }

    internal void Run() => _action(_state);

    /// <summary>On real clocks. Any thread.</summary>
    internal void Arm()
    {
        // tidy: allowed because it runs at the stop of something only
        lock (s_gate)
        {
            s_armed.Add(this);
            Monitor.Pulse(s_gate);
            if (s_isRunning) return;
            s_isRunning = true;
        }

        new Thread(RunAll) { IsBackground = true, Name = "whimbrel-deadlines" }.UnsafeStart();
    }

    /// <summary>Any thread; it may be running already.</summary>
    internal void Disarm()
    {
        // tidy: allowed because it runs at the stop of something only
        lock (s_gate) s_armed.Remove(this);
    }

    private static void RunAll()
    {
        while (TakeNext() is { } due) RunOnItsOwn(due);
    }

    /// <summary>Waits for the next one that is due. Null when there is none left, and the thread ends.</summary>
    private static Deadline? TakeNext()
    {
        // tidy: allowed because it is the deadlines' own thread
        lock (s_gate)
        {
            while (true)
            {
                // tidy: allowed because there are as many as stops under way
                Deadline? next = s_armed.MinBy(static d => d.DueMs);
                long leftMs = next is null ? LastsMs : next.DueMs - Engine.ClockMs;
                if (leftMs > 0)
                {
                    if (Monitor.Wait(s_gate, (int)Math.Min(leftMs, int.MaxValue)) || next is not null || s_armed.Count > 0) continue;
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
            new Thread(static d => ((Deadline)d!).Run()) { IsBackground = true, Name = "whimbrel-deadline" }.UnsafeStart(due);
        }
        catch (Exception e) when (e is OutOfMemoryException or ThreadStartException)
        {
            // Out of threads: better late for the others than never for this one.
            due.Run();
        }
    }
}
