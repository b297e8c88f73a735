namespace Whimbrel.Schedules;

/// <summary>One execution for the <see cref="Explorer"/>.</summary>
/// <param name="Bodies">Threads, in the order of their numbers.</param>
/// <param name="AtRest">
/// Called when every thread has ended or idles. Returns true if it has given a thread something to do.
/// </param>
/// <param name="Check">Called when all threads have ended.</param>
internal sealed record Scenario(
    IReadOnlyList<(string Name, Action Body)> Bodies,
    Func<bool> AtRest,
    Action Check);
