namespace Whimbrel.Clusters;

/// <summary>Options of a <see cref="RecoverableGroup"/>.</summary>
public sealed class RecoverableOptions
{
    /// <summary>Limits of the history. Must be the same on each node.</summary>
    public HistoryLimits History { get; init; } = new();

    /// <summary>
    /// Delivery of a message and its position to the members. Called on a loop; must not block. Required.
    /// </summary>
    public required HistoryDelivery Deliver { get; init; }

    /// <summary>
    /// Called when local members missed messages: the history was trimmed before this node read it, or the stream was
    /// replaced. Arguments: the members (perhaps none), the position before the next message, and
    /// <see cref="ResumeOutcome.Trimmed"/> or <see cref="ResumeOutcome.Replaced"/>. The clients should load their state
    /// again. Called before the next message, on a loop; must not block.
    /// </summary>
    public Action<SessionGroup, GroupPosition, ResumeOutcome>? OnBroken { get; init; }

    /// <summary>
    /// Maximum bytes of this node's broadcasts queued for the broker: default 4 MiB, at least 1 KiB. Above it
    /// broadcasts return <see cref="SendResult.Full"/>.
    /// </summary>
    public int QueueLimitBytes { get; init; } = 4 << 20;

    internal void Check()
    {
        ArgumentNullException.ThrowIfNull(History);
        ArgumentNullException.ThrowIfNull(Deliver);
        History.Check();
        if (QueueLimitBytes < 1024)
            throw new ArgumentException(
                $"{nameof(RecoverableOptions)}.{nameof(QueueLimitBytes)} has to be at least 1 KiB.",
                nameof(QueueLimitBytes));
    }
}
