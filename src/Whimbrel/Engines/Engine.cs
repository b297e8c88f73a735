using System.Diagnostics;
using System.Net;
using System.Runtime;
using System.Runtime.ExceptionServices;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;
using Whimbrel.Linux;

namespace Whimbrel;

/// <summary>
/// A set of loops on one kernel interface, shared by servers and clients. Starts on first use. Servers and clients
/// never stop an engine; the code that created it does. Derive from it to override its lifecycle events.
/// </summary>
/// <remarks>
/// <para>Lifecycle: stopped, starting, started, stopping, stopped, and so on until it is disposed. A first use (a
/// starting server, a connecting client, <see cref="Post(Action)"/>, <see cref="Loop.Run"/>) starts it;
/// <see cref="StartAsync"/> starts it explicitly. After an explicit stop only an explicit start starts it again, and
/// uses throw <see cref="InvalidOperationException"/>. After dispose they throw <see cref="ObjectDisposedException"/>.
/// Posting throws in neither case but returns false.</para>
/// <para>The loops are the same objects after a restart. They keep their counters and group shards; connections,
/// listeners and timers end with a stop. Servers on the engine are notified by the end of their sessions
/// (<see cref="CloseCause.EngineStopped"/>), and listen again when they are stopped and started. Clients may connect
/// again.</para>
/// </remarks>
public class Engine : IAsyncDisposable
{
    private static readonly Lock s_defaultGate = new();
    private static Engine? s_default;
    private static long s_lastId;

    private readonly Lock _gate = new();
    private readonly Lock _startGate = new(); // held during a start, so that other threads can wait for it
    private readonly List<StopWait<bool>> _waiting = []; // callers of StopAsync
    private ManualResetEventSlim? _threadsBegan;
    private ManualResetEventSlim? _failedStartEnded;
    private Exception? _startFailure;
    private int _threadsToBegin;
    private int _loopsRunning;
    private int _nextLoop = -1;
    private long _broadcastsRefused;
    private DiagnosticEvent? _fallBack; // reported at the first start
    private volatile Life _life;
    private volatile bool _wasStopped;
    private volatile bool _isDisposed;
    private volatile bool _isOverdue; // a stop has passed its deadline
    private long _userExceptions;

    /// <summary>
    /// Time that a stop waits after its deadline for callbacks that are about to return. It then returns even if some
    /// are still running. One second: a running loop aborts its connections in microseconds, and in some hundred
    /// milliseconds on an overloaded machine.
    /// </summary>
    internal static readonly TimeSpan StopGrace = TimeSpan.FromSeconds(1);

    /// <summary>
    /// Creates an engine; nothing is opened before it starts. Throws if the options are invalid or require a feature
    /// that this system lacks.
    /// </summary>
    /// <param name="options">Options; null for the defaults.</param>
    public Engine(EngineOptions? options = null)
        : this(options ?? new EngineOptions(),
            static asked => EngineSelector.Choose(asked, Environment.GetEnvironmentVariable(EngineSelector.Variable)))
    {
    }

    /// <summary>
    /// Creates an engine of the kind that <paramref name="choose"/> returns, after the options have been validated.
    /// </summary>
    internal Engine(EngineOptions options, Func<EngineKind, EngineChoice> choose)
    {
        options.Validate();
        Options = options;
        MailboxBudget = new MailboxBudget(this, options.MailboxLimitBytes);
        Cpus = options.Cpus is null ? null : [.. options.Cpus];
        (Kind, Reason, _fallBack) = choose(options.Kind);
        KindName = Kind.ToString().ToLowerInvariant();
        Descriptors = new DescriptorMargin(options.DescriptorMargin);
        Resolver = new Resolver(this);
        Loops = new Loop[options.LoopCount];
        for (int i = 0; i < Loops.Length; i++)
        {
            Loops[i] = EngineSelector.Create(Kind, this, i);
            Loops[i].IsAdopted = i < options.AdoptedLoops;
        }
    }

    /// <summary>Creates an engine that runs its loops itself (the memory engine).</summary>
    internal Engine(string kindName, string reason, EngineOptions options)
    {
        options.Validate();
        Options = options;
        MailboxBudget = new MailboxBudget(this, options.MailboxLimitBytes);
        Kind = EngineKind.Auto;
        KindName = kindName;
        Descriptors = DescriptorMargin.None;
        Reason = reason;
        Resolver = new Resolver(this);
        Loops = [];
    }

    private enum Life
    {
        Stopped,
        Starting,
        Started,
        Stopping,
    }

    /// <summary>
    /// The process-wide engine: one background thread for each core, started on first use, never disposed.
    /// </summary>
    public static Engine Default
    {
        get
        {
            // tidy: allowed because it runs at start, stop and dispose only
            lock (s_defaultGate) return s_default ??= new Engine();
        }
    }

    /// <summary>
    /// Kind of the engine; <see cref="EngineKind.Auto"/> for engines that are not part of this library's selection.
    /// </summary>
    public EngineKind Kind { get; }

    /// <summary>Name of the kind in lower case, as used in messages.</summary>
    public string KindName { get; }

