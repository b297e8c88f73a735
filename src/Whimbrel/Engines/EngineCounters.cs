namespace Whimbrel;

/// <summary>
/// Counters of an <see cref="Engine"/> over all its loops, since it was created. Each number may be slightly outdated.
/// </summary>
/// <param name="MailboxBytes">Number of bytes of cross-thread sends that the loops have not processed, plus 64 for each
/// send. At most <see cref="EngineOptions.MailboxLimitBytes"/>, except for one larger message and up to 32 KiB more for
/// each callback on the pool that uses Reserve.</param>
/// <param name="SendsRefused">Number of cross-thread sends and datagrams rejected with <see cref="SendResult.Full"/>
/// because of that limit only.</param>
/// <param name="BroadcastsRefused">Number of broadcasts rejected with <see cref="SendResult.Full"/> because a loop had
/// no space for them.</param>
/// <param name="Turns">Number of loop turns: each ends a wait and delivers what arrived.</param>
/// <param name="EmptyTurns">Number of turns in which the kernel reported nothing: a post or a timer ended the wait, or
/// the loop had work or spins.</param>
/// <param name="Completions">Number of events reported by the kernel: readiness of a descriptor, or a completed
/// operation. Few events per turn at full cpu load mean that a loop turns for nothing.</param>
public readonly record struct EngineCounters(long MailboxBytes, long SendsRefused, long BroadcastsRefused, long Turns,
    long EmptyTurns, long Completions);
