namespace Whimbrel.Http;

/// <summary>Counters of HTTP sessions: see <see cref="HttpOptions.ReadCounters"/>.</summary>
/// <param name="Requests">Requests with a complete head.</param>
/// <param name="Refused">Requests that broke a rule of the protocol, and got 400 or a similar status.</param>
/// <param name="TooLarge">Requests above a size limit: 413, 414, 431.</param>
/// <param name="HeadTimeouts">Heads that were not complete in time: 408.</param>
/// <param name="BodyTimeouts">Bodies that were too slow, or not complete in time: 408.</param>
/// <param name="IdleClosed">Connections closed because no request was received.</param>
/// <param name="SendTimeouts">Connections reset because the peer read the response too slowly.</param>
/// <param name="RequestLimits">Connections closed after <see cref="HttpOptions.RequestLimit"/> or
/// <see cref="HttpOptions.ConnectionLifetime"/>.</param>
/// <param name="PipelinePauses">Number of times that reading paused because of
/// <see cref="HttpOptions.PipelineLimitBytes"/>.</param>
/// <param name="SkipLimits">Connections closed because more than <see cref="HttpOptions.SkipLimitBytes"/> of a body
/// were unread.</param>
/// <param name="HandlerErrors">Exceptions of handlers and overrides.</param>
public readonly record struct HttpCounters(long Requests, long Refused, long TooLarge, long HeadTimeouts,
    long BodyTimeouts, long IdleClosed, long SendTimeouts, long RequestLimits, long PipelinePauses, long SkipLimits,
    long HandlerErrors);