    /// <summary>Reason why this kind was selected.</summary>
    public string Reason { get; }

    /// <summary>
    /// Returns whether an engine can run here, and if not, the reason and the remedy; for <see cref="EngineKind.Auto"/>
    /// the kind that would be used. Queries the system once per process; for io_uring this takes about a millisecond.
    /// Any thread; system errors are not thrown.
    /// </summary>
    /// <param name="kind">Kind of the engine.</param>
    public static EngineSupport SupportFor(EngineKind kind)
    {
        if (!Enum.IsDefined(kind))
            throw new ArgumentOutOfRangeException(nameof(kind), kind, "There is no such engine.");
        return EngineSelector.SupportFor(kind, Environment.GetEnvironmentVariable(EngineSelector.Variable));
    }

    /// <summary>Number of loops.</summary>
    public int LoopCount => Loops.Length;

    internal Loop[] Loops { get; private protected set; }

    /// <summary>Margin of free descriptors. None for engines that run their loops themselves.</summary>
    internal DescriptorMargin Descriptors { get; private protected init; }

    /// <summary>True from the end of a start to the beginning of a stop.</summary>
    public bool IsStarted => _life == Life.Started;

    /// <summary>Options passed to the constructor.</summary>
    public EngineOptions Options { get; }

    /// <summary>
    /// Returns the size of unprocessed cross-thread work, rejected sends, and turns of the loops. Any thread; values
    /// may be slightly outdated.
    /// </summary>
    public EngineCounters ReadCounters()
    {
        long turns = 0, empty = 0, completions = 0;
        foreach (Loop loop in Loops)
        {
            turns += Volatile.Read(ref loop.Counters.Turns);
            empty += Volatile.Read(ref loop.Counters.EmptyTurns);
            completions += Volatile.Read(ref loop.Counters.Completions);
        }

        return new EngineCounters(MailboxBudget.Used, MailboxBudget.Refused, Volatile.Read(ref _broadcastsRefused),
            turns, empty, completions);
    }

    internal MailboxBudget MailboxBudget { get; }

    internal void CountRefusedBroadcast() => Interlocked.Increment(ref _broadcastsRefused);

    internal bool IsStopping => _life == Life.Stopping;

    internal int BlockedLoopMs => Options.BlockedLoopMs;

    private int[]? Cpus { get; }

    /// <summary>Monotonic milliseconds.</summary>
    internal virtual long NowMs => ClockMs;

    /// <summary>Real clock of all engines without virtual time.</summary>
    internal static long ClockMs => Stopwatch.GetTimestamp() / (Stopwatch.Frequency / 1000);

    /// <summary>Monotonic milliseconds, rounded up.</summary>
    internal virtual long NextMs =>
        (Stopwatch.GetTimestamp() + (Stopwatch.Frequency / 1000) - 1) / (Stopwatch.Frequency / 1000);

    /// <summary>Fine clock for durations of work, in Stopwatch ticks. It does not follow virtual time.</summary>
    internal virtual long WorkTicks => Stopwatch.GetTimestamp();

    /// <summary>
    /// Monotonic milliseconds, late by up to <see cref="CoarseLagMs"/>, at a third of the cost. A turn reads it when no
    /// timer is near.
    /// </summary>
    internal virtual long CoarseMs => CoarseClockMs;

    internal static long CoarseClockMs => KernelProbe.HasCoarseClock ? Environment.TickCount64 : ClockMs;

    /// <summary>
    /// Ticks that JIT compilation has used on the calling thread so far. They are subtracted from the duration of user
    /// code that runs for the first time.
    /// </summary>
    internal virtual long CompiledTicks => JitInfo.GetCompilationTime(currentThread: true).Ticks;

    /// <summary>
    /// Returns the part of this interval, on the coarse clock, in which the whole process did not run.
    /// </summary>
    internal virtual long StoodStillMs(long fromMs, long toMs) => Watchdog.StoodStillMs(fromMs, toMs);

    /// <summary>One tick of the slowest configured kernel (100 Hz), with a margin.</summary>
    internal const int CoarseLagMs = 16;

    /// <summary>Wall clock.</summary>
    internal virtual DateTimeOffset UtcNow => DateTimeOffset.UtcNow;

    /// <summary>Number of work items that wait for a thread of the pool.</summary>
    internal virtual long QueuedOnPool => ThreadPool.PendingWorkItemCount;

    /// <summary>True if the watchdog's thread samples these loops.</summary>
    internal virtual bool HasWatchdog => true;

    /// <summary>
    /// Called when the library has broken one of its own contracts. An engine that checks contracts throws.
    /// </summary>
    internal virtual void Violated(string what) => Debug.Fail(what);

    /// <summary>
    /// True for an exception thrown by <see cref="Violated"/>: it ends the test run, not only a connection.
    /// </summary>
    internal virtual bool EndsRun(Exception exception) => false;

    /// <summary>True if lent memory is overwritten after the call, also in Release builds.</summary>
    internal virtual bool PoisonsLent => false;

