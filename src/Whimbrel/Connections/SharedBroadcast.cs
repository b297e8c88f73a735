namespace Whimbrel.Connections;

/// <summary>
/// A broadcast of shared bytes on its way to other loops: one object for all of them, and a reference to the bytes for
/// each.
/// </summary>
/// <param name="data">A part of shared bytes.</param>
/// <param name="extra">Session that does not get it, predicate, or operation of an awaited broadcast; or null.</param>
internal sealed class SharedBroadcast(in BroadcastData data, object? extra)
{
    internal SharedBytes Bytes { get; } = data.Shared!;

    internal int Offset { get; } = data.Offset;

    internal int Length { get; } = data.Length;

    internal object? Extra { get; } = extra;
}
