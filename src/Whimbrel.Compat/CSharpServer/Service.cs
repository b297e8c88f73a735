using Whimbrel;
using Whimbrel.Compat;
using Whimbrel.Compat.Links;

namespace CSharpServer;

/// <summary>Threads (loops) for servers, clients and timers. Operations started before the service has started wait for
/// the start. Any thread may use it.</summary>
public class Service : IDisposable
{
    private readonly Lock _gate = new();
    private readonly Queue<Action> _waiting = new();
    private volatile Engine? _engine;
    private bool _changes; // a start or stop is in progress
    private bool _isDisposed;

    /// <summary>Creates a service with one thread.</summary>
    public Service()
        : this(1)
    {
    }

    /// <summary>Creates a service with several threads. Each server, client and session belongs to one of
    /// them.</summary>
    /// <param name="threads">Number of threads, at least 1.</param>
    public Service(int threads)
        : this(threads, false)
    {
    }

    /// <summary>Creates a service with several threads.</summary>
    /// <param name="threads">Number of threads, at least 1.</param>
    /// <param name="pool">Ignored: callbacks of one object never run concurrently in either mode.</param>
    /// <exception cref="ArgumentOutOfRangeException"><paramref name="threads"/> is below 1.</exception>
    public Service(int threads, bool pool)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(threads, 1);
        Threads = threads;
    }

    /// <summary>Number of threads.</summary>
    public int Threads { get; }

    /// <summary>True if the service was started so that its threads never sleep.</summary>
    public bool IsPolling { get; private set; }

    /// <summary>True from a start until the stop.</summary>
    public bool IsStarted => _engine is not null;

    /// <summary>Engine to use. Tests set another one.</summary>
    internal EngineKind Kind { get; init; }

    /// <summary>The engine; null if the service is not started.</summary>
    internal Engine? Engine => _engine;

    /// <summary>Starts the threads.</summary>
    /// <returns>False if it is already started, or cannot start; then OnError was called.</returns>
    public bool Start() => Start(false);

    /// <summary>Starts the threads.</summary>
    /// <param name="polling">True: the threads never sleep, and call OnIdle when there is nothing to do.</param>
    /// <returns>False if it is already started, or cannot start; then OnError was called.</returns>
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

    /// <summary>Stops the threads and waits for them. All connections end, and waiting operations are dropped. Must not
    /// be called on a thread of the service.</summary>
    /// <returns>False if it is not started.</returns>
    public bool Stop()
    {
        if (Loop.Current is not null)
            throw new InvalidOperationException(
                "Stop waits for the threads, and this is one of them: call it on another thread.");
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

    /// <summary>Stops and starts the service. Its servers and clients remain usable, and must be started and connected
    /// again.</summary>
    /// <returns>False if it was not started, or does not start.</returns>
    public bool Restart() => Stop() && Start(IsPolling);

    /// <summary>Runs an action at once if the service is started, otherwise at the start.</summary>
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

    /// <summary>Formats a number of bytes: <c>512 bytes</c>, <c>15.1000 MiB</c> (15 MiB and 1000 KiB).</summary>
    /// <param name="bytes">Number of bytes.</param>
    public static string GenerateDataSize(double bytes) => NetCoreServer.Utilities.GenerateDataSize(bytes);

    /// <summary>Formats a time: <c>17 ns</c>, <c>1.500 ms</c>, <c>2.003 s</c>, <c>1:02.500 m</c>, <c>3:01:02.500
    /// h</c>.</summary>
    /// <param name="milliseconds">Time in milliseconds.</param>
    public static string GenerateTimePeriod(double milliseconds) =>
        NetCoreServer.Utilities.GenerateTimePeriod(milliseconds);

    /// <summary>Called on each thread when it has started.</summary>
    protected virtual void OnThreadInitialize()
    {
    }

    /// <summary>Called on each thread before it ends.</summary>
    protected virtual void OnThreadCleanup()
    {
    }

    /// <summary>Called when all threads have started, on the thread that called Start.</summary>
    protected virtual void OnStarted()
    {
    }

    /// <summary>Called by Stop before the threads end, on the thread that called Stop.</summary>
    protected virtual void OnStopped()
    {
    }

    /// <summary>Called on a polling thread that has nothing to do. The default yields.</summary>
    protected virtual void OnIdle() => Thread.Yield();

    /// <summary>Called for errors that belong to no server, client or timer.</summary>
    /// <param name="error">Error number within its category.</param>
    /// <param name="category">Category of the number: <c>system</c>, <c>asio.misc</c>, <c>asio.netdb</c>,
    /// <c>asio.addrinfo</c>, <c>asio.ssl</c>.</param>
    /// <param name="message">Text of the error.</param>
    protected virtual void OnError(int error, string category, string message)
    {
    }

    /// <summary>Stops the service and releases it.</summary>
    public void Dispose()
    {
        Dispose(true);
        GC.SuppressFinalize(this);
    }

    /// <summary>Stops the service.</summary>
    /// <param name="disposing">True if called by Dispose.</param>
    protected virtual void Dispose(bool disposing)
    {
        if (_isDisposed) return;
        _isDisposed = true;
        if (disposing) Stop();
    }
}
