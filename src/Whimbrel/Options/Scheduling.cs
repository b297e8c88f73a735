namespace Whimbrel;

/// <summary>Where the callbacks of sessions run (contract 14).</summary>
public enum Scheduling
{
    /// <summary>On the loop that serves the connection: quickest, and a callback must not block. The default.</summary>
    Inline,

    /// <summary>
    /// On the thread pool, one after the other for each session. A callback may block, also on what this library gives to await;
    /// others suffer only when more callbacks block than the pool has threads
    /// (<see cref="System.Threading.ThreadPool.SetMinThreads"/>). Costs a copy and a change of threads for what is received.
    /// </summary>
    ThreadPool,
}
