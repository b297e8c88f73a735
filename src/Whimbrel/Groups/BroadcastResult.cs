namespace Whimbrel;

/// <summary>Result of an awaited broadcast.</summary>
/// <param name="Queued">Number of members that queued it.</param>
/// <param name="Skipped">Number of members that did not receive it: closing, at their limit, or with a shut
/// gate.</param>
/// <param name="Result"><see cref="SendResult.Queued"/> if all loops accepted it; <see cref="SendResult.Full"/> if the
/// time passed before there was space, and no loop accepted it.</param>
public readonly record struct BroadcastResult(int Queued, int Skipped, SendResult Result = SendResult.Queued);
