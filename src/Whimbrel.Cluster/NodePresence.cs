namespace Whimbrel.Clusters;

/// <summary>Number of a group's members on one node.</summary>
/// <param name="Node">Id of the node.</param>
/// <param name="Count">Number of members: current for this node, as last reported for others.</param>
public readonly record struct NodePresence(string Node, int Count);