    /// <summary>
    /// True if several listeners of one server can share a TCP port, among which the system distributes connections.
    /// </summary>
    internal virtual bool CanSharePorts => Connections.SocketFactory.CanSharePorts;

    /// <summary>
    /// Number of exceptions of user code that the library has caught since the engine was created: in overrides,
    /// factories, handlers, timers and posted actions. Each is counted, whether or not it was reported. Any thread.
    /// </summary>
    public long UserExceptionCount => Volatile.Read(ref _userExceptions);

    /// <summary>Returns one of the engine's loops, which is the same object after a restart. Starts nothing.</summary>
    /// <param name="index">Index of the loop: 0 to <see cref="LoopCount"/> - 1.</param>
    /// <exception cref="ArgumentOutOfRangeException"><paramref name="index"/> is outside that range.</exception>
    public Loop GetLoop(int index)
    {
        if ((uint)index >= (uint)Loops.Length)
            Throw.OutOfRange(nameof(index), index, $"0 up to LoopCount - 1 ({Loops.Length - 1})");
        return Loops[index];
    }

    internal static long NextConnectionId() => Interlocked.Increment(ref s_lastId);

    /// <summary>Returns the loop for the next connection: round robin.</summary>
    internal Loop NextLoop() => Loops[(uint)Interlocked.Increment(ref _nextLoop) % (uint)Loops.Length];

    internal virtual bool Supports(EndPoint endPoint) => false;

    /// <summary>
    /// Returns the end point of an address with a scheme other than tcp and unix; null if this engine does not know the
    /// scheme.
    /// </summary>
    internal virtual EndPoint? EndPointOf(NetworkAddress address) => null;

    internal Resolver Resolver { get; }

    /// <summary>Pool of objects for awaited posts. Any thread.</summary>
    internal System.Collections.Concurrent.ConcurrentQueue<PostedCall> SparePosts { get; } = new();

    internal NoticePaces ExceptionNotices { get; } = new();

    /// <summary>
    /// Starts to resolve a host name outside the loops. Each lookup ends in one <see cref="HostLookup.Complete"/>, on
    /// any thread.
    /// </summary>
    internal virtual void StartLookup(HostLookup lookup) => Offload(static l => ((HostLookup)l!).Run(), lookup);

    /// <summary>
    /// Returns the index of the network interface with this name or address. Makes system calls, so it is not called on
    /// loops. Throws <see cref="NetworkException"/> if there is none.
    /// </summary>
    internal virtual int InterfaceIndexOf(string name) => Datagrams.InterfaceLookup.IndexOf(name);

    /// <summary>Returns a random number from 0 (inclusive) to 1 (exclusive). Any thread.</summary>
    internal virtual double NextRandom() => Random.Shared.NextDouble();

    /// <summary>True if the calling thread runs work of <see cref="Offload(IThreadPoolWorkItem)"/>.</summary>
    internal virtual bool IsOnPool => Thread.CurrentThread.IsThreadPoolThread;

    /// <summary>Runs an action outside the loops.</summary>
    internal virtual void Offload(Action<object?> action, object? state) =>
        ThreadPool.UnsafeQueueUserWorkItem(action, state, preferLocal: false);

    /// <summary>Runs a work item outside the loops, without an allocation.</summary>
    internal virtual void Offload(IThreadPoolWorkItem item) =>
        ThreadPool.UnsafeQueueUserWorkItem(item, preferLocal: false);

    /// <summary>Runs an action outside the loops even if every pool thread is blocked. For stops.</summary>
    internal virtual void OffloadSurely(Action<object?> action, object? state) =>
        Offload(new SureWork(this, action, state));

    /// <summary>
    /// Runs an action after this time, on a thread of its own, even if loops and pool are blocked. For stops, which are
    /// few.
    /// </summary>
    internal virtual Deadline StartDeadline(TimeSpan due, Action<object?> action, object? state)
    {
        Deadline deadline = new(ClockMs + Loop.WholeMs(due), action, state);
        deadline.Arm();
        return deadline;
    }

    internal virtual void CancelDeadline(Deadline deadline) => deadline.Disarm();

    /// <summary>
    /// Calls back once, outside the loops, after this time, unless the result is disposed before. More than 49 days
    /// means never.
    /// </summary>
    internal virtual IDisposable StartTimeLimit(TimeSpan after, Action<object?> callback, object state) =>
        new Timer(new TimerCallback(callback), state,
            after.TotalMilliseconds < uint.MaxValue - 1 ? after : Timeout.InfiniteTimeSpan, Timeout.InfiniteTimeSpan);

    /// <summary>
    /// Checks the arguments of members that block for at most <paramref name="timeout"/>. They must not be called on a
    /// loop (contract 14).
    /// </summary>
    internal static void CheckWait(TimeSpan timeout)
    {
        if (Loop.Current is not null) Throw.WouldBlockLoop();
        if (timeout != Timeout.InfiniteTimeSpan
            && (timeout < TimeSpan.Zero || timeout.TotalMilliseconds > int.MaxValue))
            Throw.OutOfRange(nameof(timeout), timeout, "zero up to 24 days, or infinite");
    }

