namespace Whimbrel.Connections;

/// <summary>
/// A broadcast of shared bytes on its way to other loops: one object for all of them, and a reference to the bytes for
/// each.
/// </summary>
/// <param name="Bytes">Shared bytes of the broadcast.</param>
/// <param name="Extra">Session that does not get it, predicate, or operation of an awaited broadcast; or null.</param>
internal sealed record SharedBroadcast(SharedBytes Bytes, object? Extra);
