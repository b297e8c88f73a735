using System.Net;
using Whimbrel.Engines;

namespace Whimbrel.Schedules;

/// <summary>
/// An engine with one <see cref="ScheduledLoop"/>, a pool that controlled threads serve, and no time.
/// </summary>
internal sealed class ScheduledEngine : Engine
{
    private readonly Queue<(Action<object?> Action, object? State)> _pool = [];

    private bool _hasEnded;

    [ThreadStatic]
    private static bool t_isOnPool;

    internal ScheduledEngine()
        : base("scheduled", "systematic test", new EngineOptions { Loops = 1 })
    {
        Loops = [new ScheduledLoop(this, 0)];
    }

    internal ScheduledLoop Loop => (ScheduledLoop)Loops[0];

    internal override long NowMs => 1_000_000;

    internal override long NextMs => NowMs;

    internal override long CoarseMs => NowMs;

    internal override long WorkTicks => 0;

    internal override long CompiledTicks => 0;

    internal override long QueuedOnPool => _pool.Count;

    internal override bool HasWatchdog => false;

    internal override bool IsOnPool => t_isOnPool;

    internal override bool CanSharePorts => true;

    internal override bool Supports(EndPoint endPoint) => true;

    internal override long StoodStillMs(long fromMs, long toMs) => 0;

    internal override void Violated(string what) => throw Violates(what);

    internal override bool EndsRun(Exception exception) => exception is ScheduleException;

    private protected override void NoteUnasked(DiagnosticEvent notice)
    {
    }

    internal override void Offload(Action<object?> action, object? state) => _pool.Enqueue((action, state));

    internal override void OffloadSurely(Action<object?> action, object? state) => Offload(action, state);

    internal override void Offload(IThreadPoolWorkItem item) =>
        Offload(static i => ((IThreadPoolWorkItem)i!).Execute(), item);

    internal override Deadline StartDeadline(TimeSpan due, Action<object?> action, object? state) =>
        new(long.MaxValue, action, state);

    internal override void CancelDeadline(Deadline deadline)
    {
    }

    internal override IDisposable StartTimeLimit(TimeSpan after, Action<object?> callback, object state) =>
        new NoLimit();

    private protected override void StartLoops()
    {
        // Bodies of a scenario run the loop and the pool.
    }

    /// <summary>The first rule that a loop has seen broken. The library may have caught the exception.</summary>
    internal ScheduleException? Violation { get; private set; }

    internal ScheduleException Violates(string what) => Violation ??= new ScheduleException(what);

    /// <summary>The state of the loop, for the message of a failure.</summary>
    internal string Describe() => $"{Loop.ResidentCount} handles, stopping {Loop.IsStopping}, asleep "
        + $"{Loop.Mailbox.IsLoopAsleep}, mail {Loop.Mailbox.Any}, work {Loop.HasWork}, stopped {Loop.IsStopped}, "
        + $"{_pool.Count} items of the pool";

    /// <summary>The body of the loop's thread.</summary>
    internal void RunLoop()
    {
        while (!Loop.IsStopped) Loop.RunTurnHere();
        _hasEnded = true;
    }

    /// <summary>The body of a thread of the pool.</summary>
    internal void RunPool()
    {
        while (true)
        {
            ControlledThread.Current!.BlockUntil(() => _pool.Count > 0 || _hasEnded, isIdle: true);
            if (!RunPoolItem()) return;
        }
    }

    /// <summary>Runs everything on the calling thread, before the schedule begins.</summary>
    internal void Settle(Func<bool> isDone)
    {
        for (int turns = 0; !isDone(); turns++)
        {
            if (turns == 100) throw new ScheduleException("the scenario does not begin");
            Loop.RunTurnHere();
            RunPoolItems();
        }
    }

    /// <summary>Runs what is left for the pool on the calling thread: continuations of tasks.</summary>
    internal void RunPoolItems()
    {
        while (RunPoolItem())
        {
        }
    }

    private bool RunPoolItem()
    {
        if (!_pool.TryDequeue(out (Action<object?> Action, object? State) item)) return false;
        t_isOnPool = true;
        try
        {
            item.Action(item.State);
        }
        finally
        {
            t_isOnPool = false;
        }

        return true;
    }

    private sealed class NoLimit : IDisposable
    {
        public void Dispose()
        {
        }
    }
}
