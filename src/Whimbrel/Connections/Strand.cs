namespace Whimbrel.Connections;

/// <summary>
/// Serial executor of the callbacks of one use of a connection on the thread pool (contract 14). Any thread posts
/// events, and the loop adds received data. One pool thread at a time runs them in order (<see cref="PoolSession"/>).
/// </summary>
/// <remarks>
/// Order: events (callbacks, continuations, posts), unread data that is passed again, received data, the peer's FIN,
/// the end. Data received before a reset is delivered before the end, unless the session has paused or closed.
/// The lock guards everything that two threads write: the queue, and the holds of the driver.
/// </remarks>
internal sealed class Strand : IThreadPoolWorkItem
{
    /// <summary>After this number of steps, other work items of the pool run.</summary>
    private const int StepsPerRun = 64;

    [ThreadStatic]
    private static bool t_isDispatching;

    private readonly Loop _loop;
    private readonly Action<IThreadPoolWorkItem>? _dispatcher;
    private readonly Lock _gate = new();
    private int _isDue; // 1 from the call of the dispatcher until it runs the strand

    // ---- under the lock
    private StrandQueue _queue;
    private Session? _taker; // session whose posts are accepted
    private bool _isScheduled;

    internal Strand(PoolSession owner, Loop loop)
    {
        Owner = owner;
        _loop = loop;
        _dispatcher = owner.Host.Options.Dispatcher;
        _queue = new StrandQueue(loop.StrandBlocks);
    }

    internal PoolSession Owner { get; }

    /// <summary>True if nothing is running or queued. Any thread; the value may be outdated when it returns.</summary>
    internal bool IsIdle => !Volatile.Read(ref _isScheduled);

    /// <summary>True if it is idle and nothing waits. Any thread; the value may be outdated when it returns.</summary>
    internal bool IsEmpty => IsIdle && _queue.IsEmpty;

    /// <summary>Number of received bytes that wait for their callback. Any thread; may be outdated.</summary>
    internal int WaitingBytes => _queue.Bytes;

    // ------------------------------------------------------------------ adding

    /// <summary>Adds an event. Any thread.</summary>
    /// <param name="item">Event.</param>
    /// <param name="taker">Session whose posts are accepted from here on; null for no change.</param>
    internal void Post(in StrandEvent item, Session? taker = null)
    {
        using Entry entry = new(this);
        _queue.Add(item);
        if (taker is not null) _taker = taker;
    }

    /// <summary>Adds a post to the session (contract 18). Returns false if it is not accepted. Any thread.</summary>
    internal bool TryPost(in StrandEvent item, Session taker)
    {
        using Entry entry = new(this);
        if (!ReferenceEquals(_taker, taker)) return false;
        _queue.Add(item);
        return true;
    }

    /// <summary>Adds the continuation of an await in a callback. Any thread.</summary>
    internal void PostContinuation(Action<object?> continuation, object? state) =>
        Post(new StrandEvent(StrandEvent.Continuation, continuation, state));

    /// <summary>
    /// Adds a copy of received data. Returns true if so much waits that the connection must not be read. Loop's thread.
    /// </summary>
    internal bool Add(ReadOnlySpan<byte> data)
    {
        using Entry entry = new(this);
        return _queue.Add(data);
    }

    /// <summary>Adds received data with its block, which the strand owns from here on. Loop's thread.</summary>
    internal bool Add(StrandBlock block)
    {
        using Entry entry = new(this);
        return _queue.Add(block);
    }

    /// <summary>Adds the peer's FIN, after all data. Any thread.</summary>
    internal void Finish()
    {
        using Entry entry = new(this);
        _queue.AddFinish();
    }

    /// <summary>Adds the end, after which no post is accepted. Loop's thread.</summary>
    internal void End()
    {
        using Entry entry = new(this);
        _queue.AddLast();
        _taker = null;
    }

    /// <summary>Stops deliveries. Any thread.</summary>
    internal void Hold(ReceiveGate reason)
    {
        using Entry entry = new(this);
        Owner.Driver.Hold(reason);
    }

