using System.Diagnostics;
using Whimbrel.Engines;

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

    private readonly Loop _loop;
    private StrandStart _start;
    private readonly Lock _gate = new();

    // ---- under the lock
    private StrandQueue _queue;
    private Session? _taker; // session whose posts are accepted
    private Strand? _late; // for continuations of the session before, when callbacks run on the loop
    private bool _isScheduled;
    private volatile bool _isOnLoop;

    internal Strand(PoolSession owner, Loop loop)
    {
        Owner = owner;
        _loop = loop;
        _start = new StrandStart(owner.Host, loop);
        _queue = new StrandQueue(loop.StrandBlocks);
    }

    internal PoolSession Owner { get; }

    /// <summary>True if nothing is running or queued. Any thread; the value may be outdated when it returns.</summary>
    internal bool IsIdle => !Volatile.Read(ref _isScheduled);

    /// <summary>True if it is idle and nothing waits. Any thread; the value may be outdated when it returns.</summary>
    internal bool IsEmpty => IsIdle && _queue.IsEmpty;

    /// <summary>Number of received bytes that wait for their callback. Any thread; may be outdated.</summary>
    internal int WaitingBytes => _queue.Bytes;

    /// <summary>True if callbacks run on the loop again, because a stream or pipe has taken over.</summary>
    internal bool IsOnLoop => _isOnLoop;

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
    internal void PostContinuation(Action<object?> continuation, object? state)
    {
        StrandEvent item = new(StrandEvent.Continuation, continuation, state);
        Strand? late;
        using (new Entry(this))
        {
            late = _late;
            if (late is null) _queue.Add(item);
        }

        late?.Post(item);
    }

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
        if (!_start.MayRun(this)) return;
        bool hasMore;
        PoolSession? outer = PoolSession.Exchange(Owner);
        Owner.Sends.BeginRun();
        try
        {
            hasMore = RunSteps(onLoop: false);
        }
        finally
        {
            PoolSession.Exchange(outer);
        }

        if (hasMore) Start();
    }

    /// <summary>Returns true if more is to be run: here, or on the other side.</summary>
    private bool RunSteps(bool onLoop)
    {
        for (int i = 0; i < StepsPerRun && _isOnLoop == onLoop; i++)
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

    /// <summary>Starts the strand: on the pool, or as an action of its loop.</summary>
    private void Start()
    {
        if (_isOnLoop) _loop.PostControl(static (_, s, _, _) => ((Strand)s!).RunOnLoop(), this);
        else _start.Start(this);
    }

    // ------------------------------------------------------------------ on the loop

    /// <summary>
    /// Runs everything on the loop from here on, <paramref name="begin"/> first, because the next session stays there.
    /// Continuations of the session before remain on the pool, in their order. The last step on the pool.
    /// </summary>
    internal void MoveToLoop(in StrandEvent begin)
    {
        Strand late = new(Owner, _loop);
        using (new Entry(this))
        {
            Debug.Assert(_isScheduled && !_isOnLoop, "the strand runs on the pool");
            _queue.BeginWith(begin, ref late._queue);
            _late = late;
            _isOnLoop = true;
        }

        new Entry(late).Dispose(); // starts it, if there are any
    }

    private void RunOnLoop()
    {
        if (RunSteps(onLoop: true)) Start();
        else TryLeave();
    }

    /// <summary>If nothing waits, the connection calls its session itself, and the strand is over.</summary>
    private void TryLeave()
    {
        // tidy: allowed because it runs only until the connection calls its session itself
        lock (_gate)
        {
            if (_isScheduled || !_queue.IsEmpty || !Owner.TryLeave()) return;
            _taker = null;
        }

        _loop.PoolSessionEnded(Owner);
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
