namespace Whimbrel.Tls;

/// <summary>What is known about the peer's certificate.</summary>
internal enum OpenSslVerdict : byte
{
    /// <summary>Nothing yet.</summary>
    Open,

    /// <summary>It is good.</summary>
    Accepted,

    /// <summary>It is not.</summary>
    Refused,
}
