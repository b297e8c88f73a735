namespace Whimbrel.Http;

/// <summary>What an <see cref="HttpPool"/> has done, and has now.</summary>
/// <param name="Requests">Requests begun, each once whatever became of it.</param>
/// <param name="Failures">Those that got no answer: failed or cancelled before its head.</param>
/// <param name="Dials">Connections begun.</param>
/// <param name="Repeats">Requests sent again, because a kept connection had ended before anything of an answer came.</param>
/// <param name="Redirects">Redirects followed.</param>
/// <param name="Connections">Connections now, those that are just being made included.</param>
/// <param name="Idle">Those of them that wait for a request.</param>
/// <param name="Waiting">Requests that wait for a connection now.</param>
public readonly record struct HttpPoolCounters(long Requests, long Failures, long Dials, long Repeats, long Redirects, int Connections, int Idle, int Waiting);
