namespace Whimbrel.Connections;

/// <summary>
/// Data of a broadcast: the same bytes for all members, one form after the other for each class of members, or shared
/// bytes.
/// </summary>
internal readonly ref struct BroadcastData
{
    /// <param name="bytes">The bytes of all forms.</param>
    /// <param name="forms">Length of each class's form. Empty: one form for all.</param>
    internal BroadcastData(ReadOnlySpan<byte> bytes, ReadOnlySpan<int> forms = default)
    {
        Bytes = bytes;
        Forms = forms;
        Length = bytes.Length;
    }

    /// <summary>
    /// Creates a broadcast of a part of shared bytes, which is queued without a copy. The bytes are not read, because
    /// they may be the user's memory.
    /// </summary>
    internal BroadcastData(SharedBytes shared, int offset, int length)
    {
        Shared = shared;
        Offset = offset;
        Length = length;
    }

    internal ReadOnlySpan<byte> Bytes { get; }

    internal ReadOnlySpan<int> Forms { get; }

    internal SharedBytes? Shared { get; }

    internal int Offset { get; }

    internal int Length { get; }
}
