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

    private readonly Cluster _cluster;
    private readonly Dictionary<ulong, Publisher> _publishers = [];
    private long _heard;

    internal GroupState(Cluster cluster, string name, uint epoch)
        : base(name)
    {
        _cluster = cluster;
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

    /// <summary>When somebody last joined or published; any thread.</summary>
    internal long UsedAtMs;

    // The rest on the node's loop.

    internal bool IsSubscribed { get; set; }

    /// <summary>When a subscription without members ends.</summary>
    internal long? UnsubscribeAtMs { get; set; }

    /// <summary>From then on a node that is not known has published nothing before what it says.</summary>
    internal long SettledAtMs { get; set; } = long.MaxValue;

    /// <summary>Members here, as the other nodes were told last.</summary>
    internal int ToldCount { get; set; }

    internal void ForgetPublishers()
    {
        _publishers.Clear();
        SettledAtMs = long.MaxValue;
    }

    /// <summary>Takes note of what another node says.</summary>
    internal bool Hear(in Envelope envelope, long nowMs, out string node, out long missed)
    {
        bool isMark = envelope.Kind == EnvelopeKind.Mark;
        if (!_publishers.TryGetValue(envelope.Instance, out Publisher? publisher))
        {
            if (_publishers.Count >= MostPublishers) _publishers.Remove(_publishers.MinBy(static p => p.Value.HeardAt).Key);
            // While a subscription is fresh, what was before is not ours.
            ulong before = nowMs >= SettledAtMs ? 0 : envelope.Sequence - (isMark ? 0ul : 1ul);
            publisher = new Publisher(Encoding.UTF8.GetString(envelope.Node), envelope.Epoch, before);
            _publishers.Add(envelope.Instance, publisher);
        }

        publisher.HeardAt = ++_heard;
        node = publisher.Node;
        return publisher.Hear(envelope.Epoch, envelope.Sequence, isMark, out missed);
    }

    protected override void OnOccupiedChanged(bool isOccupied) => _cluster.Occupied(this);
}
