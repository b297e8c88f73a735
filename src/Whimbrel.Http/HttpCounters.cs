namespace Whimbrel.Http;

/// <summary>What HTTP sessions have counted: see <see cref="HttpOptions.ReadCounters"/>.</summary>
/// <param name="Requests">Requests whose head was read whole.</param>
/// <param name="Refused">Requests that broke a rule of the protocol, and were answered with 400 or a relative of it.</param>
/// <param name="TooLarge">Requests above a limit of size: 413, 414, 431.</param>
/// <param name="HeadTimeouts">Heads that were not whole in time: 408.</param>
/// <param name="BodyTimeouts">Bodies that were too slow, or not whole in time: 408.</param>
/// <param name="IdleClosed">Connections closed because no request came.</param>
/// <param name="SendTimeouts">Connections reset because the peer took the answer too slowly.</param>
/// <param name="RequestLimits">Connections closed after <see cref="HttpOptions.RequestLimit"/> or <see cref="HttpOptions.ConnectionLifetime"/>.</param>
/// <param name="PipelinePauses">How often reading paused because of <see cref="HttpOptions.PipelineLimitBytes"/>.</param>
/// <param name="SkipLimits">Connections closed because more than <see cref="HttpOptions.SkipLimitBytes"/> of a body was left unread.</param>
/// <param name="HandlerErrors">Handlers and overrides that threw.</param>
public readonly record struct HttpCounters(long Requests, long Refused, long TooLarge, long HeadTimeouts, long BodyTimeouts, long IdleClosed, long SendTimeouts, long RequestLimits, long PipelinePauses, long SkipLimits, long HandlerErrors);
