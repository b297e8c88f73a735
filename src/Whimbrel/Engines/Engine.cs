using System.Net;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;

namespace Whimbrel;

/// <summary>
/// A set of loops on one kernel interface; servers and clients share it. Starts its threads on first use. A server or
/// client never disposes an engine: who made it does.
/// </summary>
public class Engine : IAsyncDisposable
{
    private static readonly Lock s_defaultGate = new();
    private static Engine? s_default;
    private static long s_lastId;

    private readonly Lock _gate = new();
    private readonly Action<Notice>? _onNotice;
    private readonly string _name;
    private readonly List<Completion<bool>> _alsoWaiting = [];
    private Completion<bool>? _ended;
    private int _loopsRunning;
    private int _nextLoop = -1;
    private bool _isStarted;
    private bool _isDisposed;

    /// <summary>Makes an engine. Throws when the options have a mistake or ask for what this system does not have.</summary>
    /// <param name="options">Null takes the defaults.</param>
    public Engine(EngineOptions? options = null)
    {
        options ??= new EngineOptions();
        OptionErrors errors = new(nameof(EngineOptions));
        errors.Defined(nameof(options.Kind), options.Kind);
        errors.Range(nameof(options.Loops), options.Loops, 0, 256);
        errors.Range(nameof(options.BlockedLoopMs), options.BlockedLoopMs, 1, 60_000);
        errors.ThrowIfAny();
        (Kind, Reason) = EngineSelector.Choose(options.Kind, Environment.GetEnvironmentVariable(EngineSelector.Variable));
        KindName = Kind.ToString().ToLowerInvariant();
        BlockedLoopMs = options.BlockedLoopMs;
        _onNotice = options.OnNotice;
        _name = options.Name;
        int count = options.Loops == 0 ? Environment.ProcessorCount : options.Loops;
        Loops = new Loop[count];
        // Made here, on the caller's thread, so that a lack of descriptors is the caller's error.
        for (int i = 0; i < count; i++) Loops[i] = EngineSelector.Create(Kind, this, i);
    }

    /// <summary>For engines that run their loops themselves (the memory engine).</summary>
    internal Engine(string kindName, string reason, int blockedLoopMs, Action<Notice>? onNotice)
    {
        Kind = EngineKind.Auto;
        KindName = kindName;
        Reason = reason;
        BlockedLoopMs = blockedLoopMs;
        _onNotice = onNotice;
        _name = kindName;
        Loops = [];
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

    /// <summary>Number of loops.</summary>
    public int LoopCount => Loops.Length;

    internal Loop[] Loops { get; private protected set; }

    internal int BlockedLoopMs { get; }

    /// <summary>Monotonic milliseconds.</summary>
    internal virtual long NowMs => Environment.TickCount64;

    /// <summary>One of the engine's loops.</summary>
    /// <param name="index">0 up to <see cref="LoopCount"/> - 1.</param>
    public Loop GetLoop(int index) => Loops[index];

    internal static long NextConnectionId() => Interlocked.Increment(ref s_lastId);

    /// <summary>The loop for the next connection: round robin.</summary>
    internal Loop NextLoop() => Loops[(uint)Interlocked.Increment(ref _nextLoop) % (uint)Loops.Length];

    internal virtual bool Supports(EndPoint endPoint) => false;

    /// <summary>Runs something off the loops.</summary>
    internal virtual void Offload(Action<object?> action, object? state) =>
        ThreadPool.UnsafeQueueUserWorkItem(action, state, preferLocal: false);

    /// <summary>The same for what runs itself, without an allocation.</summary>
    internal virtual void Offload(IThreadPoolWorkItem item) => ThreadPool.UnsafeQueueUserWorkItem(item, preferLocal: false);

    // ------------------------------------------------------------------ life

    internal void Start()
    {
        // tidy: allowed because it runs at start, stop and dispose only
        lock (_gate)
        {
            if (_isDisposed) Throw.Disposed(nameof(Engine));
            if (_isStarted) return;
            _isStarted = true;
            _loopsRunning = Loops.Length;
            WhimbrelEventSource.Log.EngineStarted(KindName, Reason, Loops.Length);
            StartLoops();
        }
    }

    private protected virtual void StartLoops()
    {
        foreach (Loop loop in Loops)
        {
            Thread thread = new(static state => ((Loop)state!).RunThread()) { IsBackground = true, Name = $"{_name}-{loop.Index}" };
            thread.Start(loop);
        }

        Watchdog.Watch(this);
    }

    /// <summary>Aborts every connection with <see cref="CloseCause.EngineStopped"/>, ends the threads, closes the kernel queues. Completes when all is given back.</summary>
    public ValueTask DisposeAsync()
    {
        Completion<bool> ended;
        // tidy: allowed because it runs at start, stop and dispose only
        lock (_gate)
        {
            if (_isDisposed)
            {
                if (_ended is null or { IsCompleted: true }) return default;
                Completion<bool> other = new(this);
                _alsoWaiting.Add(other);
                return other.PlainTask;
            }

            _isDisposed = true;
            Watchdog.Forget(this);
            if (!_isStarted)
            {
                foreach (Loop loop in Loops) loop.CloseUnused();
                GC.SuppressFinalize(this);
                return default;
            }

            ended = _ended = new Completion<bool>(this);
        }

        foreach (Loop loop in Loops) loop.PostControl(static (l, _, _, _) => l.Stop());
        GC.SuppressFinalize(this);
        return ended.PlainTask;
    }

    internal void LoopEnded(Loop loop)
    {
        if (Interlocked.Decrement(ref _loopsRunning) > 0) return;
        Completion<bool>[] waiting;
        // tidy: allowed because it runs at start, stop and dispose only
        lock (_gate)
        {
            if (_ended is null) return;
            waiting = [_ended, .. _alsoWaiting];
            _alsoWaiting.Clear();
        }

        foreach (Completion<bool> wait in waiting) wait.SetResult(true);
    }

    // ------------------------------------------------------------------ notices

    internal void Note(Notice notice, Action<Notice>? handler = null)
    {
        WhimbrelEventSource.Log.Notice(notice.Kind.ToString(), notice.Message, notice.Page);
        try
        {
            (handler ?? _onNotice)?.Invoke(notice);
        }
        catch (Exception)
        {
            // A notice handler that throws has nobody left to tell; the event source has the notice.
        }
    }

    internal void NoteException(string where, Exception exception) =>
        Note(new Notice(NoticeKind.UserException, $"{where} threw {exception.GetType().Name}: {exception.Message}. Nothing was ended; the loop goes on.", "user-exception.md"));

    /// <summary>Name, loops and reason.</summary>
    public override string ToString() => $"{KindName} ({LoopCount} {(LoopCount == 1 ? "loop" : "loops")}, {Reason})";
}
