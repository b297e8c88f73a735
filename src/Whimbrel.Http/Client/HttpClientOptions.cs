using System.Net;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

/// <summary>Limits and settings of HTTP clients. Immutable data, checked when the first session or pool uses
/// it.</summary>
public sealed class HttpClientOptions
{
    private static readonly TimeSpan s_longest = TimeSpan.FromDays(7);
    private bool _isChecked;

    // ------------------------------------------------------------------ answers

    /// <summary>Largest head of a response in bytes; also of each interim response, and of trailers. 128 to 1,048,576;
    /// default 32 KiB.</summary>
    public int HeadLimitBytes { get; init; } = 32 * 1024;

    /// <summary>Largest number of fields of a response, including trailers. 1 to 10,000; default 200.</summary>
    public int FieldLimit { get; init; } = 200;

    /// <summary>Largest number of interim responses (1xx) to one request. 0 to 1,000; default 8.</summary>
    public int InterimLimit { get; init; } = 8;

    /// <summary>Largest body in bytes, both as received and decompressed. 0 and more; default 64 GiB.</summary>
    public long BodyLimitBytes { get; init; } = 64L << 30;

    /// <summary>Largest body in bytes that is read into memory as a whole. 0 to 2,147,483,591; default 16
    /// MiB.</summary>
    public int BufferedBodyLimitBytes { get; init; } = 16 * 1024 * 1024;

    /// <summary>
    /// Whether to reject responses that break a rule but are unambiguous, and that RFC 9110 and RFC 9112 let a client
    /// accept. With true each of them is <see cref="HttpClientFailure.Protocol"/>. Default false, which accepts: a
    /// missing space after the status; a status from 600 to 999 (handled as 500); a folded field (its line ends become
    /// spaces); and a repeated Content-Length with the same number.
    /// </summary>
    public bool StrictAnswers { get; init; }

    /// <summary>Largest rest of an unread body, in bytes, that is skipped to reuse the connection; with more it is
    /// closed. 0 to 1 GiB; default 64 KiB.</summary>
    public int SkipLimitBytes { get; init; } = 64 * 1024;

    /// <summary>Lowest average rate of a body, in bytes per second while it is read, beyond <see cref="RateGrace"/>. 0
    /// (the grace is then the limit for a whole body) to 1 GiB; default 240.</summary>
    public int MinBytesPerSecond { get; init; } = 240;

    // ------------------------------------------------------------------ times

    /// <summary>Longest time to connect, over all addresses of the host. 1 ms to 1 h; default 15 s. TLS has its own
    /// (<see cref="TlsOptions.HandshakeTimeout"/>).</summary>
    public TimeSpan ConnectTimeout { get; init; } = TimeSpan.FromSeconds(15);

    /// <summary>Longest time from the end of the request to the end of the response's head. 10 ms to 7 days; default 60
    /// s.</summary>
    public TimeSpan HeadTimeout { get; init; } = TimeSpan.FromSeconds(60);

    /// <summary>Time by which a body may be later than <see cref="MinBytesPerSecond"/> demands. 10 ms to 7 days;
    /// default 30 s.</summary>
    public TimeSpan RateGrace { get; init; } = TimeSpan.FromSeconds(30);

    /// <summary>Longest time in which a server reads nothing of a request; then the request fails. 100 ms to 7 days;
    /// default 30 s. For pools; sessions use that of their <see cref="ConnectionOptions"/>.</summary>
    public TimeSpan SendTimeout { get; init; } = TimeSpan.FromSeconds(30);

    /// <summary>Longest time of a whole request: wait for a connection, redirects, and the response to the last byte of
    /// its body. 10 ms to 7 days; default <see cref="Timeout.InfiniteTimeSpan"/>: only the other timeouts, which bound
    /// each step. For pools.</summary>
    public TimeSpan RequestTimeout { get; init; } = Timeout.InfiniteTimeSpan;

