using System.Text;

namespace Whimbrel.Clusters;

/// <summary>
/// State of a group on this node: local members, published sequences (under the outbox's gate), and known publishers on
/// other nodes (on the node's loop).
/// </summary>
internal sealed class GroupState : SessionGroup
{
    // Per group. Restarted nodes leave an entry each; above this limit the least recently seen publisher is removed.
    private const int MostPublishers = 256;

    private const long Forgotten = long.MinValue;

    private readonly Cluster _cluster;
    private Publisher[] _publishers = []; // most recent first; no dictionary, which takes 200 bytes per group
    private int _publisherCount;
    private int _currentCount; // publishers of this subscription, in front
    private long _usedAtMs; // any thread

    internal GroupState(Cluster cluster, string name, uint epoch, long nowMs)
        : base(name)
    {
        _cluster = cluster;
        _usedAtMs = nowMs;
        NameBytes = Encoding.UTF8.GetBytes(name);
        Subject = Subjects.OfGroup(cluster.Application, name);
        Epoch = epoch;
    }

    internal byte[] NameBytes { get; }

    internal string Subject { get; }

    internal uint Epoch { get; }

    /// <summary>Sequence of the last broadcast. Under the outbox's gate.</summary>
    internal ulong Sequence { get; set; }

    /// <summary>Number of marks still to be published. Under the outbox's gate.</summary>
    internal int MarksLeft { get; set; }

    /// <summary>Number of queued envelopes. Under the outbox's gate.</summary>
    internal int Waiting { get; set; }

    /// <summary>Queued envelope to which the next broadcast is appended, or null. Under the outbox's gate.</summary>
    internal Outgoing? Open { get; set; }

    /// <summary>
    /// Marks the group as used, for a join or broadcast. Any thread. Returns false if it was forgotten: a new state
    /// must be created for the name.
    /// </summary>
    internal bool TryUse(long nowMs)
    {
        long before = Volatile.Read(ref _usedAtMs);
        while (before != Forgotten)
        {
            if (before >= nowMs) return true;
            long seen = Interlocked.CompareExchange(ref _usedAtMs, nowMs, before);
            if (seen == before) return true;
            before = seen;
        }

        return false;
    }

    // The members below are used on the node's loop.

    internal bool IsForgotten => Volatile.Read(ref _usedAtMs) == Forgotten;

    internal bool IsUsedSince(long thenMs) => Volatile.Read(ref _usedAtMs) >= thenMs;

    /// <summary>Marks the group as forgotten, unless it was used since that time.</summary>
    internal bool TryForget(long unusedSinceMs)
    {
        long usedAtMs = Volatile.Read(ref _usedAtMs);
        return usedAtMs < unusedSinceMs && usedAtMs != Forgotten
            && Interlocked.CompareExchange(ref _usedAtMs, Forgotten, usedAtMs) == usedAtMs;
    }

    internal bool IsSubscribed { get; set; }

    /// <summary>Time at which a subscription without members ends; <see cref="long.MaxValue"/> with members.</summary>
    internal long UnsubscribeAtMs { get; set; } = long.MaxValue;

    /// <summary>Time from which the earlier broadcasts of an unknown node count as missed.</summary>
    internal long SettledAtMs { get; set; } = long.MaxValue;

    /// <summary>Whether the broker has or had the subscription: later broadcasts are expected.</summary>
    internal bool IsConfirmed { get; set; }

    /// <summary>Number of local members that was last published to the other nodes.</summary>
    internal int ToldCount { get; set; }

    /// <summary>
    /// Ends a subscription. The last sequences of the publishers stay, so that a broadcast that one of them repeats
    /// after an outage does not arrive a second time if the group is subscribed again.
    /// </summary>
    internal void EndSubscription()
    {
        _currentCount = 0;
        SettledAtMs = long.MaxValue;
        IsConfirmed = false;
    }

    /// <summary>
    /// Notes that the question about earlier broadcasts was queued after a subscription. Answers within the interval
    /// set the starting point. After an earlier subscription there is no such interval, so that losses in between are
    /// reported.
    /// </summary>
    internal void Asked(long nowMs, long intervalMs)
    {
        if (SettledAtMs > nowMs) SettledAtMs = IsConfirmed ? nowMs : nowMs + intervalMs;
    }

    /// <summary>Processes broadcasts or a mark of another node.</summary>
    /// <param name="envelope">Broadcasts or a mark.</param>
    /// <param name="isAnswer">Whether the mark answers this node's question.</param>
    /// <param name="nowMs">Time of the loop.</param>
    /// <param name="node">Name of the publishing node.</param>
    /// <param name="missed">Number of newly detected losses.</param>
    /// <returns>Number of new broadcasts, which are the last ones in the envelope.</returns>
    internal int Hear(in Envelope envelope, bool isAnswer, long nowMs, out string node, out long missed)
    {
        bool isSettled = nowMs >= SettledAtMs;
        IsConfirmed = true;
        int at = 0;
        while (at < _publisherCount && _publishers[at].Instance != envelope.Instance) at++;
        Publisher known = at < _publisherCount
            ? _publishers[at]
            : new Publisher(envelope.Instance, _cluster.NameOf(envelope), envelope.Epoch, 0);
        if (at >= _currentCount && envelope.Epoch >= known.Epoch)
        {
            // For a new subscription earlier broadcasts are not expected. All repeated broadcasts are earlier than a
            // new subscription.
            ulong received = envelope.Epoch == known.Epoch ? known.Last : 0;
            ulong before = isSettled ? 0 : envelope.IsRepeated ? envelope.Sequence + (ulong)envelope.Count - 1
                : envelope.Sequence - (envelope.Count == 0 ? 0ul : 1ul);
            before = Math.Max(before, received);
            known = new Publisher(envelope.Instance, known.Node, envelope.Epoch, before)
            {
                Unproven = (long)(before - received)
            };
        }

        if (at == MostPublishers) at--;
        else if (at == _publisherCount && _publisherCount++ == _publishers.Length)
            Array.Resize(ref _publishers, Math.Max(2, 2 * _publishers.Length));
        if (at >= _currentCount) _currentCount++;
        if (at > 0) Array.Copy(_publishers, 0, _publishers, 1, at);
        _publishers[0] = known;
        ref Publisher publisher = ref _publishers[0];
        node = publisher.Node;
        int fresh = publisher.Hear(envelope.Epoch, envelope.Sequence, envelope.Count, out missed);
        if (isSettled) missed += publisher.Unproven;
        if (isSettled || isAnswer) publisher.Unproven = 0;
        return fresh;
    }

    protected override void OnOccupiedChanged(bool isOccupied) => _cluster.Occupied(this);
}
