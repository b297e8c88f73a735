namespace Whimbrel.Clusters;

/// <summary>How a <see cref="RecoverableGroup"/> is kept and told.</summary>
public sealed class RecoverableOptions
{
    /// <summary>How much is kept. The same on each node.</summary>
    public HistoryLimits History { get; init; } = new();

    /// <summary>How members get a message and its position. On a loop; must not block. Required.</summary>
    public required HistoryDelivery Deliver { get; init; }

    /// <summary>
    /// Members here missed something: trimmed before this node had read it, or the stream was replaced. With the members, the position from which it goes on, and which of the two. Called before
    /// the next message, on a loop; must not block. They should be told to load their state anew. There may be none.
    /// </summary>
    public Action<SessionGroup, GroupPosition, ResumeOutcome>? OnBroken { get; init; }

    /// <summary>Most bytes of this node's broadcasts that wait for the broker: default 4 MiB. Above it broadcasts are refused.</summary>
    public int QueueLimitBytes { get; init; } = 4 << 20;

    internal void Check()
    {
        ArgumentNullException.ThrowIfNull(History);
        ArgumentNullException.ThrowIfNull(Deliver);
        History.Check();
        if (QueueLimitBytes < 1024) throw new ArgumentException($"{nameof(RecoverableOptions)}.{nameof(QueueLimitBytes)} has to be at least 1 KiB.", nameof(QueueLimitBytes));
    }
}
