namespace Whimbrel.Engines;

/// <summary>
/// Counters of one loop. Written by its thread only; other threads may read slightly outdated values.
/// </summary>
internal sealed class LoopTally
{
    internal long Turns;

    /// <summary>Number of turns with a wait that delivered no completion.</summary>
    internal long EmptyTurns;

    internal long Completions;
    internal long BytesReceived;
    internal long Receives;
    internal long BytesSent;
    internal long Sends;

    /// <summary>Bytes and sends of strands on their own threads, in addition. Any thread, by Interlocked.</summary>
    internal long BytesSentOfStrands;
    internal long SendsOfStrands;
    internal long ConnectionsOpened;
    internal long ConnectionsClosed;
    internal long BlockedTurns;
    internal long AcceptErrors;
    internal long AcceptsShed;
    internal long StaleCompletions;

    /// <summary>Number of receives that found no buffer and waited for one.</summary>
    internal long ReceivesParked;

    /// <summary>
    /// Size of the engine's native memory: receive buffers, batches of datagrams, and the queues of a ring.
    /// </summary>
    internal long EngineBytes;
}
