namespace Whimbrel;

/// <summary>What became of a broadcast that was awaited.</summary>
/// <param name="Queued">Members whose send queue took it.</param>
/// <param name="Skipped">Members that did not get it: closing, at their limit, or with a shut gate.</param>
public readonly record struct BroadcastResult(int Queued, int Skipped);
