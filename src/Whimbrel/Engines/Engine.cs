using System.Diagnostics;
using System.Net;
using System.Runtime;
using System.Runtime.ExceptionServices;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;
using Whimbrel.Linux;

namespace Whimbrel;

/// <summary>
/// A set of loops on one kernel interface; servers and clients share it. Starts on first use. A server or client never stops
/// an engine: who made it does. Derive from it for the events of its life.
/// </summary>
/// <remarks>
/// <para>Life: stopped, starting, started, stopping, stopped, and so on until it is disposed. A first use (a server that starts, a client
/// that connects, <see cref="Post(Action)"/>, <see cref="Loop.Run"/>) starts it; <see cref="StartAsync"/> does so explicitly. After an explicit
/// stop only an explicit start begins again, and uses throw <see cref="InvalidOperationException"/>; after dispose they throw
/// <see cref="ObjectDisposedException"/>. Posting throws in neither case: it gives false.</para>
/// <para>The loops stay the same objects over stops and starts, and keep their counters and group memberships' place; connections,
/// listeners and timers end with a stop. Servers on it are told by the end of their sessions (<see cref="CloseCause.EngineStopped"/>), and
/// listen again when they are stopped and started; clients may dial again.</para>
/// </remarks>
public class Engine : IAsyncDisposable
{
    private static readonly Lock s_defaultGate = new();
    private static Engine? s_default;
    private static long s_lastId;

    private readonly Lock _gate = new();
    private readonly Lock _startGate = new(); // held during a start, so that others can wait for it
    private readonly List<StopWait<bool>> _waiting = []; // for the end
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
    /// What a stop waits after its deadline for callbacks that are on their way out; then it returns, whatever still runs. One second: for
    /// a loop that lives an abort is a matter of microseconds, and of some hundred milliseconds on a machine with much too much to do.
    /// </summary>
    internal static readonly TimeSpan StopGrace = TimeSpan.FromSeconds(1);

    /// <summary>Makes an engine; nothing is opened before it starts. Throws when the options have a mistake or ask for what this system does not have.</summary>
    /// <param name="options">Null takes the defaults.</param>
    public Engine(EngineOptions? options = null)
        : this(options ?? new EngineOptions(), static asked => EngineSelector.Choose(asked, Environment.GetEnvironmentVariable(EngineSelector.Variable)))
    {
    }

    /// <summary>With the choice made by <paramref name="choose"/>, after the options have been checked.</summary>
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

    /// <summary>For engines that run their loops themselves (the memory engine).</summary>
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

    /// <summary>The process-wide engine: a background thread for each core, started on first use, never disposed.</summary>
    public static Engine Default
    {
        get
        {
            // tidy: allowed because it runs at start, stop and dispose only
            lock (s_defaultGate) return s_default ??= new Engine();
        }
    }

    /// <summary>Which engine was chosen; <see cref="EngineKind.Auto"/> for engines that are not of this library's own choice.</summary>
    public EngineKind Kind { get; }

    /// <summary>The chosen engine's name in lower case, as in messages.</summary>
    public string KindName { get; }

    /// <summary>Why this engine was chosen.</summary>
    public string Reason { get; }

    /// <summary>
    /// Whether an engine can run here, and if not, why and what would allow it; for <see cref="EngineKind.Auto"/> which one it takes. Asks the
    /// system once in a process, for io_uring in about a millisecond. Any thread; throws nothing for what the system answers.
    /// </summary>
    /// <param name="kind">The engine.</param>
    public static EngineSupport SupportFor(EngineKind kind)
    {
        if (!Enum.IsDefined(kind)) throw new ArgumentOutOfRangeException(nameof(kind), kind, "There is no such engine.");
        return EngineSelector.SupportFor(kind, Environment.GetEnvironmentVariable(EngineSelector.Variable));
    }

    /// <summary>Number of loops.</summary>
    public int LoopCount => Loops.Length;

    internal Loop[] Loops { get; private protected set; }

    /// <summary>The descriptors that stay free. None for engines that run their loops themselves.</summary>
    internal DescriptorMargin Descriptors { get; private protected init; }

