namespace Whimbrel;

/// <summary>
/// Policy when a connection's send queue is at its limit (<see cref="ConnectionLimits.SendBytes"/>). Does not
/// apply to a message larger than the limit itself. Under each policy <c>Send</c> then throws, a broadcast skips the
/// member and counts it, and <c>SendAsync</c> sends the message in parts.
/// </summary>
public enum SlowConsumer
{
    /// <summary>
    /// The connection is aborted with <see cref="CloseCause.SlowConsumer"/>. The default: memory stays bounded and
    /// other connections do not wait.
    /// </summary>
    Disconnect,

    /// <summary>
    /// The new message is dropped: <c>Send</c> returns <see cref="SendResult.Full"/>, a broadcast skips this member and
    /// counts it.
    /// </summary>
    DropNewest,

    /// <summary>
    /// <c>SendAsync</c> waits for space; <c>Send</c> returns <see cref="SendResult.Full"/>, a broadcast skips this
    /// member and counts it.
    /// </summary>
    Wait,
}