    /// <summary>
    /// Blocks a thread outside the loops until the event is set. Returns false if the timeout has passed, never early.
    /// Messages that a callback on the pool has sent leave before.
    /// </summary>
    internal bool Block(ManualResetEventSlim ended, TimeSpan timeout)
    {
        Connections.PoolSession.Current?.Flush();
        return BlockThread(ended, timeout);
    }

    private protected virtual bool BlockThread(ManualResetEventSlim ended, TimeSpan timeout)
    {
        // A timeout longer than the wait accepts means no limit.
        if (timeout < TimeSpan.Zero || timeout.TotalMilliseconds > int.MaxValue)
            return ended.Wait(Timeout.InfiniteTimeSpan);
        long began = Stopwatch.GetTimestamp();
        TimeSpan left = timeout;
        do
        {
            // The event's own clock is coarse and may report the timeout some milliseconds early.
            if (ended.Wait(Loop.WholeMs(left) is var leftMs and < int.MaxValue ? (int)leftMs : int.MaxValue))
                return true;
            left = timeout - Stopwatch.GetElapsedTime(began);
        }
        while (left > TimeSpan.Zero);

        return false;
    }

    /// <summary>
    /// Blocks a callback on the pool until the loop has passed its queue to the system, or the time has passed.
    /// </summary>
    internal virtual void AwaitOffer(Loop loop, ManualResetEventSlim offered, TimeSpan most) => Block(offered, most);

    // ------------------------------------------------------------------ posting to any loop

    /// <summary>
    /// Posts to the next loop in turn. See <see cref="Loop.Post(Action)"/>. Starts the engine if it was never started.
    /// </summary>
    /// <param name="action">Action to run.</param>
    /// <returns>False if the engine is stopped or disposed: the action will not run.</returns>
    public bool Post(Action action)
    {
        ArgumentNullException.ThrowIfNull(action);
        return TryStart() && NextLoop().Post(action);
    }

    /// <summary>
    /// Posts to the next loop in turn. See <see cref="Loop.PostAsync(Action)"/>. Starts the engine if it was
    /// never started.
    /// </summary>
    /// <param name="action">Action to run. Its exceptions are passed to the awaiter.</param>
    public ValueTask PostAsync(Action action)
    {
        ArgumentNullException.ThrowIfNull(action);
        return TryStart() ? NextLoop().PostAsync(action) : ValueTask.FromException(EndedError());
    }

    /// <summary>
    /// Posts to the next loop in turn. See <see cref="Loop.PostAsync{T}(Func{T})"/>. Starts the engine if it was
    /// never started.
    /// </summary>
    /// <param name="function">Function to run. Its exceptions are passed to the awaiter.</param>
    public ValueTask<T> PostAsync<T>(Func<T> function)
    {
        ArgumentNullException.ThrowIfNull(function);
        return TryStart() ? NextLoop().PostAsync(function) : ValueTask.FromException<T>(EndedError());
    }

    /// <summary>
    /// Posts to the next loop in turn. See <see cref="Loop.PostAsync(Func{Task})"/>. Starts the engine if it was
    /// never started.
    /// </summary>
    /// <param name="function">Function to start. Its exceptions are passed to the awaiter.</param>
    public ValueTask PostAsync(Func<Task> function)
    {
        ArgumentNullException.ThrowIfNull(function);
        return TryStart() ? NextLoop().PostAsync(function) : ValueTask.FromException(EndedError());
    }

    /// <summary>
    /// Posts to the next loop in turn. See <see cref="Loop.PostAsync{T}(Func{Task{T}})"/>. Starts the engine if it was
    /// never started.
    /// </summary>
    /// <param name="function">Function to start. Its exceptions are passed to the awaiter.</param>
    public ValueTask<T> PostAsync<T>(Func<Task<T>> function)
    {
        ArgumentNullException.ThrowIfNull(function);
        return TryStart() ? NextLoop().PostAsync(function) : ValueTask.FromException<T>(EndedError());
    }

    /// <summary>Returns the exception for uses after a stop or dispose.</summary>
    internal Exception EndedError() => _isDisposed
        ? new ObjectDisposedException(nameof(Engine))
        : new InvalidOperationException("The engine was stopped: start it again with StartAsync.");

    // ------------------------------------------------------------------ start

    /// <summary>
    /// Opens the kernel queues, starts the threads, and completes when all of them run. Callers of adopted loops may
    /// come later. Blocks the caller for that time, unless the caller is on a loop. Optional: the first use starts the
    /// engine too.
    /// </summary>
    /// <exception cref="InvalidOperationException">It is started, starting or stopping; or it was stopped or disposed
    /// during the start.</exception>
    /// <exception cref="ObjectDisposedException">It is disposed.</exception>
    /// <exception cref="NetworkException">The system refused a kernel queue, a cpu or a priority. Everything opened so
    /// far is closed.</exception>
    public ValueTask StartAsync()
    {
        if (Loop.Current is not null)
        {
            Completion<bool> done = new(this);
            ValueTask task = done.PlainTask;
            Offload(static d => StartFor((Completion<bool>)d!), done);
            return task;
        }

        try
        {
            Start(isImplicit: false);
            return default;
        }
        catch (Exception e)
        {
            return ValueTask.FromException(e);
        }
    }