    /// <summary>True from the end of a start to the beginning of a stop.</summary>
    public bool IsStarted => _life == Life.Started;

    /// <summary>The options it was made with.</summary>
    public EngineOptions Options { get; }

    /// <summary>What other threads have on their way to the loops, what was refused, and how often the loops turned. Any thread; a moment old.</summary>
    public EngineCounters ReadCounters()
    {
        long turns = 0, empty = 0, completions = 0;
        foreach (Loop loop in Loops)
        {
            turns += Volatile.Read(ref loop.Counters.Turns);
            empty += Volatile.Read(ref loop.Counters.EmptyTurns);
            completions += Volatile.Read(ref loop.Counters.Completions);
        }

        return new EngineCounters(MailboxBudget.Used, MailboxBudget.Refused, Volatile.Read(ref _broadcastsRefused), turns, empty, completions);
    }

    internal MailboxBudget MailboxBudget { get; }

    internal void CountRefusedBroadcast() => Interlocked.Increment(ref _broadcastsRefused);

    internal bool IsStopping => _life == Life.Stopping;

    internal int BlockedLoopMs => Options.BlockedLoopMs;

    private int[]? Cpus { get; }

    /// <summary>Monotonic milliseconds.</summary>
    internal virtual long NowMs => ClockMs;

    /// <summary>The clock of all engines whose time is not their own.</summary>
    internal static long ClockMs => Stopwatch.GetTimestamp() / (Stopwatch.Frequency / 1000);

    /// <summary>The same, rounded up.</summary>
    internal virtual long NextMs => (Stopwatch.GetTimestamp() + (Stopwatch.Frequency / 1000) - 1) / (Stopwatch.Frequency / 1000);

    /// <summary>A fine clock for how long work took, in ticks of Stopwatch. Virtual time stands still in it.</summary>
    internal virtual long WorkTicks => Stopwatch.GetTimestamp();

    /// <summary>The same clock, up to <see cref="CoarseLagMs"/> behind, for a third of the price: what a turn looks at though no timer is near.</summary>
    internal virtual long CoarseMs => CoarseClockMs;

    internal static long CoarseClockMs => KernelProbe.HasCoarseClock ? Environment.TickCount64 : ClockMs;

    /// <summary>Ticks that the compiler took on the calling thread so far: user code that runs for the first time is not to blame for them.</summary>
    internal virtual long CompiledTicks => JitInfo.GetCompilationTime(currentThread: true).Ticks;

    /// <summary>How much of this time on the coarse clock the process as a whole did not run.</summary>
    internal virtual long StoodStillMs(long fromMs, long toMs) => Watchdog.StoodStillMs(fromMs, toMs);

    /// <summary>One tick of the slowest kernel that is built (100 Hz), and some.</summary>
    internal const int CoarseLagMs = 16;

    /// <summary>The wall clock.</summary>
    internal virtual DateTimeOffset UtcNow => DateTimeOffset.UtcNow;

    /// <summary>Work items that wait for a thread of the pool.</summary>
    internal virtual long QueuedOnPool => ThreadPool.PendingWorkItemCount;

    /// <summary>The watchdog's thread looks at its loops.</summary>
    internal virtual bool HasWatchdog => true;

    /// <summary>The library has broken a contract of its own. An engine that checks them throws.</summary>
    internal virtual void Violated(string what) => Debug.Fail(what);

    /// <summary>That is what such an engine has thrown: it ends the run, and not a connection.</summary>
    internal virtual bool EndsRun(Exception exception) => false;

    /// <summary>What was lent is overwritten behind the call, also in Release builds.</summary>
    internal virtual bool PoisonsLent => false;

    /// <summary>Several listeners of one server can have the same TCP port, and the system spreads connections among them.</summary>
    internal virtual bool CanSharePorts => Connections.SocketFactory.CanSharePorts;

    /// <summary>
    /// Exceptions of user code that the library caught since the engine was made: in overrides, factories, handlers, timers, posted actions. Each is
    /// counted, told or not. Any thread.
    /// </summary>
    public long UserExceptionCount => Volatile.Read(ref _userExceptions);

