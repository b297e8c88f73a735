namespace Whimbrel;

/// <summary>What an <see cref="Engine"/> counts over all its loops, since it was made. Each number was true a moment ago.</summary>
/// <param name="MailboxBytes">
/// Bytes of sends of other threads that are on their way to the loops now, 64 more for each send, rounded up to what a loop takes at a time;
/// at most <see cref="EngineOptions.MailboxLimitBytes"/>, but for one larger message, and up to 64 KiB more for each callback that runs on the pool.
/// </param>
/// <param name="SendsRefused">Sends and datagrams of other threads refused with <see cref="SendResult.Full"/> because of that limit, and of nothing else.</param>
/// <param name="BroadcastsRefused">Broadcasts refused with <see cref="SendResult.Full"/> because a loop had no room for them.</param>
/// <param name="Turns">Turns of the loops: each ends a wait and delivers what came.</param>
/// <param name="EmptyTurns">Turns of these in which the system reported nothing: a post or a timer ended the wait, or nothing did because the loop had work or spins.</param>
/// <param name="Completions">What the system reported: readiness of a descriptor, or an operation that completed. Few in each turn and a cpu that is full means that a loop turns for nothing.</param>
public readonly record struct EngineCounters(long MailboxBytes, long SendsRefused, long BroadcastsRefused, long Turns, long EmptyTurns, long Completions);