    private static void StartFor(Completion<bool> done)
    {
        try
        {
            done.Engine.Start(isImplicit: false);
        }
        catch (Exception e)
        {
            done.SetException(e);
            return;
        }

        done.SetResult(true);
    }

    /// <summary>
    /// Starts the engine for a use. Does nothing if it is started; throws after a stop and while it is stopping.
    /// </summary>
    internal void Start() => Start(isImplicit: true);

    /// <summary>
    /// Starts the engine for a use that reports failure by its result instead of an exception. Returns true while loops
    /// may run.
    /// </summary>
    internal bool TryStart()
    {
        if (_life is Life.Started or Life.Stopping) return true;
        if (_life == Life.Stopped && (_wasStopped || _isDisposed)) return false;
        try
        {
            Start(isImplicit: true);
            return true;
        }
        catch (ObjectDisposedException)
        {
            return false;
        }
    }

    private void Start(bool isImplicit)
    {
        if (isImplicit && _life == Life.Started) return;
        // A hook of a loop that begins while the starting thread waits for it: for the hook the engine is started.
        if (isImplicit && _life == Life.Starting && Loop.Current?.Engine == this) return;
        // tidy: allowed because it runs at start, stop and dispose only
        lock (_startGate)
        {
            if (!BeginStart(isImplicit)) return;
            try
            {
                OnStarting();
                StartAllLoops();
            }
            catch
            {
                EndFailedStart();
                throw;
            }

            bool endAtOnce;
            _isOverdue = false;
            // tidy: allowed because it runs at start, stop and dispose only
            lock (_gate)
            {
                endAtOnce = _waiting.Count > 0;
                _life = endAtOnce ? Life.Stopping : Life.Started;
                _wasStopped = endAtOnce;
                if (HasWatchdog) LoopMetrics.EngineStarted(this);
            }

            // Outside the start, because creating the event source takes as long as opening the queues of the first
            // engine.
            if (WhimbrelEventSource.MayBeHeard)
                ThreadPool.UnsafeQueueUserWorkItem(static engine => WhimbrelEventSource.Log.EngineStarted(
                    engine.KindName, engine.Reason, engine.LoopCount), this, preferLocal: false);
            if (endAtOnce)
            {
                EndLoops();
                Throw.State("The engine was stopped while it started.");
            }
        }

        if (HasWatchdog) Watchdog.Watch(this);
        if (_fallBack is { } fallBack)
        {
            _fallBack = null;
            Report(fallBack);
        }

        CallEvent(nameof(OnStarted), static engine => engine.OnStarted());
    }

    /// <summary>Returns false if there is nothing to start.</summary>
    private bool BeginStart(bool isImplicit)
    {
        // tidy: allowed because it runs at start, stop and dispose only
        lock (_gate)
        {
            if (_isDisposed) Throw.Disposed(nameof(Engine));
            switch (_life)
            {
                case Life.Started when isImplicit:
                    return false;
                case Life.Started:
                    Throw.State("The engine is started already.");
                    break;
                case Life.Starting:
                    // Only reached from inside OnStarting: other threads wait for the gate.
                    Throw.State("The engine is starting: nothing runs on it before OnStarting has returned.");
                    break;
                case Life.Stopping:
                    Throw.State(_isOverdue
                        ? $"The engine cannot be started: its last stop has not ended. "
                            + $"{UnfinishedText(FindUnfinished())} If a loop never returns, the engine cannot be used "
                            + $"again; create another one."
                        : "The engine is stopping: await StopAsync, then start it again.");
                    break;
                case Life.Stopped when isImplicit && _wasStopped:
                    throw EndedError();
            }

            _life = Life.Starting;
            return true;
        }
    }

    /// <summary>Returns to the state before the start, and completes waiting stops.</summary>
    private void EndFailedStart()
    {
        StopWait<bool>[] waiting;
        // tidy: allowed because it runs at start, stop and dispose only
        lock (_gate)
        {
            _life = Life.Stopped;
            waiting = [.. _waiting];
            _waiting.Clear();
        }

        if (_isDisposed) CloseUnused();
        foreach (StopWait<bool> wait in waiting) wait.TryEnd(true);
    }

    private void StartAllLoops()
    {
        int opened = 0;
        try
        {
            Descriptors.LookUp();
            for (; opened < Loops.Length; opened++) Loops[opened].Open();
            // Descriptors for at least one connection are required; otherwise a start is useless.
            if (!Descriptors.HasSpare()) throw NoDescriptors();
        }
        catch
        {
            for (int i = 0; i < opened; i++) Loops[i].CloseUnstarted();
            throw;
        }

        _loopsRunning = Loops.Length;
        _startFailure = null;
        StartLoops();
        if (_startFailure is not { } failure) return;
        // The loops run and end as in any stop. No event is raised, because none was raised for the start.
        _failedStartEnded = new ManualResetEventSlim();
        EndLoops();
        _failedStartEnded.Wait();
        _failedStartEnded = null;
        ExceptionDispatchInfo.Throw(failure);
    }

