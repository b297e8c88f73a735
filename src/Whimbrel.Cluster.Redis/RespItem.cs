namespace Whimbrel.Clusters;

/// <summary>One RESP value, as a view of the received bytes.</summary>
internal readonly ref struct RespItem
{
    internal RespKind Kind { get; init; }

    /// <summary>
    /// Length in bytes, including attributes before it. If the value is too large, the length before the large element.
    /// </summary>
    internal int Length { get; init; }

    /// <summary>Incomplete: minimum number of bytes needed. Too large: number of bytes that follow.</summary>
    internal int More { get; init; }

    /// <summary>Number of direct elements; keys and values of a map count separately.</summary>
    internal int Count { get; init; }

    /// <summary>
    /// Text or bytes; for aggregates the bytes of their elements, for <see cref="RespReader.Next"/>; for malformed
    /// input its start.
    /// </summary>
    internal ReadOnlySpan<byte> Body { get; init; }

    internal bool Is(ReadOnlySpan<byte> text) => Kind is RespKind.Bulk or RespKind.Text && Body.SequenceEqual(text);
}
