namespace Whimbrel.Http.Parsing;

/// <summary>Range of a body, inside it and not empty.</summary>
internal readonly record struct HttpRange(long Start, long Length);
