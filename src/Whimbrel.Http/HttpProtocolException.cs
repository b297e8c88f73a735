using Whimbrel.Diagnostics;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

/// <summary>A rule of HTTP or a limit was broken by the peer while its request was read. The connection ends.</summary>
public sealed class HttpProtocolException : IOException
{
    internal HttpProtocolException(HttpRule rule)
        : base($"{HttpRules.TextOf(rule)}.") => Status = HttpRules.StatusOf(rule);

    internal HttpProtocolException(int status, string message)
        : base(Escaped.Of(message)) => Status = status;

    /// <summary>Status that reports the error to the peer. Sent if nothing was sent before and the handler does not
    /// catch the exception.</summary>
    public int Status { get; }
}
