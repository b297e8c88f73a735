namespace Whimbrel.Acme;

/// <summary>
/// An order failed: the authority rejected it, cannot be reached, or violates the protocol. The message has the request
/// and the authority's own words.
/// </summary>
public sealed class AcmeException : Exception
{
    internal AcmeException(string message, Exception? inner = null, string? problem = null, TimeSpan? retryAfter = null)
        : base(message, inner)
    {
        Problem = problem;
        RetryAfter = retryAfter;
    }

    /// <summary>
    /// Type of the authority's error, such as <c>urn:ietf:params:acme:error:rateLimited</c> (RFC 8555, 6.7); null if
    /// the error is none of the authority's.
    /// </summary>
    public string? Problem { get; }

    /// <summary>Time that the authority asked to wait before the next attempt, or null.</summary>
    public TimeSpan? RetryAfter { get; }
}
