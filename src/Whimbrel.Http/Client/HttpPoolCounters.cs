namespace Whimbrel.Http;

/// <summary>Counters and current numbers of an <see cref="HttpPool"/>.</summary>
/// <param name="Requests">Requests begun, each counted once.</param>
/// <param name="Failures">Requests that failed or were cancelled before the head of the response.</param>
/// <param name="Connects">Connect attempts.</param>
/// <param name="Repeats">Requests sent again because a reused connection had ended before any byte of a
/// response.</param>
/// <param name="Redirects">Redirects followed.</param>
/// <param name="Connections">Current connections, including connect attempts.</param>
/// <param name="Idle">Current connections without a request.</param>
/// <param name="Waiting">Requests that currently wait for a connection.</param>
public readonly record struct HttpPoolCounters(long Requests, long Failures, long Connects, long Repeats,
    long Redirects, int Connections, int Idle, int Waiting);
