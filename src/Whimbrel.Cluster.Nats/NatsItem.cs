namespace Whimbrel.Clusters;

/// <summary>One thing that a server said, over the bytes it was read from.</summary>
internal readonly ref struct NatsItem
{
    internal NatsItemKind Kind { get; init; }

    /// <summary>How many bytes it had, from the start. For one that is too large those of its line.</summary>
    internal int Length { get; init; }

    /// <summary>Incomplete: how many bytes there have to be at least. Too large: how many follow the line.</summary>
    internal int More { get; init; }

    /// <summary>Which subscription the message is for.</summary>
    internal ulong Subscription { get; init; }

    /// <summary>What the message was published on.</summary>
    internal ReadOnlySpan<byte> Subject { get; init; }

    /// <summary>Payload of a message without its headers, JSON, text of an error; of what is malformed the line, or its beginning.</summary>
    internal ReadOnlySpan<byte> Body { get; init; }

    /// <summary>Headers of a message with their version line, or nothing.</summary>
    internal ReadOnlySpan<byte> Headers { get; init; }
}
