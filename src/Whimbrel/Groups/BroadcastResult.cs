namespace Whimbrel;

/// <summary>What became of a broadcast that was awaited.</summary>
/// <param name="Queued">Members whose send queue took it.</param>
/// <param name="Skipped">Members that did not get it: closing, at their limit, or with a shut gate.</param>
/// <param name="Result"><see cref="SendResult.Queued"/> when all loops took it, <see cref="SendResult.Full"/> when the time passed before there was room: then none did.</param>
public readonly record struct BroadcastResult(int Queued, int Skipped, SendResult Result = SendResult.Queued);
