using Whimbrel.Engines;
using Whimbrel.Testing;

namespace Whimbrel.Simulation.Kernel;

// A Linux engine on a simulated kernel, in one thread: RunOne acts as any of its threads, the pool or the rest of the
// process, in an order that the seed decides. Subclasses supply the waiting of the loops.
internal abstract class KernelEngine : Engine
{
    private readonly SimKernel _kernel;
    private readonly List<(Action<object?> Action, object? State)> _pool = [];
    private bool _isOnPool;
    private readonly List<Deadline> _deadlines = [];
    private readonly List<int> _choices = [];

    private protected KernelEngine(SimKernel kernel, string name, Action<DiagnosticEvent> onDiagnosticEvent)
        : base(name, "a simulated kernel", new EngineOptions { OnDiagnosticEvent = onDiagnosticEvent }) =>
        _kernel = kernel;

    // A real wait of that loop would end, or has not started.
    private protected abstract bool IsReady(int loop);

    // Text for the message of a failure.
    internal abstract string Shape { get; }

    // After the last iteration.
    internal abstract void Free();

    // Actions of other threads while a loop sleeps: their posts must wake it. False if the pool still has work, which
    // may do that (docs/design/0071).
    private protected bool RunWhileAsleep()
    {
        for (int steps = 1 + _kernel.Dice.Next(IsPool ? 8 : 3); steps > 0; steps--)
        {
            if (IsPool && _pool.Count > 0 && _kernel.Dice.Chance(500))
            {
                RunPool();
                continue;
            }

            int peers = 0;
            foreach (KernelPeer peer in Peers) peers += peer.CanAct ? 1 : 0;
            int all = peers + (_pool.Count > 0 ? 1 : 0) + (Elsewhere.Count > 0 ? 1 : 0);
            if (all == 0) break;
            int choice = _kernel.Dice.Next(all);
            if (choice < peers) Peers.Where(static p => p.CanAct).ElementAt(choice).Act();
            else if (choice == peers && _pool.Count > 0) RunPool();
            else RunElsewhere();
        }

        return _pool.Count == 0;
    }

    // Callbacks run on the pool, which mostly runs while the loops sleep.
    internal bool IsPool { get; set; }

    // Longest time that may pass without an event.
    internal long MostMs { get; set; } = long.MaxValue;

    internal List<KernelPeer> Peers { get; } = [];

    // Listeners of raw peers, and the callback for their accepted connections.
    internal List<MemoryListening> Listening { get; } = [];

    internal Action<MemorySocket>? Accepted { get; set; }

    internal List<Action> Elsewhere { get; } = [];

    internal override long NowMs => _kernel.NowMs;

    internal override long NextMs => _kernel.NowMs;

    internal override long CoarseMs => _kernel.NowMs;

    internal override DateTimeOffset UtcNow => DateTimeOffset.UnixEpoch.AddMilliseconds(_kernel.NowMs);

    internal override bool CanSharePorts => false;

    internal override double NextRandom() => _kernel.Dice.Next(1 << 20) / (double)(1 << 20);

    // The machine's own time and threads must not affect a run: otherwise the same seed would differ on a busy machine.
    internal override long WorkTicks => 0;

    internal override long CompiledTicks => 0;

    internal override long StoodStillMs(long fromMs, long toMs) => 0;

    internal override bool HasWatchdog => false;

    internal override void OffloadSurely(Action<object?> action, object? state) => Offload(action, state);

    internal override Deadline StartDeadline(TimeSpan due, Action<object?> action, object? state)
    {
        Deadline deadline = new(NowMs + Loop.WholeMs(due), action, state);
        _deadlines.Add(deadline);
        return deadline;
    }

    internal override void CancelDeadline(Deadline deadline) => _deadlines.Remove(deadline);

    internal override IDisposable StartTimeLimit(TimeSpan after, Action<object?> callback, object state) =>
        throw new NotSupportedException("No story of the simulated kernel blocks a thread for a while.");

    internal override bool IsOnPool => _isOnPool;

