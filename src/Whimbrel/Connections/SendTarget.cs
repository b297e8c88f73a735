namespace Whimbrel.Connections;

/// <summary>A connection that a message goes to, with the tenant that its sender meant.</summary>
internal readonly record struct SendTarget(Connection Connection, uint Generation);
