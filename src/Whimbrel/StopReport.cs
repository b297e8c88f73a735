namespace Whimbrel;

/// <summary>What a stop did with the connections that were open when it began.</summary>
/// <param name="Drained">Ended gracefully: what was queued was sent.</param>
/// <param name="Aborted">Still open at the deadline, and reset.</param>
public readonly record struct StopReport(int Drained, int Aborted);