    internal override void Offload(Action<object?> action, object? state) => _pool.Add((action, state));

    internal override void Offload(IThreadPoolWorkItem item) =>
        _pool.Add((static i => ((IThreadPoolWorkItem)i!).Execute(), item));

    private protected override void StartLoops()
    {
        // Nothing to start: the caller of RunOne acts as the thread of all loops.
    }

    private bool IsRunnable(Loop loop) =>
        !loop.IsStopped && (loop.HasWork || loop.Timers.NextDueMs <= NowMs || IsReady(loop.Index));

    // One step. False if nothing is ready and no timer is armed: nothing can happen any more.
    internal bool RunOne()
    {
        if (_deadlines.Find(d => d.DueMs <= NowMs) is { } passed)
        {
            RunDeadline(passed);
            return true;
        }

        _choices.Clear();
        for (int i = 0; i < Loops.Length; i++)
        {
            if (IsRunnable(Loops[i])) _choices.Add(i);
        }

        int loops = _choices.Count;
        for (int i = 0; i < Peers.Count; i++)
        {
            if (Peers[i].CanAct) _choices.Add(i);
        }

        int peers = _choices.Count;
        if (Listening.Count > 0 && AcceptRaw(mayWait: peers > 0)) return true;
        int all = peers + (_pool.Count > 0 ? 1 : 0) + (Elsewhere.Count > 0 ? 1 : 0);
        if (all == 0) return AdvanceToNextTimer();
        // A loop runs as often as all peers together: otherwise every iteration would be full with many peers.
        int choice = loops > 0 && _kernel.Dice.Chance(500) ? _kernel.Dice.Next(loops) : _kernel.Dice.Next(all);
        if (choice < loops) RunTurn(Loops[_choices[choice]]);
        else if (choice < peers) Peers[_choices[choice]].Act();
        else if (choice == peers && _pool.Count > 0) RunPool();
        else RunElsewhere();
        _kernel.ThrowIfViolated();
        return true;
    }

    private bool AcceptRaw(bool mayWait)
    {
        foreach (MemoryListening listening in Listening)
        {
            if (listening.Waiting.Count == 0 || (mayWait && _kernel.Dice.Chance(700))) continue;
            Accepted!(listening.Waiting.Dequeue());
            return true;
        }

        return false;
    }

    private void RunTurn(Loop loop)
    {
        _kernel.Trace.Add("turn", loop.Index, 0);
        loop.RunTurnHere();
    }

    private void RunDeadline(Deadline deadline)
    {
        _deadlines.Remove(deadline);
        _kernel.Trace.Add("deadline", 0, 0);
        Loop.RunOffLoop(static d => ((Deadline)d!).Run(), deadline);
    }

    private void RunPool()
    {
        int index = _kernel.Dice.Next(_pool.Count);
        (Action<object?> action, object? state) = _pool[index];
        _pool.RemoveAt(index);
        _kernel.Trace.Add("pool", index, 0);
        _isOnPool = true;
        Loop.RunOffLoop(action, state);
        _isOnPool = false;
    }

    private void RunElsewhere()
    {
        int index = _kernel.Dice.Next(Elsewhere.Count);
        Action action = Elsewhere[index];
        Elsewhere.RemoveAt(index);
        _kernel.Trace.Add("elsewhere", index, 0);
        Loop.RunOffLoop(static a => ((Action)a!)(), action);
    }

    private bool AdvanceToNextTimer()
    {
        long due = _kernel.NextDueMs;
        foreach (Loop loop in Loops)
        {
            if (!loop.IsStopped) due = Math.Min(due, loop.Timers.NextDueMs);
        }

        foreach (Deadline deadline in _deadlines) due = Math.Min(due, deadline.DueMs);
        if (due == long.MaxValue || due - _kernel.NowMs > MostMs) return false;
        _kernel.Trace.Add("clock", 0, due - _kernel.NowMs);
        _kernel.NowMs = Math.Max(_kernel.NowMs, due);
        _kernel.CloseDuplicates();
        return true;
    }
}
