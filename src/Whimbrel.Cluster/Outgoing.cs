namespace Whimbrel.Clusters;

/// <summary>
/// An envelope on its way to the bus, in a buffer of the shared pool. One of broadcasts grows while it waits: what is broadcast to the same group meanwhile goes with it.
/// Whoever has it owns it: the outbox under its gate, then the loop.
/// </summary>
internal sealed class Outgoing(string subject, GroupState? group, byte[] buffer, int length)
{
    private List<long>? _since;

    internal string Subject { get; } = subject;

    /// <summary>The group whose broadcasts or mark it has, or that it asks about.</summary>
    internal GroupState? Group { get; } = group;

    internal byte[] Buffer { get; set; } = buffer;

    internal int Length { get; set; } = length;

    /// <summary>Of the first broadcast in it.</summary>
    internal ulong Sequence { get; set; }

    /// <summary>How many broadcasts are in it: none in a mark, a question or a word about presence.</summary>
    internal int Count { get; set; }

    /// <summary>
    /// Its place among broadcasts matters: it is one, or a mark, which counts those before it. What a node says of itself, and its questions, overtake them.
    /// </summary>
    internal bool IsOrdered { get; init; }

    /// <summary>Time at which the bus took it.</summary>
    internal long SentAtMs { get; set; }

    /// <summary>Its broadcasts were given to the bus before, and are published once more.</summary>
    internal bool IsRepeated { get; set; }

    /// <summary>In the order of all that waits.</summary>
    internal long Place { get; set; }

    /// <summary>When they were broadcast, by <see cref="ClusterMetrics.Now"/>, as far as a listener of the meter wants to know.</summary>
    internal IReadOnlyList<long> Since => _since ?? (IReadOnlyList<long>)[];

    internal Memory<byte> Bytes => Buffer.AsMemory(0, Length);

    /// <summary>When one of them was broadcast; zero says that nobody wants to know.</summary>
    internal void NoteSince(long since)
    {
        if (since != 0) (_since ??= []).Add(since);
    }
}
