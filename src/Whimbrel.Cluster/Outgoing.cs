namespace Whimbrel.Clusters;

/// <summary>
/// An envelope queued for the bus, in a buffer of the shared pool. Further broadcasts to the same group are appended
/// while it is queued. Owned by the outbox under its gate, then by the loop.
/// </summary>
internal sealed class Outgoing(string subject, GroupState? group, byte[] buffer, int length)
{
    private List<long>? _since;

    internal string Subject { get; } = subject;

    /// <summary>Group of the broadcasts, mark or question, or null.</summary>
    internal GroupState? Group { get; } = group;

    internal byte[] Buffer { get; set; } = buffer;

    internal int Length { get; set; } = length;

    /// <summary>Sequence of the first broadcast.</summary>
    internal ulong Sequence { get; set; }

    /// <summary>Number of broadcasts: 0 for marks, questions and presence.</summary>
    internal int Count { get; set; }

    /// <summary>
    /// Whether it keeps its position among broadcasts, as a mark does, which counts those before it. Announcements and
    /// questions overtake them.
    /// </summary>
    internal bool IsOrdered { get; init; }

    /// <summary>Whether it announces the node.</summary>
    internal bool IsAnnouncement { get; init; }

    /// <summary>Time at which the bus accepted it.</summary>
    internal long SentAtMs { get; set; }

    /// <summary>Whether its broadcasts were published before.</summary>
    internal bool IsRepeated { get; set; }

    /// <summary>Position in the order of all queued envelopes.</summary>
    internal long Place { get; set; }

    /// <summary>
    /// Start times of the broadcasts by <see cref="ClusterMetrics.Now"/>, if a listener of the meter measures them.
    /// </summary>
    internal IReadOnlyList<long> Since => _since ?? (IReadOnlyList<long>)[];

    internal Memory<byte> Bytes => Buffer.AsMemory(0, Length);

    /// <summary>Adds the start time of a broadcast; zero is ignored.</summary>
    internal void NoteSince(long since)
    {
        if (since != 0) (_since ??= []).Add(since);
    }
}
