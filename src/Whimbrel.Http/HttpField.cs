namespace Whimbrel.Http;

/// <summary>Fields that are found by number, without a comparison of names. All others are found by name.</summary>
public enum HttpField
{
    /// <summary>Any other field.</summary>
    Other,

    /// <summary>Accept.</summary>
    Accept,

    /// <summary>Accept-Charset.</summary>
    AcceptCharset,

    /// <summary>Accept-Encoding.</summary>
    AcceptEncoding,

    /// <summary>Accept-Language.</summary>
    AcceptLanguage,

    /// <summary>Accept-Ranges.</summary>
    AcceptRanges,

    /// <summary>Access-Control-Request-Headers.</summary>
    AccessControlRequestHeaders,

    /// <summary>Access-Control-Request-Method.</summary>
    AccessControlRequestMethod,

    /// <summary>Age.</summary>
    Age,

    /// <summary>Allow.</summary>
    Allow,

    /// <summary>Authorization.</summary>
    Authorization,

    /// <summary>Cache-Control.</summary>
    CacheControl,

    /// <summary>Connection.</summary>
    Connection,

    /// <summary>Content-Disposition.</summary>
    ContentDisposition,

    /// <summary>Content-Encoding.</summary>
    ContentEncoding,

    /// <summary>Content-Language.</summary>
    ContentLanguage,

    /// <summary>Content-Length.</summary>
    ContentLength,

    /// <summary>Content-Location.</summary>
    ContentLocation,

    /// <summary>Content-Range.</summary>
    ContentRange,

    /// <summary>Content-Type.</summary>
    ContentType,

    /// <summary>Cookie.</summary>
    Cookie,

    /// <summary>Date.</summary>
    Date,

    /// <summary>ETag.</summary>
    ETag,

    /// <summary>Expect.</summary>
    Expect,

    /// <summary>Expires.</summary>
    Expires,

    /// <summary>Forwarded.</summary>
    Forwarded,

    /// <summary>Host.</summary>
    Host,

    /// <summary>If-Match.</summary>
    IfMatch,

    /// <summary>If-Modified-Since.</summary>
    IfModifiedSince,

    /// <summary>If-None-Match.</summary>
    IfNoneMatch,

    /// <summary>If-Range.</summary>
    IfRange,

    /// <summary>If-Unmodified-Since.</summary>
    IfUnmodifiedSince,

    /// <summary>Keep-Alive.</summary>
    KeepAlive,

    /// <summary>Last-Modified.</summary>
    LastModified,

    /// <summary>Location.</summary>
    Location,

    /// <summary>Origin.</summary>
    Origin,

    /// <summary>Proxy-Authenticate.</summary>
    ProxyAuthenticate,

    /// <summary>Proxy-Authorization.</summary>
    ProxyAuthorization,

    /// <summary>Range.</summary>
    Range,

    /// <summary>Referer.</summary>
    Referer,

    /// <summary>Retry-After.</summary>
    RetryAfter,

    /// <summary>Sec-WebSocket-Accept.</summary>
    SecWebSocketAccept,

    /// <summary>Sec-WebSocket-Extensions.</summary>
    SecWebSocketExtensions,

    /// <summary>Sec-WebSocket-Key.</summary>
    SecWebSocketKey,

    /// <summary>Sec-WebSocket-Protocol.</summary>
    SecWebSocketProtocol,

    /// <summary>Sec-WebSocket-Version.</summary>
    SecWebSocketVersion,

    /// <summary>Server.</summary>
    Server,

    /// <summary>Set-Cookie.</summary>
    SetCookie,

    /// <summary>Strict-Transport-Security.</summary>
    StrictTransportSecurity,

    /// <summary>TE.</summary>
    Te,

    /// <summary>Trailer.</summary>
    Trailer,

    /// <summary>Transfer-Encoding.</summary>
    TransferEncoding,

    /// <summary>Upgrade.</summary>
    Upgrade,

    /// <summary>User-Agent.</summary>
    UserAgent,

    /// <summary>Vary.</summary>
    Vary,

    /// <summary>Via.</summary>
    Via,

    /// <summary>WWW-Authenticate.</summary>
    WwwAuthenticate,

    /// <summary>X-Forwarded-For.</summary>
    XForwardedFor,

    /// <summary>X-Forwarded-Proto.</summary>
    XForwardedProto,

    /// <summary>X-Request-Id.</summary>
    XRequestId,
}
