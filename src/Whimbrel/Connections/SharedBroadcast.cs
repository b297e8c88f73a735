namespace Whimbrel.Connections;

/// <summary>A broadcast of shared bytes on its way to other loops: one object for all of them, and a loan for each.</summary>
/// <param name="Bytes">The bytes.</param>
/// <param name="Extra">The session that does not get it, a predicate, or the operation of somebody who waits; or null.</param>
internal sealed record SharedBroadcast(SharedBytes Bytes, object? Extra);
