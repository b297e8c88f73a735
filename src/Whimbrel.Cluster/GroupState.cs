using System.Text;

namespace Whimbrel.Clusters;

/// <summary>
/// A group on this node: its members here, what was published to it (under the outbox's gate), and what is known of other nodes that publish
/// to it (on the node's loop).
/// </summary>
internal sealed class GroupState : SessionGroup
{
    // Of one group. Nodes that were restarted leave an entry each; beyond this the one heard longest ago goes.
    private const int MostPublishers = 256;

    private const long Forgotten = long.MinValue;

    private readonly Cluster _cluster;
    private Publisher[] _publishers = []; // who was heard last is the first; no dictionary, which has 200 bytes for each group
    private int _publisherCount;
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

    /// <summary>Under the outbox's gate: the sequence of the last broadcast.</summary>
    internal ulong Sequence { get; set; }

    /// <summary>Under the outbox's gate: so many marks are still to be published.</summary>
    internal int MarksLeft { get; set; }

    /// <summary>Under the outbox's gate: so many envelopes of it wait there.</summary>
    internal int Waiting { get; set; }

    /// <summary>Under the outbox's gate: an envelope that waits there, and takes what is broadcast next.</summary>
    internal Outgoing? Open { get; set; }

    /// <summary>Somebody joins or publishes. Any thread. False when it was forgotten: another one has its name, or gets it.</summary>
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

    // The rest on the node's loop.

    internal bool IsForgotten => Volatile.Read(ref _usedAtMs) == Forgotten;

    internal bool IsUsedSince(long thenMs) => Volatile.Read(ref _usedAtMs) >= thenMs;

    /// <summary>From here on nobody uses it, unless somebody has since then.</summary>
    internal bool TryForget(long unusedSinceMs)
    {
        long usedAtMs = Volatile.Read(ref _usedAtMs);
        return usedAtMs < unusedSinceMs && usedAtMs != Forgotten && Interlocked.CompareExchange(ref _usedAtMs, Forgotten, usedAtMs) == usedAtMs;
    }

    internal bool IsSubscribed { get; set; }

    /// <summary>When a subscription without members ends; with them, never.</summary>
    internal long UnsubscribeAtMs { get; set; } = long.MaxValue;

    /// <summary>From then on a node that is not known has published nothing before what it says.</summary>
    internal long SettledAtMs { get; set; } = long.MaxValue;

    /// <summary>The broker has the subscription, or had it: what is published from then on is ours.</summary>
    internal bool IsConfirmed { get; set; }

    /// <summary>Members here, as the other nodes were told last.</summary>
    internal int ToldCount { get; set; }

    internal void ForgetPublishers()
    {
        (_publishers, _publisherCount) = ([], 0);
        SettledAtMs = long.MaxValue;
        IsConfirmed = false;
    }

    /// <summary>The question what was before goes out behind a subscription. Answers that come within the interval are believed, unless it was subscribed before: then what was lost meanwhile is told.</summary>
    internal void Asked(long nowMs, long intervalMs)
    {
        if (SettledAtMs > nowMs) SettledAtMs = IsConfirmed ? nowMs : nowMs + intervalMs;
    }

    /// <summary>Takes note of what another node says.</summary>
    /// <param name="envelope">Broadcasts or a mark.</param>
    /// <param name="isAnswer">A mark that answers this node's question.</param>
    /// <param name="nowMs">The loop's time.</param>
    /// <param name="node">Who says it.</param>
    /// <param name="missed">How many are known to be lost now.</param>
    /// <returns>How many broadcasts in it are new: the last ones.</returns>
    internal int Hear(in Envelope envelope, bool isAnswer, long nowMs, out string node, out long missed)
    {
        bool isSettled = nowMs >= SettledAtMs;
        IsConfirmed = true;
        int at = 0;
        while (at < _publisherCount && _publishers[at].Instance != envelope.Instance) at++;
        Publisher known;
        if (at < _publisherCount)
        {
            known = _publishers[at];
        }
        else
        {
            // While a subscription is fresh, what was before may not be ours.
            // What is published again to a fresh subscription was said before it, all of it.
            ulong before = isSettled ? 0 : envelope.IsRepeated ? envelope.Sequence + (ulong)envelope.Count - 1 : envelope.Sequence - (envelope.Count == 0 ? 0ul : 1ul);
            known = new Publisher(envelope.Instance, _cluster.NameOf(envelope), envelope.Epoch, before) { Unproven = (long)before };
            if (_publisherCount == MostPublishers) at--;
            else if (_publisherCount++ == _publishers.Length) Array.Resize(ref _publishers, Math.Max(2, 2 * _publishers.Length));
        }

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
