namespace Whimbrel.Clusters;

/// <summary>What became of a request.</summary>
internal enum NatsAnswer
{
    /// <summary>It was answered.</summary>
    Said,

    /// <summary>It was answered with the status 404.</summary>
    NotFound,

    /// <summary>Nobody is there who could answer.</summary>
    Nobody,

    /// <summary>It was answered with another status.</summary>
    Refused,

    /// <summary>The server was lost, or did not answer in time.</summary>
    None,
}
