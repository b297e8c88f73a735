namespace Whimbrel.Http.Parsing;

/// <summary>Size limits of a reader.</summary>
/// <param name="StartLineBytes">Start line, without its line end.</param>
/// <param name="HeadBytes">Head, including the empty line. Trailers have the same limit of their own.</param>
/// <param name="Fields">Number of fields of head and trailers together.</param>
/// <param name="BodyBytes">Body, without the framing of chunks.</param>
/// <param name="RequireHost">Whether a request of HTTP/1.1 without Host breaks a rule.</param>
/// <param name="IsLenient">Whether a response may have the few irregular forms that the RFCs let a client accept.
/// Requests are always read strictly.</param>
internal readonly record struct HttpReaderLimits(int StartLineBytes, int HeadBytes, int Fields, long BodyBytes,
    bool RequireHost = true, bool IsLenient = false)
{
    internal static HttpReaderLimits Default { get; } = new(8 * 1024, 16 * 1024, 100, 30_000_000);
}
