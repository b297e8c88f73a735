namespace Whimbrel.Clusters;

/// <summary>
/// A bus that keeps published envelopes, for <see cref="RecoverableGroup"/>. It has one stream per subject and assigns
/// offsets, from 1 without gaps. The epoch of a stream changes whenever it may have started again.
/// </summary>
/// <remarks>
/// Called on the loop of <see cref="IGroupBus.StartAsync"/>. The callback of an accepted request is called there once,
/// later, also if the broker is lost. While the broker is away nothing is accepted.
/// </remarks>
public interface IGroupHistory
{
    /// <summary>
    /// Appends envelopes in order; envelopes of other nodes may come between them. Above the limits the oldest entries
    /// are removed.
    /// </summary>
    /// <param name="subject">Subject, as in <see cref="BusMessage"/>.</param>
    /// <param name="limits">Limits, the same on all nodes; otherwise those of the last append are used.</param>
    /// <param name="envelopes">
    /// At least one envelope: together at most 1 MiB, or one of up to <see cref="IGroupBus.MaxEnvelopeBytes"/>. Valid
    /// until this returns.
    /// </param>
    /// <param name="done">
    /// Called with true if all entries were appended; with false if some or all failed, or if the outcome is unknown.
    /// </param>
    /// <returns>
    /// False if the request was not accepted, because the broker is away or the bus is full. <paramref name="done"/> is
    /// then not called.
    /// </returns>
    bool Append(string subject, HistoryLimits limits, IReadOnlyList<ReadOnlyMemory<byte>> envelopes, Action<bool> done);

    /// <summary>Reads entries after an offset. Creates the stream if it does not exist.</summary>
    /// <param name="subject">Subject as appended.</param>
    /// <param name="limits">Limits; entries beyond them are not returned.</param>
    /// <param name="after">Offset before the first entry to read.</param>
    /// <param name="most">Maximum number of entries. A bus may return fewer, but at least one if there is one.</param>
    /// <param name="done">Called with the entries, or with null if they could not be read.</param>
    /// <returns>False if the request was not accepted. <paramref name="done"/> is then not called.</returns>
    bool Read(string subject, HistoryLimits limits, ulong after, int most, Action<HistoryPage?> done);

    /// <summary>
    /// Reason why the connected broker keeps no history, as text for operators. Null (the default) if it does, or if
    /// this is not known yet.
    /// </summary>
    string? Unsupported => null;
}
