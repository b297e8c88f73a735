namespace Whimbrel.Clusters;

/// <summary>One protocol item of a server, as a view of the received bytes.</summary>
internal readonly ref struct NatsItem
{
    internal NatsItemKind Kind { get; init; }

    /// <summary>Length in bytes. If the item is too large, the length of its line.</summary>
    internal int Length { get; init; }

    /// <summary>Incomplete: minimum number of bytes needed. Too large: number of bytes after the line.</summary>
    internal int More { get; init; }

    /// <summary>Subscription of the message.</summary>
    internal ulong Subscription { get; init; }

    /// <summary>Subject of the message.</summary>
    internal ReadOnlySpan<byte> Subject { get; init; }

    /// <summary>
    /// Payload of a message without headers, JSON of an INFO, text of an error, or the start of a malformed line.
    /// </summary>
    internal ReadOnlySpan<byte> Body { get; init; }

    /// <summary>Headers of a message with their version line, or nothing.</summary>
    internal ReadOnlySpan<byte> Headers { get; init; }
}
