namespace Whimbrel.Http;

/// <summary>Reason why a request has no response, or no complete one.</summary>
public enum HttpClientFailure
{
    /// <summary>The name of the host has no address.</summary>
    UnknownHost,

    /// <summary>The host refused the connection: no socket listens at the address.</summary>
    Refused,

    /// <summary>The connection failed for another reason, such as no route or no free descriptor.</summary>
    Unreachable,

    /// <summary>The connection was not established within <see cref="HttpClientOptions.ConnectTimeout"/>.</summary>
    ConnectTimeout,

    /// <summary>TLS failed, or the server's certificate was rejected.</summary>
    Tls,

    /// <summary>The head of the response was not complete within <see cref="HttpClientOptions.HeadTimeout"/>.</summary>
    HeadTimeout,

    /// <summary>The body was slower than <see cref="HttpClientOptions.MinBytesPerSecond"/>, or the server read nothing
    /// of the request for <see cref="HttpClientOptions.SendTimeout"/>.</summary>
    Stalled,

    /// <summary>The whole request took longer than <see cref="HttpClientOptions.RequestTimeout"/>.</summary>
    RequestTimeout,

    /// <summary>The connection ended before the head of the response. The server may or may not have processed the
    /// request.</summary>
    ConnectionLost,

    /// <summary>The connection ended before the end of the body.</summary>
    BodyCut,

    /// <summary>The server broke a rule of HTTP.</summary>
    Protocol,

    /// <summary>The head or the body exceeds its limit.</summary>
    TooLarge,

    /// <summary>The body cannot be decompressed, or exceeds <see cref="HttpClientOptions.DecompressionRatioLimit"/>
    /// when decompressed.</summary>
    Decompression,

    /// <summary>The body of the request could not be read, or its length differs from the announced one.</summary>
    RequestBody,

    /// <summary>
    /// More than <see cref="HttpClientOptions.WaitingLimit"/> requests wait for a connection, or one has waited for
    /// <see cref="HttpClientOptions.WaitTimeout"/>. The message counts the responses that hold connections because they
    /// were not disposed.
    /// </summary>
    TooManyWaiting,

    /// <summary>This side has closed the connection, the pool or the engine.</summary>
    Closed,
}
