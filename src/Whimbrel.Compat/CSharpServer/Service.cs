using Whimbrel;
using Whimbrel.Compat;
using Whimbrel.Compat.Links;

namespace CSharpServer;

/// <summary>The loops of servers, clients and timers. What is begun while it is not started waits for the start. Any thread.</summary>
public class Service : IDisposable
{
    private readonly Lock _gate = new();
    private readonly Queue<Action> _waiting = new();
    private volatile Engine? _engine;
    private bool _changes; // a start or stop is under way
    private bool _isDisposed;

    /// <summary>One thread.</summary>
    public Service()
        : this(1)
    {
    }

    /// <summary>Some threads: each server, client and session belongs to one of them.</summary>
    /// <param name="threads">From 1 on.</param>
    public Service(int threads)
        : this(threads, false)
    {
    }

    /// <summary>Some threads.</summary>
    /// <param name="threads">From 1 on.</param>
    /// <param name="pool">Without a use: callbacks of one object come one at a time either way.</param>
    /// <exception cref="ArgumentOutOfRangeException">No thread.</exception>
    public Service(int threads, bool pool)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(threads, 1);
        Threads = threads;
    }

    /// <summary>How many threads.</summary>
    public int Threads { get; }

    /// <summary>It was started so that its threads never sleep.</summary>
    public bool IsPolling { get; private set; }

    /// <summary>Between a start and the stop.</summary>
    public bool IsStarted => _engine is not null;

    /// <summary>Another one in tests.</summary>
    internal EngineKind Kind { get; init; }

    /// <summary>Null: not started.</summary>
    internal Engine? Engine => _engine;

    /// <summary>Starts the threads.</summary>
    /// <returns>False: it is started, or cannot be, which OnError has told.</returns>
    public bool Start() => Start(false);

    /// <summary>Starts the threads.</summary>
    /// <param name="polling">They never sleep, and call OnIdle when nothing is to be done.</param>
    /// <returns>False: it is started, or cannot be, which OnError has told.</returns>
    public bool Start(bool polling)
    {
        lock (_gate)
        {
            if (_changes || _engine is not null) return false;
            _changes = true;
        }

        Engine engine = new(new EngineOptions
        {
            Kind = Kind,
            Loops = Threads,
            Idle = polling ? IdleStrategy.Spin : IdleStrategy.Block,
            OnLoopStarted = _ => OnThreadInitialize(),
            OnLoopStopping = _ => OnThreadCleanup(),
            OnIdle = polling ? _ => OnIdle() : null,
        });
        try
        {
            Wait.For(engine.StartAsync());
        }
        catch (NetworkException e)
        {
            lock (_gate) _changes = false;
            AsioError error = AsioError.Of(e.Error.SocketError);
            OnError(error.Code, error.Category, error.Message);
            return false;
        }

        Action[] waiting;
        lock (_gate)
        {
            IsPolling = polling;
            _engine = engine;
            _changes = false;
            waiting = [.. _waiting];
            _waiting.Clear();
        }

        OnStarted();
        foreach (Action action in waiting) action();
        return true;
    }

    /// <summary>Stops the threads, and waits for them: all connections end, and what waits to be done is not done. Not on one of its threads.</summary>
    /// <returns>False: it is not started.</returns>
    public bool Stop()
    {
        if (Loop.Current is not null) throw new InvalidOperationException("Stop waits for the threads, and this is one of them: call it on another thread.");
        Engine engine;
        lock (_gate)
        {
            if (_changes || _engine is null) return false;
            (engine, _engine) = (_engine, null);
            _changes = true;
            _waiting.Clear();
        }

        try
        {
            OnStopped();
        }
        finally
        {
            Wait.For(engine.StopAsync(CompatOptions.DrainTimeout));
            lock (_gate) _changes = false;
        }

        return true;
    }

    /// <summary>Stops and starts. Its servers and clients stay usable: they are to be started and connected again.</summary>
    /// <returns>False: it was not started, or does not start.</returns>
    public bool Restart() => Stop() && Start(IsPolling);

    /// <summary>Runs at once when it is started, otherwise at the start.</summary>
    internal void WhenStarted(Action action)
    {
        lock (_gate)
        {
            if (_engine is null)
            {
                _waiting.Enqueue(action);
                return;
            }
        }

        action();
    }

    /// <summary>A number of bytes: <c>512 bytes</c>, <c>15.1000 MiB</c> (15 MiB and 1000 KiB).</summary>
    /// <param name="bytes">Bytes.</param>
    public static string GenerateDataSize(double bytes) => NetCoreServer.Utilities.GenerateDataSize(bytes);

    /// <summary>A time: <c>17 ns</c>, <c>1.500 ms</c>, <c>2.003 s</c>, <c>1:02.500 m</c>, <c>3:01:02.500 h</c>.</summary>
    /// <param name="milliseconds">Milliseconds.</param>
    public static string GenerateTimePeriod(double milliseconds) => NetCoreServer.Utilities.GenerateTimePeriod(milliseconds);

    /// <summary>A thread has started: called on it.</summary>
    protected virtual void OnThreadInitialize()
    {
    }

    /// <summary>A thread is about to end: called on it.</summary>
    protected virtual void OnThreadCleanup()
    {
    }

    /// <summary>All threads have started. On the thread of the start.</summary>
    protected virtual void OnStarted()
    {
    }

    /// <summary>It stops: behind this the threads end. On the thread of the stop.</summary>
    protected virtual void OnStopped()
    {
    }

    /// <summary>A thread that polls has nothing to do: called on it. Yields.</summary>
    protected virtual void OnIdle() => Thread.Yield();

    /// <summary>Something went wrong that no server, client or timer is told.</summary>
    /// <param name="error">The number, of its category.</param>
    /// <param name="category">Whose numbers: <c>system</c>, <c>asio.misc</c>, <c>asio.netdb</c>, <c>asio.addrinfo</c>, <c>asio.ssl</c>.</param>
    /// <param name="message">In words.</param>
    protected virtual void OnError(int error, string category, string message)
    {
    }

    /// <summary>Stops, and is done with it.</summary>
    public void Dispose()
    {
        Dispose(true);
        GC.SuppressFinalize(this);
    }

    /// <summary>Stops.</summary>
    /// <param name="disposing">True: by Dispose.</param>
    protected virtual void Dispose(bool disposing)
    {
        if (_isDisposed) return;
        _isDisposed = true;
        if (disposing) Stop();
    }
}
