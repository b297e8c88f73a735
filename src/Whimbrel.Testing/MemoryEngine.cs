using System.Net;
using System.Net.Sockets;
using Whimbrel.Engines;

namespace Whimbrel.Testing;

/// <summary>
/// A deterministic simulation of a network in one thread. The caller of <see cref="RunUntil"/> runs loops, connections,
/// clock, other threads and the thread pool, in an order that the seed decides; the same seed gives the same run.
/// Throws <see cref="ContractViolationException"/> when the library violates its own contract. Can be derived from and
/// restarted, as <see cref="Engine"/>. Not thread-safe: one test, one thread.
/// </summary>
public class MemoryEngine : Engine
{
    private readonly List<(Action<object?> Action, object? State)> _pool = [];
    private bool _isOnPool;
    private readonly List<Action> _elsewhere = [];
    private readonly Dictionary<string, (IPAddress[] Addresses, TimeSpan Delay)> _hosts =
        new(StringComparer.OrdinalIgnoreCase)
        {
            ["localhost"] = ([IPAddress.IPv6Loopback, IPAddress.Loopback], TimeSpan.Zero)
        };
    private readonly List<Loop> _runnable = [];
    private readonly MemoryNetwork _network;
    private ContractViolationException? _violation;
    private DateTimeOffset _wallClockAtZero;
    private readonly List<Deadline> _deadlines = [];
    private long _workTicks;
    private long _nowMs;
    private bool _isWatched;
    private long _seenSteps = -1; // by MemoryWatch
    private volatile bool _isInStep;

