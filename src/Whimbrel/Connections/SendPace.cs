namespace Whimbrel.Connections;

/// <summary>
/// Share of awaited sends and files in each turn of a loop (docs/design/0068). A connection that has used its share
/// continues in a later turn, after those that already wait. Queued data keeps its place: only the completion of the
/// send waits, or the start of the next part of a file. Loop's thread.
/// </summary>
internal sealed class SendPace(Engine engine)
{
    /// <summary>Bytes of awaited sends in a turn, and of parts of files: some milliseconds of work.</summary>
    internal const int MostOfTurn = 2 * 1024 * 1024;

    /// <summary>Bytes of one connection in a turn.</summary>
    internal const int MostOfConnection = 256 * 1024;

    /// <summary>A connection that has sent no more than this in the turn does not wait for others.</summary>
    internal const int FreeOfConnection = 32 * 1024;

    /// <summary>
    /// Bytes in the connection's queue above which an awaited send does not complete: the memory that a peer costs if
    /// it does not read.
    /// </summary>
    internal const int MostPending = 128 * 1024;

    /// <summary>Bytes of one run of a strand while other work waits for the pool.</summary>
    internal const int MostOfRun = 64 * 1024;

    /// <summary>
    /// Number of queued work items of the thread pool above which only one sender continues there each millisecond,
    /// because new requests wait in the same queue.
    /// </summary>
    private const int MostQueuedOnPool = 16;
    private const int PoolRestMs = 1;

    private readonly Engine _engine = engine;
    private readonly Queue<PacedSend> _waiting = new();
    private readonly Queue<PacedSend> _waitingForPool = new();
    private long _poolRestsUntilMs;
    private long _left = MostOfTurn;
    private long _leftForFiles = MostOfTurn;

    /// <summary>Number of the turn.</summary>
    internal long Turn { get; private set; }

    /// <summary>True if a send waits for the next turn, which may begin at once.</summary>
    internal bool Any => _waiting.Count > 0 || (_waitingForPool.Count > 0 && _poolRestsUntilMs == 0);

    /// <summary>
    /// Time at which a sender on the pool may continue although the pool is busy; <see cref="long.MaxValue"/> if none
    /// waits for that.
    /// </summary>
    internal long DueMs => _poolRestsUntilMs == 0 ? long.MaxValue : _poolRestsUntilMs;

    internal bool IsSpent => _left <= 0;

    internal bool IsSpentByFiles => _leftForFiles <= 0;

    internal void TurnBegins()
    {
        Turn++;
        _left = MostOfTurn;
        _leftForFiles = MostOfTurn;
    }

    internal void Spend(long bytes) => _left -= bytes;

    internal void SpendOnFile(long bytes) => _leftForFiles -= bytes;

    internal void Wait(PacedSend send) => (send.IsOfLoop ? _waiting : _waitingForPool).Enqueue(send);

    /// <summary>
    /// Completes as many sends as this turn has a share for, each counted with the size of its last message.
    /// </summary>
    internal void Resume()
    {
        while (!IsSpent && _waiting.TryDequeue(out PacedSend? send)) Release(send);
        if (_waitingForPool.Count > 0) ResumeOnPool();
    }

    private void ResumeOnPool()
    {
        long nowMs = _engine.NowMs;
        if (nowMs < _poolRestsUntilMs) return;
        _poolRestsUntilMs = 0;
        // At least one, because a thread of the pool may be blocked on it.
        while (!IsSpent && _waitingForPool.TryDequeue(out PacedSend? send))
        {
            Release(send);
            if (_waitingForPool.Count == 0 || _engine.QueuedOnPool <= MostQueuedOnPool) continue;
            _poolRestsUntilMs = nowMs + PoolRestMs;
            return;
        }
    }

    private void Release(PacedSend send)
    {
        _left -= send.Bytes;
        send.Release();
    }

    /// <summary>Completes all waiting sends when the loop ends.</summary>
    internal void End()
    {
        while (_waiting.TryDequeue(out PacedSend? send) || _waitingForPool.TryDequeue(out send)) send.Release();
        _poolRestsUntilMs = 0;
    }
}