    /// <summary>One of the engine's loops; the same object over stops and starts. Starts nothing.</summary>
    /// <param name="index">0 up to <see cref="LoopCount"/> - 1.</param>
    /// <exception cref="ArgumentOutOfRangeException"><paramref name="index"/> is not in that range.</exception>
    public Loop GetLoop(int index)
    {
        if ((uint)index >= (uint)Loops.Length) Throw.OutOfRange(nameof(index), index, $"0 up to LoopCount - 1 ({Loops.Length - 1})");
        return Loops[index];
    }

    internal static long NextConnectionId() => Interlocked.Increment(ref s_lastId);

    /// <summary>The loop for the next connection: round robin.</summary>
    internal Loop NextLoop() => Loops[(uint)Interlocked.Increment(ref _nextLoop) % (uint)Loops.Length];

    internal virtual bool Supports(EndPoint endPoint) => false;

    /// <summary>The end point of an address whose scheme is neither tcp nor unix; null when this engine has none of that kind.</summary>
    internal virtual EndPoint? EndPointOf(NetworkAddress address) => null;

    internal Resolver Resolver { get; }

    /// <summary>Of posts that were awaited. Any thread.</summary>
    internal System.Collections.Concurrent.ConcurrentQueue<PostedCall> SparePosts { get; } = new();

    internal NoticePaces ExceptionNotices { get; } = new();

    /// <summary>Finds the addresses of a host name, off the loops; ends in one <see cref="HostLookup.Complete"/>, on any thread.</summary>
    internal virtual void StartLookup(HostLookup lookup) => Offload(static l => ((HostLookup)l!).Run(), lookup);

    /// <summary>The number of the network interface of that name or address. Asks the system: off the loops. Throws <see cref="NetworkException"/> when there is none.</summary>
    internal virtual int InterfaceIndexOf(string name) => MulticastGroup.IndexOf(name);

    /// <summary>From 0 up to, and without, 1. Any thread.</summary>
    internal virtual double NextRandom() => Random.Shared.NextDouble();

    /// <summary>The caller is a thread that runs what <see cref="Offload(IThreadPoolWorkItem)"/> was given.</summary>
    internal virtual bool IsOnPool => Thread.CurrentThread.IsThreadPoolThread;

    /// <summary>Runs something off the loops.</summary>
    internal virtual void Offload(Action<object?> action, object? state) =>
        ThreadPool.UnsafeQueueUserWorkItem(action, state, preferLocal: false);

    /// <summary>The same for what runs itself, without an allocation.</summary>
    internal virtual void Offload(IThreadPoolWorkItem item) => ThreadPool.UnsafeQueueUserWorkItem(item, preferLocal: false);

    /// <summary>The same, for a stop: runs also when every thread of the pool is blocked.</summary>
    internal virtual void OffloadSurely(Action<object?> action, object? state) => Offload(new SureWork(this, action, state));

    /// <summary>Does something after this time, on a thread of its own, whatever loops and pool do. For stops, which are few.</summary>
    internal virtual Deadline StartDeadline(TimeSpan due, Action<object?> action, object? state)
    {
        Deadline deadline = new(ClockMs + Loop.WholeMs(due), action, state);
        deadline.Arm();
        return deadline;
    }

    internal virtual void CancelDeadline(Deadline deadline) => deadline.Disarm();

    /// <summary>Before the first handshake: see <see cref="Tls.TlsWarmUp"/>. Never fails. Complete at once where time is the engine's own.</summary>
    internal virtual Task WarmUpTls(Tls.TlsProfile profile) => Tls.TlsWarmUp.OfProcess.For(profile);

    /// <summary>Calls back once, off the loops, when so long has passed, unless it is disposed before. Longer than 49 days is as good as never.</summary>
    internal virtual IDisposable StartTimeLimit(TimeSpan after, Action<object?> callback, object state) =>
        new Timer(new TimerCallback(callback), state, after.TotalMilliseconds < uint.MaxValue - 1 ? after : Timeout.InfiniteTimeSpan, Timeout.InfiniteTimeSpan);