    /// <summary>Longest wait of a request with <see cref="HttpClientRequest.ExpectContinue"/> for 100 (Continue); then
    /// it sends its body without. 10 ms to 7 days; default 1 s.</summary>
    public TimeSpan ContinueTimeout { get; init; } = TimeSpan.FromSeconds(1);

    // ------------------------------------------------------------------ connections

    /// <summary>Largest number of requests that a session sends before their responses. 1 (the default: no pipelining)
    /// to 64. A pool does not pipeline.</summary>
    public int PipelineLimit { get; init; } = 1;

    /// <summary>Largest number of connections of a pool to one origin. 1 to 100,000; default 64.</summary>
    public int ConnectionLimit { get; init; } = 64;

    /// <summary>Largest number of requests of a pool that wait for a connection to one origin. 0 to 10,000,000; default
    /// 10,000.</summary>
    public int WaitingLimit { get; init; } = 10_000;

    /// <summary>
    /// Longest wait of a pool's request for a free connection when all <see cref="ConnectionLimit"/> are in use. A
    /// response that is neither disposed nor read to its end holds one. 10 ms to 7 days, or
    /// <see cref="Timeout.InfiniteTimeSpan"/>; default 60 s.
    /// </summary>
    public TimeSpan WaitTimeout { get; init; } = TimeSpan.FromSeconds(60);

    /// <summary>Largest number of idle connections of a pool, over all origins. 0 (no reuse) to 100,000; default
    /// 256.</summary>
    public int IdleLimit { get; init; } = 256;

    /// <summary>Longest time in which a connection stays idle. 10 ms to 7 days; default 30 s.</summary>
    public TimeSpan IdleTimeout { get; init; } = TimeSpan.FromSeconds(30);

    /// <summary>Age after which a connection is not reused, so that a changed address of the host takes effect. 10 ms
    /// to 7 days; default 10 min.</summary>
    public TimeSpan ConnectionLifetime { get; init; } = TimeSpan.FromMinutes(10);

    /// <summary>Engine of a pool. Default null: <see cref="Whimbrel.Engine.Default"/>.</summary>
    public Engine? Engine { get; init; }

    /// <summary>TLS for <c>https</c>. Default null: the default settings, which check chain and host name. Without
    /// application protocols <c>http/1.1</c> is offered.</summary>
    public TlsOptions? Tls { get; init; }

    /// <summary>End point to connect to, instead of host and port of the URL: a Unix socket, a local proxy. Default
    /// null. TLS then checks <see cref="TlsOptions.HostName"/>.</summary>
    public EndPoint? EndPoint { get; init; }

    // ------------------------------------------------------------------ what a pool does by itself

    /// <summary>
    /// Largest number of redirects followed. 0 (none) to 100; default 10. Redirects from https to http are not
    /// followed. If a redirect is not followed, the redirect response itself is returned. Authorization, Cookie and
    /// Proxy-Authorization are not sent to another origin.
    /// </summary>
    public int RedirectLimit { get; init; } = 10;

    /// <summary>Container that keeps cookies and supplies them to requests. Default null: no cookies.</summary>
    public CookieContainer? Cookies { get; init; }

    /// <summary>Whether to request gzip, br and deflate, and to decompress. Default true.</summary>
    public bool Decompress { get; init; } = true;

    /// <summary>Largest ratio of decompressed to received bytes, beyond the first MiB. 1 to 1,000,000; default
    /// 200.</summary>
    public int DecompressionRatioLimit { get; init; } = 200;

    // ------------------------------------------------------------------ for sessions and pools

    internal HttpReaderLimits ReaderLimits =>
        new(HeadLimitBytes, HeadLimitBytes, FieldLimit, BodyLimitBytes, IsLenient: !StrictAnswers);

    /// <summary><see cref="Tls"/> with the application protocol set.</summary>
    internal TlsOptions? SpokenTls { get; private set; }

    internal SessionPhase HeadPhase { get; private set; } = null!;

    internal SessionPhase BodyPhase { get; private set; } = null!;

    internal SessionPhase IdlePhase { get; private set; } = null!;

