namespace Whimbrel;

/// <summary>
/// What one <see cref="Loop"/> has and has done, over stops and starts of its engine. Each number was true a moment ago, and they need not belong to the same moment.
/// </summary>
/// <param name="Connections">Connections that live on it now, those that begin or end included.</param>
/// <param name="Turns">Its turns: each ends a wait and delivers what came.</param>
/// <param name="EmptyTurns">Turns of these in which the system reported nothing.</param>
/// <param name="BlockedTurns">Turns that a callback held up for longer than <see cref="EngineOptions.BlockedLoopMs"/>.</param>
/// <param name="Completions">What the system reported: readiness of a descriptor, or an operation that completed.</param>
/// <param name="Wakes">Waits that another thread has ended, because it posted something. Many of them beside few turns: work comes from other threads, a piece at a time.</param>
/// <param name="Receives">Receives that brought bytes.</param>
/// <param name="BytesReceived">Bytes received.</param>
/// <param name="ReceivesParked">Receives that found no buffer and waited for one (io_uring). Many: see <see cref="EngineOptions"/>.</param>
/// <param name="Sends">Sends that the system was asked for; one takes what many calls of Send have queued.</param>
/// <param name="BytesSent">Bytes given to the system.</param>
/// <param name="Timers">Timers that run now, those of time limits included.</param>
public readonly record struct LoopCounters(
    int Connections,
    long Turns,
    long EmptyTurns,
    long BlockedTurns,
    long Completions,
    long Wakes,
    long Receives,
    long BytesReceived,
    long ReceivesParked,
    long Sends,
    long BytesSent,
    int Timers);