    /// <summary>For members that block for at most <paramref name="timeout"/>: not on a loop (contract 14).</summary>
    internal static void CheckWait(TimeSpan timeout)
    {
        if (Loop.Current is not null) Throw.WouldBlockLoop();
        if (timeout != Timeout.InfiniteTimeSpan && (timeout < TimeSpan.Zero || timeout.TotalMilliseconds > int.MaxValue)) Throw.OutOfRange(nameof(timeout), timeout, "zero up to 24 days, or infinite");
    }

    /// <summary>Blocks a thread that is no loop's until the event is set. False when the timeout passed, never early. What a callback on the pool has sent leaves before.</summary>
    internal bool Block(ManualResetEventSlim ended, TimeSpan timeout)
    {
        Connections.Strand.Current?.FlushBatch();
        return BlockThread(ended, timeout);
    }

    private protected virtual bool BlockThread(ManualResetEventSlim ended, TimeSpan timeout)
    {
        // Longer than the wait can be asked for is as good as no limit.
        if (timeout < TimeSpan.Zero || timeout.TotalMilliseconds > int.MaxValue) return ended.Wait(Timeout.InfiniteTimeSpan);
        long began = Stopwatch.GetTimestamp();
        TimeSpan left = timeout;
        do
        {
            // The event's own clock is coarse, and may say some milliseconds too soon that the time is over.
            if (ended.Wait(Loop.WholeMs(left) is var leftMs and < int.MaxValue ? (int)leftMs : int.MaxValue)) return true;
            left = timeout - Stopwatch.GetElapsedTime(began);
        }
        while (left > TimeSpan.Zero);

        return false;
    }

    /// <summary>Blocks a callback on the pool until the loop has offered its queue to the system, or the time passed.</summary>
    internal virtual void AwaitOffer(Loop loop, ManualResetEventSlim offered, TimeSpan most) => Block(offered, most);

    // ------------------------------------------------------------------ posting to any loop

    /// <summary>Posts to the next loop in turn. See <see cref="Loop.Post(Action)"/>. Starts the engine if it was never started.</summary>
    /// <param name="action">What to run.</param>
    /// <returns>False when the engine is stopped or disposed: it will not run.</returns>
    public bool Post(Action action)
    {
        ArgumentNullException.ThrowIfNull(action);
        return TryStart() && NextLoop().Post(action);
    }

    /// <summary>Posts to the next loop in turn. See <see cref="Loop.PostAsync(Action)"/>. Starts the engine if it was never started.</summary>
    /// <param name="action">What to run. What it throws goes to who awaits.</param>
    public ValueTask PostAsync(Action action)
    {
        ArgumentNullException.ThrowIfNull(action);
        return TryStart() ? NextLoop().PostAsync(action) : ValueTask.FromException(EndedError());
    }

    /// <summary>Posts to the next loop in turn. See <see cref="Loop.PostAsync{T}(Func{T})"/>. Starts the engine if it was never started.</summary>
    /// <param name="function">What to run. What it throws goes to who awaits.</param>
    public ValueTask<T> PostAsync<T>(Func<T> function)
    {
        ArgumentNullException.ThrowIfNull(function);
        return TryStart() ? NextLoop().PostAsync(function) : ValueTask.FromException<T>(EndedError());
    }

    /// <summary>Posts to the next loop in turn. See <see cref="Loop.PostAsync(Func{Task})"/>. Starts the engine if it was never started.</summary>
    /// <param name="function">What to start. What it throws goes to who awaits.</param>
    public ValueTask PostAsync(Func<Task> function)
    {
        ArgumentNullException.ThrowIfNull(function);
        return TryStart() ? NextLoop().PostAsync(function) : ValueTask.FromException(EndedError());
    }

    /// <summary>Posts to the next loop in turn. See <see cref="Loop.PostAsync{T}(Func{Task{T}})"/>. Starts the engine if it was never started.</summary>
    /// <param name="function">What to start. What it throws goes to who awaits.</param>
    public ValueTask<T> PostAsync<T>(Func<Task<T>> function)
    {
        ArgumentNullException.ThrowIfNull(function);
        return TryStart() ? NextLoop().PostAsync(function) : ValueTask.FromException<T>(EndedError());
    }

    /// <summary>Why nothing can be posted.</summary>
    internal Exception EndedError() => _isDisposed
        ? new ObjectDisposedException(nameof(Engine))
        : new InvalidOperationException("The engine was stopped: start it again with StartAsync.");

