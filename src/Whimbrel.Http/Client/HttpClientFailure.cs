namespace Whimbrel.Http;

/// <summary>Why a request has no answer, or no whole one.</summary>
public enum HttpClientFailure
{
    /// <summary>The name of the host has no address.</summary>
    UnknownHost,

    /// <summary>Nobody listens there.</summary>
    Refused,

    /// <summary>The connection could not be made for another reason: no way there, no descriptor left.</summary>
    Unreachable,

    /// <summary>The connection was not made within <see cref="HttpClientOptions.ConnectTimeout"/>.</summary>
    ConnectTimeout,

    /// <summary>TLS failed, or the server's certificate was refused.</summary>
    Tls,

    /// <summary>No whole head of an answer within <see cref="HttpClientOptions.HeadTimeout"/>.</summary>
    HeadTimeout,

    /// <summary>The body came slower than <see cref="HttpClientOptions.MinBytesPerSecond"/>, or the server took nothing of ours for <see cref="HttpClientOptions.SendTimeout"/>.</summary>
    Stalled,

    /// <summary>All of it took longer than <see cref="HttpClientOptions.RequestTimeout"/>.</summary>
    RequestTimeout,

    /// <summary>The connection ended before there was a head: it is not known whether the request was carried out.</summary>
    ConnectionLost,

    /// <summary>The connection ended in the middle of the body.</summary>
    BodyCut,

    /// <summary>The server broke a rule of HTTP.</summary>
    Protocol,

    /// <summary>The head or the body is larger than its limit.</summary>
    TooLarge,

    /// <summary>The body cannot be decompressed, or becomes larger by it than <see cref="HttpClientOptions.DecompressionRatioLimit"/> lets it.</summary>
    Decompression,

    /// <summary>The body of the request could not be read, or has another length than was said.</summary>
    RequestBody,

    /// <summary>
    /// More requests wait for a connection than <see cref="HttpClientOptions.WaitingLimit"/>, or one has waited for
    /// <see cref="HttpClientOptions.WaitTimeout"/>. The message counts the responses that hold connections because they were not disposed.
    /// </summary>
    TooManyWaiting,

    /// <summary>This side has closed the connection, the pool or the engine.</summary>
    Closed,
}
