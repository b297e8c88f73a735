using Whimbrel.Diagnostics;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

/// <summary>A request failed, and why.</summary>
public sealed class HttpClientException : IOException
{
    internal HttpClientException(HttpClientFailure failure, string message, Exception? inner = null)
        : base(Escaped.Of(message), inner) => Failure = failure;

    internal HttpClientException(HttpRule rule, string from)
        : this(FailureOf(rule), $"The answer of {from} is not taken. {HttpRules.TextOf(rule)}.")
    {
    }

    /// <summary>What kind of failure it is.</summary>
    public HttpClientFailure Failure { get; }

    /// <summary>The server's bytes are not what HTTP, or a limit, lets them be.</summary>
    internal bool IsPeers => Failure is HttpClientFailure.Protocol or HttpClientFailure.TooLarge;

    private static HttpClientFailure FailureOf(HttpRule rule) => rule switch
    {
        HttpRule.Truncated => HttpClientFailure.BodyCut,
        HttpRule.HeadTooLarge or HttpRule.LineTooLong or HttpRule.TooManyFields or HttpRule.BodyTooLarge => HttpClientFailure.TooLarge,
        _ => HttpClientFailure.Protocol,
    };

    /// <summary>What the core said of a dial.</summary>
    internal static HttpClientException OfDial(NetworkException failed) => new(
        failed.InnerException is TlsException
            ? HttpClientFailure.Tls
            : failed.Error.Category switch
            {
                ErrorCategory.UnknownHost => HttpClientFailure.UnknownHost,
                ErrorCategory.Refused => HttpClientFailure.Refused,
                ErrorCategory.Timeout => HttpClientFailure.ConnectTimeout,
                ErrorCategory.Tls => HttpClientFailure.Tls,
                _ => HttpClientFailure.Unreachable,
            },
        failed.Message,
        failed);

    /// <summary>What ended a connection on which an answer was awaited.</summary>
    /// <param name="reason">Why it ended.</param>
    /// <param name="isInBody">The head has come.</param>
    /// <param name="from">Who was asked.</param>
    internal static HttpClientException OfEnd(CloseReason reason, bool isInBody, string from)
    {
        HttpClientFailure failure = reason.Cause switch
        {
            CloseCause.LocalClose or CloseCause.LocalAbort or CloseCause.EngineStopped => HttpClientFailure.Closed,
            CloseCause.SendTimeout => HttpClientFailure.Stalled,
            CloseCause.PhaseTimeout => isInBody ? HttpClientFailure.Stalled : HttpClientFailure.HeadTimeout,
            CloseCause.TlsBroken => HttpClientFailure.Tls,
            _ => isInBody ? HttpClientFailure.BodyCut : HttpClientFailure.ConnectionLost,
        };
        string what = isInBody ? "The answer was not finished" : "There was no answer";
        return new HttpClientException(failure, $"{what}: the connection to {from} ended ({reason}).", reason.Exception);
    }
}
