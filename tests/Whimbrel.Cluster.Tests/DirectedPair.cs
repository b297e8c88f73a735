using Whimbrel.Clusters;

namespace Whimbrel.Tests;

// Messages of one node to a group with its only member on another node: "ab1 ", "ab2 " from node a to node b.
internal sealed class DirectedPair
{
    private readonly RealNode _to;
    private readonly RealMember _member;
    private readonly ClusterGroup _group;

    internal DirectedPair(RealNode from, RealNode to)
    {
        (_to, _member) = (to, to.Members[0]);
        Name = $"{from.Name}{to.Name}";
        _group = from.Cluster.Group(Name);
        to.Cluster.Group(Name).Join(_member.Session);
    }

    internal string Name { get; }

    internal int Said { get; private set; }

    internal int HeardCount => _member.HeardCount(Name);

    // Each message at most once, and none before an earlier one.
    internal bool IsInOrder => _member.Heard(Name) is var heard && heard.SequenceEqual(heard.Distinct().Order());

    // Number of messages that the node of the member reported as lost.
    internal long Reported => _to.ReportedIn(Name);

    internal void Say() => Assert.Equal(SendResult.Queued, _group.Broadcast($"{Name}{++Said} "));

    public override string ToString() => $"{Name} {HeardCount} of {Said} ({Reported} reported)";
}