    private NetworkException NoDescriptors() => new(new NetworkError(
        Errno.EMFILE,
        ErrorCategory.Limit,
        $"Cannot start {KindName} with {LoopCount} {(LoopCount == 1 ? "loop" : "loops")}: of the "
        + $"{DescriptorMargin.Limit} file descriptors that the process may have (ulimit -n), "
            + $"fewer than {Descriptors.Count} would be left for the runtime and the "
        + $"program (EngineOptions.DescriptorMargin). Raise the limit, or take fewer loops. "
        + $"See docs/symptoms/descriptor-limit.md, or: whimbrel explain descriptor-limit."));

    /// <summary>
    /// Starts the threads and waits until each has begun; failures are passed to <see cref="LoopBegan"/>.
    /// </summary>
    private protected virtual void StartLoops()
    {
        Loop[] own = Array.FindAll(Loops, static loop => !loop.IsAdopted);
        if (own.Length == 0) return;
        _threadsToBegin = own.Length;
        _threadsBegan = new ManualResetEventSlim();
        foreach (Loop loop in own)
        {
            try
            {
                Thread thread = new(static state => ((Loop)state!).RunThread())
                {
                    IsBackground = true,
                    Name = $"{Options.Name}-{loop.Index}"
                };
                if (Options.Priority != ThreadPriority.Normal && !KernelProbe.HasEpoll)
                    thread.Priority = Options.Priority;
                // Without UnsafeStart, the ExecutionContext of the starting thread (for example an activity) would stay
                // with the loop permanently.
                thread.UnsafeStart(loop);
            }
            catch (Exception e)
            {
                // No thread could be created. No other thread can end this loop, so the stop does.
                LoopBegan(e);
                loop.IsAbandoned = true;
            }
        }

        _threadsBegan.Wait();
    }

    /// <summary>Records that a thread of the engine has begun, or could not.</summary>
    internal void LoopBegan(Exception? failure)
    {
        if (failure is not null) Interlocked.CompareExchange(ref _startFailure, failure, null);
        if (Interlocked.Decrement(ref _threadsToBegin) == 0) _threadsBegan!.Set();
    }

    /// <summary>Sets cpu and priority of the calling loop thread. Throws if the system refuses.</summary>
    internal void PlaceThread(int index)
    {
        if (Cpus is not null)
        {
            int cpu = Cpus[index % Cpus.Length];
            int error = CurrentThread.Pin(cpu);
            if (error != 0) throw NotPlaced($"Cannot bind loop {index} to cpu {cpu} (EngineOptions.Cpus)", error);
        }

        if (Options.Priority == ThreadPriority.Normal || !KernelProbe.HasEpoll) return;
        int nice = Options.Priority switch
        {
            ThreadPriority.Lowest => 10,
            ThreadPriority.BelowNormal => 5,
            ThreadPriority.AboveNormal => -5,
            _ => -10,
        };
        int refused = CurrentThread.SetNice(nice);
        if (refused != 0)
            throw NotPlaced($"Cannot give loop {index} the priority {Options.Priority} (nice {nice}; less than 0 needs "
                + $"CAP_SYS_NICE)", refused);
    }

    private static NetworkException NotPlaced(string what, int error) =>
        new(new NetworkError(error, ErrorCategory.System, $"{what}: {ErrorText.Of(error)}."));

    // ------------------------------------------------------------------ stop

    /// <summary>
    /// Aborts every connection with <see cref="CloseCause.EngineStopped"/>, ends the threads, releases everything, and
    /// then completes. The engine can be started again. Does nothing if it is not started. May be awaited in a
    /// callback; any number of calls at once.
    /// </summary>
    /// <param name="deadline">Longest time to wait for callbacks that do not return, on loops and on the pool; one
    /// second more is always waited. Null for <see cref="EngineOptions.StopTimeout"/>.</param>
    /// <exception cref="NetworkException">
    /// (Passed to the awaiter.) With category Timeout: the deadline has passed, and the message names the callbacks
    /// that are still running. When they return, the rest of the stop is done. Until then the engine cannot be started.
    /// A loop that never returns keeps its background thread and its resources.
    /// </exception>
    /// <remarks>
    /// An adopted loop ends in the turns that its thread still runs: <see cref="Loop.Run"/> returns, and
    /// <see cref="Loop.Turn"/> returns false. If its thread makes this call outside a turn, or no thread ever ran it,
    /// the loop is ended inside this call.
    /// </remarks>
    public ValueTask StopAsync(TimeSpan? deadline = null)
    {
        if (deadline < TimeSpan.Zero) Throw.OutOfRange(nameof(deadline), deadline, "zero or positive");
        return End(isFinal: false, deadline);
    }