    /// <summary>Creates an engine.</summary>
    /// <param name="seed">Seed of every order, split, delay and fault.</param>
    /// <param name="loops">Number of loops, 1 to 64.</param>
    /// <param name="onDiagnosticEvent">Callback for diagnostic events.</param>
    /// <param name="faults">Faults of the network, or null for the defaults of <see cref="MemoryFaults"/>.</param>
    /// <param name="blockedLoopMs">Virtual time after which a turn is reported as blocked, in milliseconds.</param>
    /// <param name="onLoopStarted">
    /// As <see cref="EngineOptions.OnLoopStarted"/>, before the first turn of each loop. Exceptions become diagnostic
    /// events.
    /// </param>
    /// <param name="onLoopStopping">As <see cref="EngineOptions.OnLoopStopping"/>.</param>
    /// <param name="mailboxLimitBytes">As <see cref="EngineOptions.MailboxLimitBytes"/>.</param>
    public MemoryEngine(int seed, int loops = 1, Action<DiagnosticEvent>? onDiagnosticEvent = null,
        MemoryFaults? faults = null, int blockedLoopMs = 100, Action<Loop>? onLoopStarted = null,
        Action<Loop>? onLoopStopping = null, long mailboxLimitBytes = 0)
        : base("memory", $"a simulation with seed {seed}", new EngineOptions
        {
            BlockedLoopMs = blockedLoopMs,
            OnDiagnosticEvent = onDiagnosticEvent,
            OnLoopStarted = onLoopStarted,
            OnLoopStopping = onLoopStopping,
            MailboxLimitBytes = mailboxLimitBytes
        })
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(loops, 1);
        ArgumentOutOfRangeException.ThrowIfGreaterThan(loops, 64);
        Seed = seed;
        Random = new Random(seed);
        faults ??= new MemoryFaults();
        _network = new MemoryNetwork(faults, Random);
        Datagrams = new MemoryDatagrams(faults, Random, () => _nowMs);
        // Two of three runs start shortly before a 32-bit millisecond clock overflows.
        _nowMs = Random.Next(3) switch { 0 => 1_000, 1 => int.MaxValue - 2_000L, _ => uint.MaxValue - 2_000L };
        WallClock = new DateTimeOffset(2000, 1, 1, 0, 0, 0, TimeSpan.Zero);
        Loops = new Loop[loops];
        for (int i = 0; i < loops; i++) Loops[i] = new MemoryLoop(this, i, _network);
    }

    /// <summary>Seed of the engine.</summary>
    public int Seed { get; }

    /// <summary>Hash of all steps; the same for runs with the same steps.</summary>
    public ulong TraceHash => Trace.Hash;

    /// <summary>Number of steps so far.</summary>
    public long StepCount => Trace.Steps;

    /// <summary>Virtual time since an arbitrary start, in milliseconds.</summary>
    public long VirtualTimeMs => _nowMs;

    /// <summary>
    /// Virtual wall clock, which starts at 2000-01-01 and advances with the virtual time. Setting it simulates a clock
    /// change, which must not affect timers.
    /// </summary>
    public DateTimeOffset WallClock
    {
        get => _wallClockAtZero.AddMilliseconds(_nowMs);
        set => _wallClockAtZero = value.AddMilliseconds(-_nowMs);
    }

    internal override long NowMs => _nowMs;

    /// <summary>
    /// Advances by 200 us per read: two handshake steps use up a turn's budget, so that every seed includes the pacing
    /// of handshakes.
    /// </summary>
    internal override long WorkTicks => _workTicks += System.Diagnostics.Stopwatch.Frequency / 5000;

    /// <summary>Zero, because the JIT compiler takes no virtual time.</summary>
    internal override long CompiledTicks => 0;

    internal override long QueuedOnPool => 0;

    internal override long StoodStillMs(long fromMs, long toMs) => 0;

    internal override bool HasWatchdog => false;

    internal override void Violated(string what) => throw Violation($"{char.ToUpperInvariant(what[0])}{what[1..]}.");

    internal override bool EndsRun(Exception exception) =>
        exception is ContractViolationException or SimulationStalledException;

    internal override bool PoisonsLent => true;

    internal override long NextMs => _nowMs;

    internal override long CoarseMs => _nowMs;

    internal override DateTimeOffset UtcNow => WallClock;

    internal override bool CanSharePorts => true;

    internal Random Random { get; }

    internal MemoryDatagrams Datagrams { get; }

    internal SimulationTrace Trace { get; } = new();

    /// <summary>Test network that is notified of new sessions, or null.</summary>
    internal TestNetwork? Watcher { get; set; }

    internal override void SessionBegan(Session session) => Watcher?.Began(session);

    internal override void SessionEnded(Session session, CloseReason reason)
    {
        base.SessionEnded(session, reason);
        Watcher?.Ended(session, reason);
    }

    internal override void UserCodeThrew(Exception exception)
    {
        base.UserCodeThrew(exception);
        Watcher?.Threw(exception);
    }

    /// <summary>Does nothing: tests set a callback for diagnostic events.</summary>
    private protected override void NoteUnasked(DiagnosticEvent notice)
    {
    }

    internal override bool Supports(EndPoint endPoint) => endPoint is MemoryEndPoint;

    internal override EndPoint? EndPointOf(NetworkAddress address) =>
        address.Scheme == NetworkAddress.Memory ? new MemoryEndPoint(address.Host) : null;

    internal override double NextRandom() => Random.NextDouble();

    internal override void StartLookup(HostLookup lookup)
    {
        (IPAddress[] Addresses, TimeSpan Delay) host = _hosts.GetValueOrDefault(lookup.Host, ([], TimeSpan.Zero));
        if (host.Delay == Timeout.InfiniteTimeSpan) return;
        if (host.Delay > TimeSpan.Zero)
            Loops[0].StartTimer(host.Delay, static state => ((Action)state!)(), (Action)Answer);
        else Offload(static state => ((Action)state!)(), (Action)Answer);

        void Answer() => lookup.Complete(host.Addresses,
            host.Addresses.Length > 0 ? null : new SocketException((int)SocketError.HostNotFound));
    }

    internal override bool IsOnPool => _isOnPool;

    internal override void Offload(Action<object?> action, object? state) => _pool.Add((action, state));

    internal override void OffloadSurely(Action<object?> action, object? state) => Offload(action, state);

    internal override Deadline StartDeadline(TimeSpan due, Action<object?> action, object? state)
    {
        Deadline deadline = new(_nowMs + Loop.WholeMs(due), action, state);
        _deadlines.Add(deadline);
        return deadline;
    }

    internal override void CancelDeadline(Deadline deadline) => _deadlines.Remove(deadline);

    internal override void Offload(IThreadPoolWorkItem item) =>
        _pool.Add((static i => ((IThreadPoolWorkItem)i!).Execute(), item));

    /// <summary>Starts no threads: the caller of RunUntil runs all loops.</summary>
    private protected override void StartLoops()
    {
        if (_isWatched) return;
        _isWatched = true;
        MemoryWatch.Begin(this);
    }

    /// <summary>
    /// Returns the reason why no step was done since the last call, or null. Otherwise such a mistake would hang the
    /// test without a message. Any thread.
    /// </summary>
    internal string? FindStandstill()
    {
        long steps = StepCount;
        if (Interlocked.Exchange(ref _seenSteps, steps) != steps) return null;
        if (_isInStep)
        {
            string callback = Loops.Select(static l => l.RunningText).FirstOrDefault(static t => t is not null)
                ?? "A callback";
            return $"{callback} has not returned to its MemoryEngine, whose only thread it runs on. If it blocks on "
                + $"something of this engine (AsTask().Wait(), .Result), it never returns: await it instead.";
        }

        return steps == 0 ? "A MemoryEngine was started, and nothing runs it: await and Wait never complete on it. "
            + "Write engine.Run(server.StartAsync()) instead of await server.StartAsync(), or call RunUntil." : null;
    }

    internal override IDisposable StartTimeLimit(TimeSpan after, Action<object?> callback, object state) =>
        new TimeLimit(Loops[0].StartTimer(after, callback, state));

    private sealed class TimeLimit(LoopTimer timer) : IDisposable
    {
        public void Dispose() => timer.Cancel();
    }

    /// <summary>
    /// Simulates a blocked thread: everything else runs meanwhile, outside of the blocking callback. The timeout is
    /// virtual time.
    /// </summary>
    private protected override bool BlockThread(ManualResetEventSlim ended, TimeSpan timeout)
    {
        Connections.PoolSession? callback = Connections.PoolSession.Exchange(null);
        try
        {
            return RunUntilSet(ended, timeout);
        }
        finally
        {
            Connections.PoolSession.Exchange(callback);
        }
    }

    private bool RunUntilSet(ManualResetEventSlim ended, TimeSpan timeout)
    {
        long end = timeout < TimeSpan.Zero ? long.MaxValue : _nowMs + Loop.WholeMs(timeout);
        while (!ended.IsSet)
        {
            if (RunReady()) continue;
            if (_nowMs >= end) return false;
            if (AdvanceToNextTimer(end)) continue;
            if (end == long.MaxValue)
                throw new SimulationStalledException($"Something blocks, and nothing is left to happen (seed {Seed}, "
                    + $"{StepCount} steps). The last steps:\n{Trace}");
            _nowMs = end;
        }

        return true;
    }

    /// <summary>
    /// Processes the loop's mailbox only, because other callbacks would run in the stack of this one.
    /// </summary>
    internal override void AwaitOffer(Loop loop, ManualResetEventSlim offered, TimeSpan most) => loop.DrainHere();

    /// <summary>Records a violation, because a handler around user code may catch the exception.</summary>
    internal ContractViolationException Violation(string message) =>
        _violation ??= new ContractViolationException(
            $"{message} (seed {Seed}, step {StepCount}). The last steps:\n{Trace}");

    // ------------------------------------------------------------------ peers

    /// <summary>Connects a raw peer.</summary>
    /// <param name="endPoint">Address of a server of this engine or of a raw listener.</param>
    /// <exception cref="IOException">There is no listener at the address.</exception>
    public MemoryPeer Connect(EndPoint endPoint) =>
        new(_network.Connect(endPoint, null) ?? throw new IOException($"There is no listener at {endPoint}."));

    /// <summary>Creates a raw listener.</summary>
    /// <param name="endPoint">Address; port 0 selects a free port.</param>
    /// <exception cref="IOException">The address is in use.</exception>
    public MemoryPeerListener Listen(EndPoint endPoint) =>
        new(_network, _network.Listen(endPoint, 4096) ?? throw new IOException($"{endPoint} is taken."));

    /// <summary>Makes an address unreachable: connects and datagrams to it fail at once.</summary>
    /// <param name="endPoint">The address.</param>
    public void AddUnreachable(EndPoint endPoint)
    {
        _network.AddFailing(endPoint, Linux.Errno.ENETUNREACH);
        Datagrams.AddUnreachable(endPoint);
    }

    /// <summary>Makes connects to an address fail at once with an error number.</summary>
    internal void AddFailing(EndPoint endPoint, int error) => _network.AddFailing(endPoint, error);

    /// <summary>Creates a raw datagram socket.</summary>
    /// <param name="endPoint">Address to bind; port 0 selects a free port.</param>
    /// <exception cref="IOException">The address is in use.</exception>
    public MemoryDatagramPeer OpenDatagrams(EndPoint endPoint)
    {
        EndPoint bound = Datagrams.Resolve(endPoint, joins: false, isReused: true)
            ?? throw new IOException($"{endPoint} is taken.");
        MemoryDatagramSocket socket = new(Datagrams.NextId(), bound, isShared: false, isReused: true)
        {
            HasLoopback = true,
            IsBroadcaster = true
        };
        Datagrams.Add(socket);
        return new MemoryDatagramPeer(Datagrams, socket);
    }

    /// <summary>Returns the index of an interface: "lo" (127.0.0.1, ::1) is 1, "memory0" is 2.</summary>
    internal override int InterfaceIndexOf(string name) => name switch
    {
        "lo" or "127.0.0.1" or "::1" => 1,
        "memory0" => 2,
        _ => throw new NetworkException(new NetworkError(Linux.Errno.ENODEV, ErrorCategory.Option,
            $"No network interface is called, or has the address, '{name}'. "
            + $"See docs/symptoms/multicast.md, or: whimbrel explain multicast.")),
    };

    /// <summary>
    /// Adds a host name with its addresses. Of other names only <c>localhost</c> has addresses ([::1], 127.0.0.1).
    /// </summary>
    /// <param name="name">Host name, case-insensitive.</param>
    /// <param name="addresses">Addresses in the order of the look-up's result; none for an unknown name.</param>
    public void AddHost(string name, params IPAddress[] addresses) => AddHost(name, TimeSpan.Zero, addresses);

    /// <summary>Adds a host name with its addresses and the duration of its look-up.</summary>
    /// <param name="name">Host name, case-insensitive.</param>
    /// <param name="delay">
    /// Duration in virtual time; <see cref="Timeout.InfiniteTimeSpan"/> for a look-up without an answer.
    /// </param>
    /// <param name="addresses">Addresses in the order of the look-up's result; none for an unknown name.</param>
    public void AddHost(string name, TimeSpan delay, params IPAddress[] addresses)
    {
        ArgumentNullException.ThrowIfNull(name);
        ArgumentNullException.ThrowIfNull(addresses);
        _hosts[name] = (addresses, delay);
    }

    /// <summary>Makes connects to an address remain unanswered.</summary>
    /// <param name="endPoint">The address.</param>
    public void AddBlackHole(EndPoint endPoint) => _network.AddBlackHole(endPoint);

    // ------------------------------------------------------------------ running

    /// <summary>
    /// Calls an action on another simulated thread, at a point of the run that the seed chooses, outside of every loop.
    /// </summary>
    /// <param name="action">Action to call.</param>
    public void Elsewhere(Action action)
    {
        ArgumentNullException.ThrowIfNull(action);
        _elsewhere.Add(action);
    }

    /// <summary>Simulates, inside a callback, that the callback takes this time.</summary>
    /// <param name="time">Virtual time.</param>
    public void Block(TimeSpan time)
    {
        Loop.Current?.LookFromOutside(_nowMs);
        _nowMs += (long)time.TotalMilliseconds;
        Loop.Current?.LookFromOutside(_nowMs);
    }

    /// <summary>Advances the clock without running anything.</summary>
    /// <param name="time">Virtual time.</param>
    public void Advance(TimeSpan time) => _nowMs += (long)time.TotalMilliseconds;

    /// <summary>Runs until the condition is true. If nothing is ready, the clock advances to the next timer.</summary>
    /// <param name="condition">Condition, evaluated before every step.</param>
    /// <exception cref="SimulationStalledException">
    /// There is nothing left to run, or ten million steps were done.
    /// </exception>
    public void RunUntil(Func<bool> condition)
    {
        ArgumentNullException.ThrowIfNull(condition);
        RunUntilHolds(condition, "");
    }

    private void RunToEnd(Task task) =>
        RunUntilHolds(() => task.IsCompleted, " for the task: it waits for real time or a real thread (Task.Delay, "
            + "Task.Run), which this engine does not run, or for something that never comes");

    private void RunUntilHolds(Func<bool> condition, string why)
    {
        long last = StepCount + 10_000_000;
        while (!condition())
        {
            if (RunOne() && StepCount < last) continue;
            throw new SimulationStalledException($"Nothing is left to happen{why} (seed {Seed}, {StepCount} steps, "
                + $"trace {TraceHash:x}). The last steps:\n{Trace}");
        }
    }

    /// <summary>Runs until nothing is ready, without advancing the clock.</summary>
    public void RunUntilIdle()
    {
        while (RunReady())
        {
        }
    }

    /// <summary>
    /// Runs for a virtual time: timers fire when they are due, one by one, and the clock then stops at the end.
    /// </summary>
    /// <param name="time">Virtual time, zero or more, rounded down to milliseconds.</param>
    public void RunFor(TimeSpan time)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(time, TimeSpan.Zero);
        long end = _nowMs + (long)time.TotalMilliseconds;
        RunUntilIdle();
        while (AdvanceToNextTimer(end)) RunUntilIdle();
        AdvanceTo(end);
        RunUntilIdle();
    }

    /// <summary>Advances the clock to a time, unless a callback has already advanced it further.</summary>
    internal void AdvanceTo(long endMs) => _nowMs = Math.Max(_nowMs, endMs);

    /// <summary>Runs until the task has ended, and returns its result.</summary>
    /// <param name="task">Task, started by the caller.</param>
    public T Run<T>(ValueTask<T> task)
    {
        Task<T> running = task.AsTask();
        RunToEnd(running);
        return running.GetAwaiter().GetResult();
    }

    /// <summary>Runs until the task has ended.</summary>
    /// <param name="task">Task, started by the caller.</param>
    public void Run(ValueTask task)
    {
        Task running = task.AsTask();
        RunToEnd(running);
        running.GetAwaiter().GetResult();
    }

    /// <summary>Runs one step. Returns false if nothing is ready and no timer is armed.</summary>
    public bool RunOne() => RunReady() || AdvanceToNextTimer();

    private long NextDueMs
    {
        get
        {
            long due = long.MaxValue;
            foreach (Loop loop in Loops)
            {
                if (!loop.IsStopped) due = Math.Min(due, loop.Timers.NextDueMs);
            }

            foreach (Deadline deadline in _deadlines) due = Math.Min(due, deadline.DueMs);
            // Datagrams in transit also advance the clock; arrived ones do not.
            long arrival = Datagrams.NextArrivalMs;
            return arrival > _nowMs ? Math.Min(due, arrival) : due;
        }
    }

    /// <summary>Advances the clock to the next timer. Returns false if there is none up to that time.</summary>
    internal bool AdvanceToNextTimer(long most = long.MaxValue)
    {
        long due = NextDueMs;
        if (due == long.MaxValue || due > most) return false;
        Trace.Add("clock", 0, Math.Max(0, due - _nowMs));
        _nowMs = Math.Max(_nowMs, due);
        return true;
    }

    internal bool RunReady()
    {
        Deadline? passed = _deadlines.Find(d => d.DueMs <= _nowMs);
        _runnable.Clear();
        foreach (Loop loop in Loops)
        {
            if (((MemoryLoop)loop).IsRunnable) _runnable.Add(loop);
        }

        int choices = _runnable.Count + (_pool.Count > 0 ? 1 : 0) + (_elsewhere.Count > 0 ? 1 : 0);
        if (choices == 0 && passed is null) return false;
        int choice = passed is null ? Random.Next(choices) : 0;

        // The caller may have a context, for example of a test framework, which library code must not use.
        SynchronizationContext? context = SynchronizationContext.Current;
        SynchronizationContext.SetSynchronizationContext(null);
        bool isNested = _isInStep;
        _isInStep = true;
        try
        {
            if (passed is null) RunChoice(choice);
            else RunDeadline(passed);
        }
        finally
        {
            _isInStep = isNested;
            SynchronizationContext.SetSynchronizationContext(context);
        }

        if (_violation is not null) throw new ContractViolationException(_violation.Message);
        return true;
    }

    private void RunDeadline(Deadline deadline)
    {
        _deadlines.Remove(deadline);
        Trace.Add("deadline", 0, 0);
        Loop.RunOffLoop(static d => ((Deadline)d!).Run(), deadline);
    }

    private void RunChoice(int choice)
    {
        if (choice < _runnable.Count)
        {
            Trace.Add("turn", _runnable[choice].Index, 0);
            _runnable[choice].RunTurnHere();
        }
        else if (choice == _runnable.Count && _pool.Count > 0)
        {
            int index = Random.Next(_pool.Count);
            (Action<object?> action, object? state) = _pool[index];
            _pool.RemoveAt(index);
            Trace.Add("pool", index, 0);
            _isOnPool = true;
            Loop.RunOffLoop(action, state);
            _isOnPool = false;
        }
        else
        {
            int index = Random.Next(_elsewhere.Count);
            Action action = _elsewhere[index];
            _elsewhere.RemoveAt(index);
            Trace.Add("elsewhere", index, 0);
            Loop.RunOffLoop(static a => ((Action)a!)(), action);
        }
    }
}
