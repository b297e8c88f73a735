namespace Whimbrel;

/// <summary>
/// Limits of each connection of a server or client, and policies when they are reached. Immutable; part of
/// <see cref="ServerOptions.Limits"/> and <see cref="ClientOptions.Limits"/>.
/// </summary>
public class ConnectionLimits
{
    internal const int LeastSendBytes = 4096;
    internal const int MostSendBytes = 1 << 30;

    /// <summary>Maximum number of bytes in a connection's send queue. 4 KiB to 1 GiB; default 1 MiB.</summary>
    public int SendBytes { get; init; } = 1024 * 1024;

    /// <summary>
    /// Whether a message larger than <see cref="SendBytes"/> is accepted while nothing is pending. A connection then
    /// queues at most the limit or one message, whichever is larger. Default false: <c>Send</c> throws for such a
    /// message, <c>SendAsync</c> sends it in parts, and a broadcast skips the member. A session may override it
    /// (<see cref="Session.AllowLargeMessages"/>).
    /// </summary>
    public bool AllowLargeMessages { get; init; }

    /// <summary>
    /// Policy when <see cref="SendBytes"/> is reached. Default <see cref="SlowConsumer.Disconnect"/>.
    /// </summary>
    public SlowConsumer SlowConsumer { get; init; }

    /// <summary>
    /// Maximum number of bytes that a session may leave unconsumed. If it is reached and nothing is consumed, the
    /// connection is closed. 1 KiB to 1 GiB; default 1 MiB.
    /// </summary>
    public int UnreadBytes { get; init; } = 1024 * 1024;

    /// <summary>
    /// Whether a connection is not read while its own send queue is above the high-water mark (contract 9). Default
    /// null: on for accepted connections, off for outgoing ones.
    /// </summary>
    public bool? BackPressure { get; init; }

    internal virtual void Check(OptionErrors errors)
    {
        errors.Range("Limits.SendBytes", SendBytes, LeastSendBytes, MostSendBytes);
        errors.Range("Limits.UnreadBytes", UnreadBytes, 1024, 1 << 30);
        errors.Defined("Limits.SlowConsumer", SlowConsumer);
    }
}