    // ------------------------------------------------------------------ start

    /// <summary>
    /// Opens the kernel queues, starts the threads and completes when all of them run; with adopted loops their callers may come later.
    /// It blocks its caller for that moment, unless that is a loop's thread. Not needed: the first use starts too.
    /// </summary>
    /// <exception cref="InvalidOperationException">It is started, starting or stopping; or it was stopped or disposed meanwhile.</exception>
    /// <exception cref="ObjectDisposedException">It was disposed.</exception>
    /// <exception cref="NetworkException">The system refused a kernel queue, a cpu or a priority. All is closed again.</exception>
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

    /// <summary>By use. Nothing when it is started; after a stop, and while it is stopping, it throws.</summary>
    internal void Start() => Start(isImplicit: true);

    /// <summary>By use, where the caller tells that it cannot be used in another way than by an exception. True while loops may run.</summary>
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
        // A hook of a loop that begins, while the starter waits for it: the engine is as good as started.
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

            // Beside the start: making the event source takes the first engine as long as opening its queues.
            if (WhimbrelEventSource.MayBeHeard)
                ThreadPool.UnsafeQueueUserWorkItem(static engine => WhimbrelEventSource.Log.EngineStarted(engine.KindName, engine.Reason, engine.LoopCount), this, preferLocal: false);
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

