namespace Whimbrel.Connections;

/// <summary>
/// The part that awaited sends and files have of each turn of a loop (docs/design/0068). A connection that has had its part goes on in a later
/// turn, behind those that wait already. What is queued keeps its place: only the completion of the send waits, or the start of the next part of a
/// file. Loop's thread.
/// </summary>
internal sealed class SendPace(Engine engine)
{
    /// <summary>Bytes of awaited sends in a turn, and of parts of files: some milliseconds of work.</summary>
    internal const int MostOfTurn = 2 * 1024 * 1024;

    /// <summary>Of one connection in a turn.</summary>
    internal const int MostOfConnection = 256 * 1024;

    /// <summary>A connection that has sent no more than this in the turn does not wait for the others.</summary>
    internal const int FreeOfConnection = 32 * 1024;

    /// <summary>With more in the queue of the connection an awaited send does not complete: what a peer that does not read costs.</summary>
    internal const int MostPending = 128 * 1024;

    /// <summary>Of one run of a strand on a pool for which others wait.</summary>
    internal const int MostOfRun = 64 * 1024;

    /// <summary>With more work items in the queue of the thread pool only one sender goes on there each millisecond: new requests wait in the same queue.</summary>
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

    /// <summary>Something waits for the next turn, which may begin at once.</summary>
    internal bool Any => _waiting.Count > 0 || (_waitingForPool.Count > 0 && _poolRestsUntilMs == 0);

    /// <summary>When a sender on the pool may go on though the pool is busy; <see cref="long.MaxValue"/> if none waits for that.</summary>
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

    /// <summary>As many as this turn has a part for, each reckoned with what it sent last.</summary>
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
        // One in any case: it may be what a thread of the pool is blocked on.
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

    /// <summary>The loop ends: nothing waits any more.</summary>
    internal void End()
    {
        while (_waiting.TryDequeue(out PacedSend? send) || _waitingForPool.TryDequeue(out send)) send.Release();
        _poolRestsUntilMs = 0;
    }
}
