namespace Whimbrel.Http.Parsing;

/// <summary>How large what is read may become.</summary>
/// <param name="StartLineBytes">The start line, without its end.</param>
/// <param name="HeadBytes">Everything up to the empty line and with it. Trailers have as much for themselves.</param>
/// <param name="Fields">Fields of the head, and those of the trailers.</param>
/// <param name="BodyBytes">The body, without what chunks need.</param>
/// <param name="RequireHost">Whether a request of HTTP/1.1 without Host breaks a rule.</param>
/// <param name="IsLenient">A response may have the few irregular forms that the RFCs let a client take. Requests are always read strictly.</param>
internal readonly record struct HttpReaderLimits(int StartLineBytes, int HeadBytes, int Fields, long BodyBytes, bool RequireHost = true, bool IsLenient = false)
{
    internal static HttpReaderLimits Default { get; } = new(8 * 1024, 16 * 1024, 100, 30_000_000);
}
