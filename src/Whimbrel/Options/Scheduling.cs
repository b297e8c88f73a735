namespace Whimbrel;

/// <summary>Threads that run the callbacks of sessions (contract 14).</summary>
public enum Scheduling
{
    /// <summary>The loop that serves the connection: fastest, and callbacks must not block. The default.</summary>
    Inline,

    /// <summary>
    /// The thread pool, serially for each session. A callback may block, also on operations of this library. Other
    /// sessions are affected only if more callbacks block than the pool has threads
    /// (<see cref="System.Threading.ThreadPool.SetMinThreads"/>). Costs a copy and a thread switch for received data.
    /// </summary>
    ThreadPool,
}