    /// <summary>Throws with all errors at once.</summary>
    internal void Check()
    {
        if (_isChecked) return;
        List<string> mistakes = [];
        HttpOptions.Within(mistakes, nameof(HeadLimitBytes), HeadLimitBytes, 128, 1024 * 1024);
        HttpOptions.Within(mistakes, nameof(FieldLimit), FieldLimit, 1, 10_000);
        HttpOptions.Within(mistakes, nameof(InterimLimit), InterimLimit, 0, 1000);
        HttpOptions.Within(mistakes, nameof(BodyLimitBytes), BodyLimitBytes, 0, long.MaxValue);
        HttpOptions.Within(mistakes, nameof(BufferedBodyLimitBytes), BufferedBodyLimitBytes, 0, Array.MaxLength);
        HttpOptions.Within(mistakes, nameof(SkipLimitBytes), SkipLimitBytes, 0, 1 << 30);
        HttpOptions.Within(mistakes, nameof(MinBytesPerSecond), MinBytesPerSecond, 0, 1 << 30);
        HttpOptions.Within(mistakes, nameof(PipelineLimit), PipelineLimit, 1, 64);
        HttpOptions.Within(mistakes, nameof(ConnectionLimit), ConnectionLimit, 1, 100_000);
        HttpOptions.Within(mistakes, nameof(WaitingLimit), WaitingLimit, 0, 10_000_000);
        HttpOptions.Within(mistakes, nameof(IdleLimit), IdleLimit, 0, 100_000);
        HttpOptions.Within(mistakes, nameof(RedirectLimit), RedirectLimit, 0, 100);
        HttpOptions.Within(mistakes, nameof(DecompressionRatioLimit), DecompressionRatioLimit, 1, 1_000_000);
        if (ConnectTimeout < TimeSpan.FromMilliseconds(1) || ConnectTimeout > TimeSpan.FromHours(1))
            mistakes.Add($"{nameof(ConnectTimeout)} is {ConnectTimeout}: 1 ms up to 1 h is possible.");
        HttpOptions.Within(mistakes, nameof(HeadTimeout), HeadTimeout);
        HttpOptions.Within(mistakes, nameof(RateGrace), RateGrace);
        if (SendTimeout < TimeSpan.FromMilliseconds(100) || SendTimeout > s_longest)
            mistakes.Add($"{nameof(SendTimeout)} is {SendTimeout}: 100 ms up to 7 days is possible.");
        if (RequestTimeout != Timeout.InfiniteTimeSpan)
            HttpOptions.Within(mistakes, nameof(RequestTimeout), RequestTimeout);
        HttpOptions.Within(mistakes, nameof(ContinueTimeout), ContinueTimeout);
        if (WaitTimeout != Timeout.InfiniteTimeSpan) HttpOptions.Within(mistakes, nameof(WaitTimeout), WaitTimeout);
        HttpOptions.Within(mistakes, nameof(IdleTimeout), IdleTimeout);
        HttpOptions.Within(mistakes, nameof(ConnectionLifetime), ConnectionLifetime);
        if (Tls is { ApplicationProtocols: { Count: > 0 } offered } && !(offered is [HttpServer.ApplicationProtocol]))
            mistakes.Add($"Tls.ApplicationProtocols may have {HttpServer.ApplicationProtocol} alone: it is what is "
                + $"spoken here.");
        SpokenTls = Tls is { ApplicationProtocols.Count: 0 }
            ? Tls.WithApplicationProtocols(HttpServer.ApplicationProtocol)
            : Tls;
        if (mistakes.Count > 0)
            throw new ArgumentException($"{nameof(HttpClientOptions)}: {string.Join(' ', mistakes)}");
        HeadPhase = new SessionPhase("the head of the answer", HeadTimeout);
        BodyPhase = new SessionPhase("the body of the answer", RateGrace, MinBytesPerSecond);
        IdlePhase = new SessionPhase("the wait for a request", IdleTimeout);
        _isChecked = true;
    }
}
