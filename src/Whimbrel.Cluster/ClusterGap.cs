namespace Whimbrel.Clusters;

/// <summary>Lost broadcasts of one node to one group.</summary>
/// <param name="Node">
/// Id of the publishing node. This node's own id: the broadcasts did not reach the broker, and remote members missed
/// them.
/// </param>
/// <param name="Group">Name of the group.</param>
/// <param name="Missed">
/// Number of broadcasts. Never too small; too large if the publisher did not answer when the group was subscribed.
/// </param>
public readonly record struct ClusterGap(string Node, string Group, long Missed);