    /// <summary>False when there is nothing to do.</summary>
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
                    // Only from inside OnStarting: others wait for the gate.
                    Throw.State("The engine is starting: nothing runs on it before OnStarting has returned.");
                    break;
                case Life.Stopping:
                    Throw.State(_isOverdue
                        ? $"The engine cannot be started: it was told to stop, and has not ended. {UnfinishedText(FindUnfinished())} An engine whose loop never returns stays stopping; make another one."
                        : "The engine is stopping: await StopAsync, then start it again.");
                    break;
                case Life.Stopped when isImplicit && _wasStopped:
                    throw EndedError();
            }

            _life = Life.Starting;
            return true;
        }
    }

    /// <summary>Back to where it was; who waits for an end has it.</summary>
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
            // At least one connection, or there is nothing to start for.
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
        // The loops run, and end as in any stop; nobody is told, because nobody was told of a start.
        _failedStartEnded = new ManualResetEventSlim();
        EndLoops();
        _failedStartEnded.Wait();
        _failedStartEnded = null;
        ExceptionDispatchInfo.Throw(failure);
    }

    private NetworkException NoDescriptors() => new(new NetworkError(
        Errno.EMFILE,
        ErrorCategory.Limit,
        $"Cannot start {KindName} with {LoopCount} {(LoopCount == 1 ? "loop" : "loops")}: of the {DescriptorMargin.Limit} file descriptors that the process may have (ulimit -n), "
            + $"fewer than {Descriptors.Count} would be left for the runtime and the program (EngineOptions.DescriptorMargin). Raise the limit, or take fewer loops. See docs/symptoms/descriptor-limit.md, or: whimbrel explain descriptor-limit."));

    /// <summary>Starts the threads and waits until each has begun; <see cref="LoopBegan"/> is told of what failed.</summary>
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
                Thread thread = new(static state => ((Loop)state!).RunThread()) { IsBackground = true, Name = $"{Options.Name}-{loop.Index}" };
                if (Options.Priority != ThreadPriority.Normal && !KernelProbe.HasEpoll) thread.Priority = Options.Priority;
                // What flows with whoever starts it, an activity for one, would stay with the loop for ever.
                thread.UnsafeStart(loop);
            }
            catch (Exception e)
            {
                // Out of threads. Without one, nobody else can end this loop.
                LoopBegan(e);
                loop.IsAbandoned = true;
            }
        }

        _threadsBegan.Wait();
    }

    /// <summary>A thread of the engine's has begun, or could not.</summary>
    internal void LoopBegan(Exception? failure)
    {
        if (failure is not null) Interlocked.CompareExchange(ref _startFailure, failure, null);
        if (Interlocked.Decrement(ref _threadsToBegin) == 0) _threadsBegan!.Set();
    }

    /// <summary>Cpu and priority of the calling thread, which is a loop's. Throws when the system refuses.</summary>
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
        if (refused != 0) throw NotPlaced($"Cannot give loop {index} the priority {Options.Priority} (nice {nice}; less than 0 needs CAP_SYS_NICE)", refused);
    }

    private static NetworkException NotPlaced(string what, int error) =>
        new(new NetworkError(error, ErrorCategory.System, $"{what}: {ErrorText.Of(error)}."));

    // ------------------------------------------------------------------ stop

    /// <summary>
    /// Aborts every connection with <see cref="CloseCause.EngineStopped"/>, ends the threads, gives everything back and completes then. It
    /// can be started again. Nothing when it is not started. May be awaited in a callback; any number at once.
    /// </summary>
    /// <param name="deadline">Longest time to wait for callbacks that do not return, on loops and on the pool; a second more is always waited. Null takes <see cref="EngineOptions.StopTimeout"/>.</param>
    /// <exception cref="NetworkException">
    /// (To who awaits.) With category Timeout: the deadline has passed, and the message names what still runs. What returns later finds that the engine
    /// was stopped, and the rest of the stop is made then, by itself. Until then the engine cannot be started; a loop that never returns keeps its thread,
    /// which is a background thread, and what it holds.
    /// </exception>
    /// <remarks>
    /// An adopted loop ends in the turns that its thread still runs: <see cref="Loop.Run"/> returns, <see cref="Loop.Turn"/> gives false. When the
    /// thread that runs it calls this outside of a turn, or nobody ever ran it, it is ended inside of this call.
    /// </remarks>
    public ValueTask StopAsync(TimeSpan? deadline = null)
    {
        if (deadline < TimeSpan.Zero) Throw.OutOfRange(nameof(deadline), deadline, "zero or positive");
        return End(isFinal: false, deadline);
    }

    /// <summary>Stops it if it is started, and starts it. Servers on it are to be stopped and started again by their owner.</summary>
    /// <exception cref="ObjectDisposedException">It was disposed.</exception>
    public ValueTask RestartAsync() => Connections.SessionOrder.Keep(Connections.SessionOrder.Leave(), RestartCoreAsync());

    // tidy: allowed because it runs at start, stop and dispose only
    private async ValueTask RestartCoreAsync()
    {
        // tidy: allowed because it runs at start, stop and dispose only
        await StopAsync().ConfigureAwait(false);
        // tidy: allowed because it runs at start, stop and dispose only
        await StartAsync().ConfigureAwait(false);
    }

    /// <summary>As <see cref="StopAsync"/>, for good. After a stop that passed its deadline it waits for the second only.</summary>
    /// <exception cref="NetworkException">As there.</exception>
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
            // While it starts: the starter sees that somebody waits. While it stops: there is one stop for all.
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

    /// <summary>The deadline of a stop has passed: who awaits it is told why. A thread of its own.</summary>
    private void StopIsOverdue(StopWait<bool> wait)
    {
        // tidy: allowed because it runs at start, stop and dispose only
        lock (_gate)
        {
            // It has ended just now.
            if (!_waiting.Remove(wait)) return;
            _isOverdue = true;
        }

        UnfinishedCall[] unfinished = FindUnfinished();
        // An adopted loop may be ending inside of the stop's own call: it sees that it need not go on.
        foreach (Loop loop in Loops) loop.PostControl(static (_, _, _, _) => { });
        wait.TryFail(OverdueError("The engine has not ended", unfinished));
    }

    /// <summary>Why the stop of an engine, a client or a datagram socket returns before all has ended.</summary>
    internal static NetworkException OverdueError(string what, IReadOnlyList<UnfinishedCall> unfinished) =>
        new(new NetworkError(0, ErrorCategory.Timeout, $"{what} at the deadline of its stop. {UnfinishedText(unfinished)} It ends by itself when that returns. See docs/symptoms/stop-overdue.md, or: whimbrel explain stop-overdue."));

    private static string UnfinishedText(IReadOnlyList<UnfinishedCall> unfinished) =>
        unfinished.Count == 0 ? "Nothing is known to run." : $"Still running: {string.Join(", ", unfinished)}.";

    /// <summary>Most calls that a report names.</summary>
    internal const int MostUnfinished = 16;

    /// <summary>As many as a report names.</summary>
    internal static UnfinishedCall[] Most(List<UnfinishedCall> found)
    {
        if (found.Count > MostUnfinished) found.RemoveRange(MostUnfinished, found.Count - MostUnfinished);
        return [.. found];
    }

    /// <summary>User code that runs on loops and pool now. Any thread; true a moment ago.</summary>
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

    /// <summary>A stop has passed its deadline, and the loops have not ended yet.</summary>
    internal bool IsOverdue => _isOverdue;

    private void EndLoops()
    {
        foreach (Loop loop in Loops) loop.PostControl(static (l, _, _, _) => l.Stop());
        foreach (Loop loop in Loops)
        {
            if (loop.IsAdopted || loop.IsAbandoned) loop.EndAdopted();
        }
    }

    /// <summary>By the thread that ran the loop, when it is that loop's no more.</summary>
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

    /// <summary>A start began, nothing is open yet. On the thread that starts it. What it throws fails the start.</summary>
    protected virtual void OnStarting()
    {
    }

    /// <summary>All loops run. On the thread that started it. What it throws is a notice.</summary>
    protected virtual void OnStarted()
    {
    }

    /// <summary>A stop began, connections are still open. On the thread that stops it. What it throws is a notice.</summary>
    protected virtual void OnStopping()
    {
    }

    /// <summary>All loops have ended, everything is given back; it may be started again from here. On the thread of the last loop, which is a loop's no more. What it throws is a notice.</summary>
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

    /// <summary>For hooks, which return nothing. See <see cref="CallbackScope"/>.</summary>
    internal CallbackContext CallbackContext => field ??= new CallbackContext(this);

    internal void Report(DiagnosticEvent notice, Action<DiagnosticEvent>? handler = null)
    {
        WhimbrelEventSource.Log.DiagnosticEvent(notice.Kind.ToString(), notice.Message, notice.Page);
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
            // Otherwise a mistake in the handler would hide every notice, and itself.
            NoteUnasked(notice);
            NoteUnasked(new DiagnosticEvent(DiagnosticEventKind.UserException, $"OnDiagnosticEvent threw {ErrorText.Of(e)}, so the notice above was written here.", "user-exception.md", e));
        }
    }

    /// <summary>Nobody has asked for notices: who runs the program sees them.</summary>
    private protected virtual void NoteUnasked(DiagnosticEvent notice) => StandardError.Write(StandardError.TextOf(notice));

    // ------------------------------------------------------------------ for an engine that watches (the memory engine)

    /// <summary>A session has its connection; its callbacks begin. On its loop.</summary>
    internal virtual void SessionBegan(Session session)
    {
    }

    /// <summary>A session had its last callback. Where its callbacks run.</summary>
    internal virtual void SessionEnded(Session session, CloseReason reason)
    {
    }

    /// <summary>An override, a factory or another piece of user code threw, and the exception was fenced.</summary>
    internal virtual void UserCodeThrew(Exception exception) => Interlocked.Increment(ref _userExceptions);

    internal void ReportException(string where, Exception exception, string outcome = "Nothing was ended; the loop goes on.")
    {
        UserCodeThrew(exception);
        if (!ExceptionNotices.TryTake($"{where}: {exception.GetType().Name}", NowMs, out long leftOut)) return;
        Report(new DiagnosticEvent(DiagnosticEventKind.UserException, $"{where} threw {ErrorText.Of(exception)}. {outcome}{NoticePaces.LeftOutText(leftOut)}", "user-exception.md", exception));
    }

    /// <summary>An OnError threw: what it was called for would be lost with it.</summary>
    internal void ReportOnErrorThrew(Session session, string callback, Exception first, Exception second) =>
        ReportException("OnError", second, $"It was called because {callback} of {session.DisplayName} (session {session.Id:x}) threw {ErrorText.Of(first)}. Its connection was ended; the others go on.");

    /// <summary>Name, loops and reason.</summary>
    public override string ToString() => $"{KindName} ({LoopCount} {(LoopCount == 1 ? "loop" : "loops")}, {Reason})";
}
