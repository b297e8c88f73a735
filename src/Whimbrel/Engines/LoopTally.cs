namespace Whimbrel.Engines;

/// <summary>What one loop has done. Written by its thread only; readers elsewhere see a value that was true a moment ago.</summary>
internal sealed class LoopTally
{
    internal long Turns;

    /// <summary>Turns whose wait brought no completion.</summary>
    internal long EmptyTurns;

    internal long Completions;
    internal long BytesReceived;
    internal long Receives;
    internal long BytesSent;
    internal long Sends;

    /// <summary>What strands have sent themselves, besides. Any thread, by Interlocked.</summary>
    internal long BytesSentOfStrands;
    internal long SendsOfStrands;
    internal long ConnectionsOpened;
    internal long ConnectionsClosed;
    internal long BlockedTurns;
    internal long AcceptErrors;
    internal long AcceptsShed;
    internal long StaleCompletions;

    /// <summary>Receives that found no buffer and waited for one.</summary>
    internal long ReceivesParked;
}