    /// <summary>Continues deliveries, and passes unread data again. Any thread.</summary>
    /// <param name="reasons">Reasons that are over.</param>
    /// <param name="offersAnyway">True to pass unread data again also if nothing was held.</param>
    internal void Release(ReceiveGate reasons, bool offersAnyway = false)
    {
        using Entry entry = new(this);
        if (Owner.Driver.Release(reasons) || offersAnyway) Owner.Driver.OfferAgain();
    }

    /// <summary>Takes all received data that waits, as linked blocks. The thread that runs the strand.</summary>
    internal StrandBlock? TakeBlocks(out bool wasFull)
    {
        using Entry entry = new(this);
        return _queue.TakeBlocks(out wasFull);
    }

    // ------------------------------------------------------------------ running

    void IThreadPoolWorkItem.Execute()
    {
        if (!MayRun()) return;
        bool hasMore;
        PoolSession? outer = PoolSession.Exchange(Owner);
        Owner.Sends.BeginRun();
        try
        {
            hasMore = RunSteps();
        }
        finally
        {
            PoolSession.Exchange(outer);
        }

        if (hasMore) Start();
    }

    /// <summary>Returns true if more is to be run.</summary>
    private bool RunSteps()
    {
        for (int i = 0; i < StepsPerRun; i++)
        {
            StrandStep step;
            // tidy: allowed because loop and pool meet here; a few instructions
            lock (_gate)
            {
                step = _queue.Take(Owner);
                _isScheduled = step.Kind != StrandStepKind.None;
            }

            if (step.Kind == StrandStepKind.None) return false;
            Owner.Run(step);
        }

        return true;
    }

    /// <summary>
    /// Starts the strand on a thread of the pool, or of the user's dispatcher, outside of the lock. The dispatcher is
    /// user code, so it is not trusted. If it drops an item, only that session stops. If it runs an item twice, the
    /// item runs once. If it rejects an item, or runs it inside its call or on a loop, the pool runs it.
    /// </summary>
    private void Start()
    {
        if (_dispatcher is not { } dispatcher)
        {
            _loop.StrandQueued();
            _loop.Engine.Offload(this);
            return;
        }

        Volatile.Write(ref _isDue, 1);
        bool outer = t_isDispatching;
        t_isDispatching = true;
        try
        {
            dispatcher(this);
        }
        catch (Exception e)
        {
            UsePool(e);
        }
        finally
        {
            t_isDispatching = outer;
        }
    }

    /// <summary>Returns true for one run after each start, on a thread where callbacks may run.</summary>
    private bool MayRun()
    {
        if (_dispatcher is null)
        {
            _loop.StrandRuns();
            return true;
        }

        if (!t_isDispatching && Loop.Current is null) return Interlocked.Exchange(ref _isDue, 0) == 1;
        if (Volatile.Read(ref _isDue) == 1)
            UsePool(new InvalidOperationException("Dispatcher called Execute inside its own call, or on a loop."));
        return false;
    }

    private void UsePool(Exception exception)
    {
        Owner.Host.NoteUserException("The Dispatcher", "", exception,
            "The thread pool runs the callback in its place.");
        // The dispatcher may have kept the item nevertheless: only one of the two runs.
        _loop.Engine.Offload(this);
    }

    /// <summary>Holds the lock. At its end, starts the strand if a step can run and it is not running.</summary>
    private ref struct Entry
    {
        private readonly Strand _strand;
        private Lock.Scope _scope;

        internal Entry(Strand strand)
        {
            _strand = strand;
            // tidy: allowed because loop and pool meet here; a few instructions, or a copy of one receive
            _scope = strand._gate.EnterScope();
        }

        public void Dispose()
        {
            Strand strand = _strand;
            bool starts = !strand._isScheduled && strand._queue.Peek(strand.Owner) != StrandStepKind.None;
            if (starts) strand._isScheduled = true;
            _scope.Dispose();
            if (starts) strand.Start();
        }
    }
}
