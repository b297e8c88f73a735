namespace Whimbrel.Compat.Links;

/// <summary>Signature of SendAsync, used to find the class that implements it.</summary>
internal delegate bool SpanSend(ReadOnlySpan<byte> buffer);
