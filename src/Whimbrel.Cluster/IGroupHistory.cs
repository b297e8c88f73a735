namespace Whimbrel.Clusters;

/// <summary>
/// A bus that keeps what was published, for <see cref="RecoverableGroup"/>. It owns offsets and epochs: one stream for each subject, whose entries are numbered from 1 on without a hole, and
/// whose epoch is another one whenever it may have begun anew.
/// </summary>
/// <remarks>
/// Called on the loop of <see cref="IGroupBus.StartAsync"/>; what was accepted is answered there once, later, also when the broker is lost. Nothing is kept while it is away.
/// </remarks>
public interface IGroupHistory
{
    /// <summary>Appends envelopes in order; those of other nodes may come between. What is beyond the limits goes, oldest first.</summary>
    /// <param name="subject">As of <see cref="BusMessage"/>.</param>
    /// <param name="limits">The same from all nodes; else those of the last one hold.</param>
    /// <param name="envelopes">At least one; together at most 1 MiB, or one of up to <see cref="IGroupBus.MaxEnvelopeBytes"/>. Valid until this returns.</param>
    /// <param name="done">Told whether all of them are in the stream. False also when nobody knows, or some are.</param>
    /// <returns>False when it was not taken, and <paramref name="done"/> is not called: the broker is away, or the bus is full.</returns>
    bool Append(string subject, HistoryLimits limits, IReadOnlyList<ReadOnlyMemory<byte>> envelopes, Action<bool> done);

    /// <summary>Reads on. A stream that is not there is begun, empty.</summary>
    /// <param name="subject">As appended.</param>
    /// <param name="limits">What is older by them is not given.</param>
    /// <param name="after">The entries behind this offset.</param>
    /// <param name="most">So many entries at most; a bus may give fewer, but at least one where there is one.</param>
    /// <param name="done">Told what was read, or null when it could not be.</param>
    /// <returns>False when it was not taken, and <paramref name="done"/> is not called.</returns>
    bool Read(string subject, HistoryLimits limits, ulong after, int most, Action<HistoryPage?> done);

    /// <summary>Why the broker that is reached keeps no histories, for people; null (the default) when it does, or when that is not known yet.</summary>
    string? Unsupported => null;
}
