namespace Whimbrel;

/// <summary>
/// What happens when a connection's send queue is at its limit (<see cref="ConnectionOptions.SendLimitBytes"/>). A
/// message that is larger than the limit itself is no matter of the peer's: under each policy
/// <c>Send</c> throws, a broadcast skips the member and counts it, and <c>SendAsync</c> sends it in parts.
/// </summary>
public enum SlowConsumer
{
    /// <summary>The connection is aborted with <see cref="CloseCause.SlowConsumer"/>. The default: memory stays bounded and the others are not kept waiting.</summary>
    Disconnect,

    /// <summary>The new message is not taken: <c>Send</c> gives <see cref="SendResult.Full"/>, a broadcast skips this member and counts it.</summary>
    DropNewest,

    /// <summary><c>SendAsync</c> waits for room; <c>Send</c> gives <see cref="SendResult.Full"/>, a broadcast skips this member and counts it.</summary>
    Wait,
}
