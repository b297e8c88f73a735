namespace Whimbrel.Clusters;

/// <summary>
/// A bus inside the process: for a single node, for several servers in one process, and for tests, which can lose,
/// duplicate and delay envelopes and disconnect nodes. Thread-safe.
/// </summary>
public sealed class MemoryBus
{
    private const int MostHistories = 65_536;

    private readonly Lock _gate = new();
    private readonly List<MemoryBusLink> _links = [];
    private readonly Dictionary<string, MemoryHistory> _histories = new(StringComparer.Ordinal);
    private readonly Random _random;

    /// <summary>Creates a bus without faults.</summary>
    /// <param name="seed">Seed of the random faults.</param>
    public MemoryBus(int seed = 1) => _random = new Random(seed);

    /// <summary>Fraction of envelopes that are lost, per receiving node, 0 (the default) to 1.</summary>
    public double Loss { get; set; }

    /// <summary>Fraction of envelopes that are delivered twice, per receiving node, 0 (the default) to 1.</summary>
    public double Doubled { get; set; }

    /// <summary>Maximum random delay of an envelope to a node. The order is kept. Default zero.</summary>
    public TimeSpan MaxDelay { get; set; }

    /// <summary>Creates the bus connection of one node.</summary>
    public MemoryBusLink Connect()
    {
        MemoryBusLink link = new(this);
        lock (_gate) _links.Add(link);
        return link;
    }

    internal void Remove(MemoryBusLink link)
    {
        lock (_gate) _links.Remove(link);
    }

    internal void Publish(ReadOnlySpan<BusMessage> messages, int part)
    {
        lock (_gate)
        {
            foreach (BusMessage message in messages)
            {
                byte[]? copy = null;
                foreach (MemoryBusLink link in _links)
                {
                    if (link.Part != part || !link.Wants(message.Subject) || Strikes(Loss)) continue;
                    copy ??= message.Envelope.ToArray();
                    for (int times = Strikes(Doubled) ? 2 : 1; times > 0; times--) link.Bring(copy, Delay());
                }
            }
        }
    }

    /// <summary>Reads a stream. Returns null if there are too many streams.</summary>
    internal HistoryPage? Read(string subject, HistoryLimits limits, ulong after, int most, long nowMs)
    {
        lock (_gate) return HistoryOf(subject)?.Read(after, most, limits, nowMs);
    }

    internal bool Append(string subject, HistoryLimits limits,
        IReadOnlyList<ReadOnlyMemory<byte>> envelopes, long nowMs)
    {
        lock (_gate)
        {
            if (HistoryOf(subject) is not { } history) return false;
            history.Append(envelopes, limits, nowMs);
            return true;
        }
    }

    /// <summary>
    /// Removes all histories, as after a new installation of the broker. Streams start again with new epochs.
    /// </summary>
    public void ForgetHistory()
    {
        lock (_gate) _histories.Clear();
    }

    private MemoryHistory? HistoryOf(string subject)
    {
        if (_histories.TryGetValue(subject, out MemoryHistory? history)) return history;
        if (_histories.Count >= MostHistories) return null;
        history = new MemoryHistory((ulong)_random.NextInt64(1, long.MaxValue));
        _histories.Add(subject, history);
        return history;
    }

    private bool Strikes(double part) => part > 0 && _random.NextDouble() < part;

    private long Delay() => MaxDelay <= TimeSpan.Zero ? 0 : _random.NextInt64((long)MaxDelay.TotalMilliseconds + 1);
}