    /// <summary>
    /// Stops the engine if it is started, and starts it. The owner of its servers has to stop and start them.
    /// </summary>
    /// <exception cref="ObjectDisposedException">It is disposed.</exception>
    public ValueTask RestartAsync() =>
        Connections.SessionOrder.Keep(Connections.SessionOrder.Leave(), RestartCoreAsync());

    // tidy: allowed because it runs at start, stop and dispose only
    private async ValueTask RestartCoreAsync()
    {
        // tidy: allowed because it runs at start, stop and dispose only
        await StopAsync().ConfigureAwait(false);
        // tidy: allowed because it runs at start, stop and dispose only
        await StartAsync().ConfigureAwait(false);
    }

    /// <summary>
    /// Stops the engine permanently, as <see cref="StopAsync"/>. After a stop that passed its deadline it waits for one
    /// second only.
    /// </summary>
    /// <exception cref="NetworkException">As for <see cref="StopAsync"/>.</exception>
    public ValueTask DisposeAsync()
    {
        GC.SuppressFinalize(this);
        return End(isFinal: true, _isOverdue ? TimeSpan.Zero : null);
    }

    private ValueTask End(bool isFinal, TimeSpan? deadline)
    {
        StopWait<bool> ended;
        ValueTask task;
        // tidy: allowed because it runs at start, stop and dispose only
        lock (_gate)
        {
            if (isFinal) _isDisposed = true;
            if (_life == Life.Stopped)
            {
                if (isFinal) CloseUnused();
                return default;
            }

            ended = new StopWait<bool>(this, (deadline ?? Options.StopTimeout) + StopGrace, StopIsOverdue);
            task = ended.PlainTask;
            _waiting.Add(ended);
            // During a start, the starting thread sees the waiting stop. During a stop, all callers share that stop.
            if (_life != Life.Started) return task;
            _life = Life.Stopping;
            _wasStopped = true;
        }

        CallEvent(nameof(OnStopping), static engine => engine.OnStopping());
        EndLoops();
        return task;
    }

    private void CloseUnused()
    {
        foreach (Loop loop in Loops) loop.CloseUnused();
    }

    /// <summary>
    /// Called when the deadline of a stop has passed: fails the awaiter with the reason. Runs on a thread of its own.
    /// </summary>
    private void StopIsOverdue(StopWait<bool> wait)
    {
        // tidy: allowed because it runs at start, stop and dispose only
        lock (_gate)
        {
            // It has just ended.
            if (!_waiting.Remove(wait)) return;
            _isOverdue = true;
        }

        UnfinishedCall[] unfinished = FindUnfinished();
        // An adopted loop may be ending inside the call of the stop: the post wakes it, so that it sees that the stop
        // is over.
        foreach (Loop loop in Loops) loop.PostControl(static (_, _, _, _) => { });
        wait.TryFail(OverdueError("The engine has not ended", unfinished));
    }

    /// <summary>
    /// Returns the exception for a stop of an engine, a client or a datagram socket that returns before everything has
    /// ended.
    /// </summary>
    internal static NetworkException OverdueError(string what, IReadOnlyList<UnfinishedCall> unfinished) =>
        new(new NetworkError(0, ErrorCategory.Timeout,
            $"{what} at the deadline of its stop. {UnfinishedText(unfinished)} It ends by itself when that returns. "
            + $"See docs/symptoms/stop-overdue.md, or: whimbrel explain stop-overdue."));

    private static string UnfinishedText(IReadOnlyList<UnfinishedCall> unfinished) =>
        unfinished.Count == 0 ? "Nothing is known to run." : $"Still running: {string.Join(", ", unfinished)}.";

    /// <summary>Highest number of calls that a report names.</summary>
    internal const int MostUnfinished = 16;

    /// <summary>Returns the first <see cref="MostUnfinished"/> calls.</summary>
    internal static UnfinishedCall[] Most(List<UnfinishedCall> found)
    {
        if (found.Count > MostUnfinished) found.RemoveRange(MostUnfinished, found.Count - MostUnfinished);
        return [.. found];
    }

    /// <summary>Returns the user code that runs on loops and pool now. Any thread; may be slightly outdated.</summary>
    internal UnfinishedCall[] FindUnfinished()
    {
        List<UnfinishedCall> found = [];
        foreach (Loop loop in Loops)
        {
            if (loop.IsStopped) continue;
            loop.AddUnfinishedTurn(found);
            loop.AddUnfinishedOnPool(found, null);
        }

        return Most(found);
    }

    /// <summary>True if a stop has passed its deadline and the loops have not ended yet.</summary>
    internal bool IsOverdue => _isOverdue;

    private void EndLoops()
    {
        foreach (Loop loop in Loops) loop.PostControl(static (l, _, _, _) => l.Stop());
        foreach (Loop loop in Loops)
        {
            if (loop.IsAdopted || loop.IsAbandoned) loop.EndAdopted();
        }
    }

