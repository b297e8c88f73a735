namespace Whimbrel;

/// <summary>
/// Counters of one <see cref="Loop"/>, over stops and starts of its engine. Each number may be slightly outdated, and
/// they need not belong to the same moment.
/// </summary>
/// <param name="Connections">Number of its connections, including those that are starting or ending.</param>
/// <param name="Turns">Number of its turns: each ends a wait and delivers what arrived.</param>
/// <param name="EmptyTurns">Number of turns in which the kernel reported nothing.</param>
/// <param name="BlockedTurns">Number of turns that a callback blocked for longer than
/// <see cref="EngineOptions.BlockedLoopMs"/>.</param>
/// <param name="Completions">Number of events reported by the kernel: readiness of a descriptor, or a completed
/// operation.</param>
/// <param name="Wakes">Number of waits that another thread has ended by a post. Many with few turns: work arrives from
/// other threads, one item at a time.</param>
/// <param name="Receives">Number of receives that returned data.</param>
/// <param name="BytesReceived">Number of bytes received.</param>
/// <param name="ReceivesParked">Number of receives that found no buffer and waited for one (io_uring). If large, see
/// <see cref="EngineOptions"/>.</param>
/// <param name="Sends">Number of send operations of the kernel; one takes the data of many calls of Send.</param>
/// <param name="BytesSent">Number of bytes passed to the kernel.</param>
/// <param name="Timers">Number of running timers, including those of timeouts.</param>
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
