namespace Whimbrel.Clusters;

/// <summary>Broadcasts of a node to a group that members here did not get.</summary>
/// <param name="Node">Who published. This node's own id: they did not get as far as the broker.</param>
/// <param name="Group">The group.</param>
/// <param name="Missed">How many. Never too few; more than there were when the publisher could not be asked as the group was subscribed.</param>
public readonly record struct ClusterGap(string Node, string Group, long Missed);
