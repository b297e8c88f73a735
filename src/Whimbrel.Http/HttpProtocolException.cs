using Whimbrel.Diagnostics;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

/// <summary>The peer broke a rule of HTTP, or a limit, while its body was read. The connection ends.</summary>
public sealed class HttpProtocolException : IOException
{
    internal HttpProtocolException(HttpRule rule)
        : base($"{HttpRules.TextOf(rule)}.") => Status = HttpRules.StatusOf(rule);

    internal HttpProtocolException(int status, string message)
        : base(Escaped.Of(message)) => Status = status;

    /// <summary>The status that says so to the peer. Given as answer when nothing was sent and the handler lets the exception pass.</summary>
    public int Status { get; }
}
