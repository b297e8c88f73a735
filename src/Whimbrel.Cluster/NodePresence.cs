namespace Whimbrel.Clusters;

/// <summary>What is known of a group's members on one node.</summary>
/// <param name="Node">The node's id.</param>
/// <param name="Count">How many members it has there: now on this node, as last heard on others.</param>
public readonly record struct NodePresence(string Node, int Count);
