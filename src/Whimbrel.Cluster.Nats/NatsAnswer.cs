namespace Whimbrel.Clusters;

/// <summary>Outcome of a request.</summary>
internal enum NatsAnswer
{
    /// <summary>There is an answer.</summary>
    Said,

    /// <summary>The answer has the status 404.</summary>
    NotFound,

    /// <summary>There are no responders (status 503).</summary>
    Nobody,

    /// <summary>The answer has another status.</summary>
    Refused,

    /// <summary>The server was lost, or did not answer in time.</summary>
    None,
}
