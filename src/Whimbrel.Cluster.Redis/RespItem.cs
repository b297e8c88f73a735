namespace Whimbrel.Clusters;

/// <summary>One value that a server said, over the bytes it was read from.</summary>
internal readonly ref struct RespItem
{
    internal RespKind Kind { get; init; }

    /// <summary>How many bytes it had, from the start, with attributes before it. For one that is too large those before the large element.</summary>
    internal int Length { get; init; }

    /// <summary>Incomplete: how many bytes there have to be at least. Too large: how many follow.</summary>
    internal int More { get; init; }

    /// <summary>How many values are directly in it; a map's keys and values are counted both.</summary>
    internal int Count { get; init; }

    /// <summary>The text or bytes; of values in it all their bytes, for <see cref="RespReader.Next"/>; of what is malformed the beginning.</summary>
    internal ReadOnlySpan<byte> Body { get; init; }

    internal bool Is(ReadOnlySpan<byte> text) => Kind is RespKind.Bulk or RespKind.Text && Body.SequenceEqual(text);
}
