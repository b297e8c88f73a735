using Whimbrel.Diagnostics;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

/// <summary>Failure of a request.</summary>
public sealed class HttpClientException : IOException
{
    internal HttpClientException(HttpClientFailure failure, string message, Exception? inner = null)
        : base(Escaped.Of(message), inner) => Failure = failure;

    internal HttpClientException(HttpRule rule, string from)
        : this(FailureOf(rule), $"The answer of {from} is not taken. {HttpRules.TextOf(rule)}.")
    {
    }

    /// <summary>Kind of failure.</summary>
    public HttpClientFailure Failure { get; }

    /// <summary>Whether the server's response broke a rule of HTTP or a limit.</summary>
    internal bool IsPeers => Failure is HttpClientFailure.Protocol or HttpClientFailure.TooLarge;

    private static HttpClientFailure FailureOf(HttpRule rule) => rule switch
    {
        HttpRule.Truncated => HttpClientFailure.BodyCut,
        HttpRule.HeadTooLarge or HttpRule.LineTooLong or HttpRule.TooManyFields or HttpRule.BodyTooLarge =>
            HttpClientFailure.TooLarge,
        _ => HttpClientFailure.Protocol,
    };

    /// <summary>Converts a failed connect attempt of the core.</summary>
    internal static HttpClientException OfConnect(NetworkException failed) => new(
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

    /// <summary>Converts the end of a connection with a pending response.</summary>
    /// <param name="reason">Reason of the end.</param>
    /// <param name="isInBody">Whether the head was received.</param>
    /// <param name="from">Host and port of the server.</param>
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
        return new HttpClientException(failure, $"{what}: the connection to {from} ended ({reason}).",
            reason.Exception);
    }
}
