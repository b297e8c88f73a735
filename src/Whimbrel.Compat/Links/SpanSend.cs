namespace Whimbrel.Compat.Links;

/// <summary>The shape of SendAsync, to see which class has the one that is called.</summary>
internal delegate bool SpanSend(ReadOnlySpan<byte> buffer);
