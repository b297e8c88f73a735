namespace Whimbrel.Connections;

/// <summary>What is broadcast: the same bytes for all, a form for each class of members one behind the other, or shared bytes.</summary>
internal readonly ref struct BroadcastData
{
    /// <param name="bytes">All of them.</param>
    /// <param name="forms">The length of each class's form. Empty: one for all.</param>
    internal BroadcastData(ReadOnlySpan<byte> bytes, ReadOnlySpan<int> forms = default)
    {
        Bytes = bytes;
        Forms = forms;
        Length = bytes.Length;
    }

    /// <summary>A part of shared bytes, queued without a copy: they are not looked at, for they may be the user's memory.</summary>
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