    /// <summary>Called by the thread that ran the loop, after it has left the loop.</summary>
    internal void LoopEnded(Loop loop)
    {
        if (Interlocked.Decrement(ref _loopsRunning) > 0) return;
        if (_failedStartEnded is { } failed)
        {
            failed.Set();
            return;
        }

        Watchdog.Forget(this);
        StopWait<bool>[] waiting;
        // tidy: allowed because it runs at start, stop and dispose only
        lock (_gate)
        {
            _life = Life.Stopped;
            _isOverdue = false;
            LoopMetrics.EngineStopped(this);
            waiting = [.. _waiting];
            _waiting.Clear();
        }

        CallEvent(nameof(OnStopped), static engine => engine.OnStopped());
        foreach (StopWait<bool> wait in waiting) wait.TryEnd(true);
    }

    // ------------------------------------------------------------------ events

    /// <summary>
    /// Called when a start begins and nothing is open yet, on the thread that starts it. An exception fails the start.
    /// </summary>
    protected virtual void OnStarting()
    {
    }

    /// <summary>
    /// Called when all loops run, on the thread that started it. An exception is reported as a diagnostic event.
    /// </summary>
    protected virtual void OnStarted()
    {
    }

    /// <summary>
    /// Called when a stop begins and connections are still open, on the thread that stops it. An exception is reported
    /// as a diagnostic event.
    /// </summary>
    protected virtual void OnStopping()
    {
    }

    /// <summary>
    /// Called when all loops have ended and everything is released; from here on it may be started again. Runs on the
    /// thread of the last loop, which has left its loop. An exception is reported as a diagnostic event.
    /// </summary>
    protected virtual void OnStopped()
    {
    }

    private void CallEvent(string name, Action<Engine> call)
    {
        try
        {
            call(this);
        }
        catch (Exception e)
        {
            ReportException(name, e);
        }
    }

    // ------------------------------------------------------------------ notices

    /// <summary>Context for hooks, which return nothing. See <see cref="CallbackScope"/>.</summary>
    internal CallbackContext CallbackContext => field ??= new CallbackContext(this);

    /// <summary>The last diagnostic events of this engine, for status socket and dashboard.</summary>
    internal RecentNotices RecentNotices { get; } = new();

    internal void Report(DiagnosticEvent notice, Action<DiagnosticEvent>? handler = null)
    {
        WhimbrelEventSource.Log.DiagnosticEvent(notice.Kind.ToString(), notice.Message, notice.Page);
        RecentNotices.Add(UtcNow, notice);
        try
        {
            if ((handler ?? Options.OnDiagnosticEvent) is not { } told)
            {
                NoteUnasked(notice);
                return;
            }

            using CallbackScope scope = new(this);
            told(notice);
        }
        catch (Exception e)
        {
            // Otherwise a mistake in the handler would hide every diagnostic event, including the one about itself.
            NoteUnasked(notice);
            NoteUnasked(new DiagnosticEvent(DiagnosticEventKind.UserException,
                $"OnDiagnosticEvent threw {ErrorText.Of(e)}, so the notice above was written here.",
                "user-exception.md", e));
        }
    }

    /// <summary>Writes a diagnostic event to standard error, because no handler is set.</summary>
    private protected virtual void NoteUnasked(DiagnosticEvent notice) =>
        StandardError.Write(StandardError.TextOf(notice));

    // ------------------------------------------------------------------ for an engine that watches (the memory engine)

    /// <summary>Called on the loop when a session has its connection and its callbacks begin.</summary>
    internal virtual void SessionBegan(Session session)
    {
    }

    /// <summary>Called where the session's callbacks run, after its last callback.</summary>
    internal virtual void SessionEnded(Session session, CloseReason reason) => SessionHasEnded?.Invoke(session, reason);

    /// <summary>
    /// Raised after the last callback of each session, on the thread of that callback. For observers that are part of
    /// the library: a handler neither blocks nor throws.
    /// </summary>
    internal event Action<Session, CloseReason>? SessionHasEnded;

    /// <summary>Called when user code (an override, a factory and so on) threw and the exception was caught.</summary>
    internal virtual void UserCodeThrew(Exception exception) => Interlocked.Increment(ref _userExceptions);

    internal void ReportException(string where, Exception exception,
        string outcome = "Nothing was ended; the loop continues.")
    {
        UserCodeThrew(exception);
        if (!ExceptionNotices.TryTake($"{where}: {exception.GetType().Name}", NowMs, out long leftOut)) return;
        Report(new DiagnosticEvent(DiagnosticEventKind.UserException,
            $"{where} threw {ErrorText.Of(exception)}. {outcome}{NoticePaces.LeftOutText(leftOut)}",
            "user-exception.md", exception));
    }

    /// <summary>
    /// Reports an exception of OnError together with the exception for which OnError was called, which would otherwise
    /// be lost.
    /// </summary>
    internal void ReportOnErrorThrew(Session session, string callback, Exception first, Exception second) =>
        ReportException("OnError", second, $"It was called because {callback} of {session.DisplayName} (session "
            + $"{session.Id:x}) threw {ErrorText.Of(first)}. Its connection was ended; other connections continue.");

    /// <summary>Returns name, number of loops and reason.</summary>
    public override string ToString() => $"{KindName} ({LoopCount} {(LoopCount == 1 ? "loop" : "loops")}, {Reason})";
}
