using System.Net;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

/// <summary>Limits and habits of HTTP clients. Plain data, checked when the first session or pool uses it.</summary>
public sealed class HttpClientOptions
{
    private static readonly TimeSpan s_longest = TimeSpan.FromDays(7);
    private bool _isChecked;

    // ------------------------------------------------------------------ answers

    /// <summary>The head of an answer, each interim one, and trailers by themselves. 128 up to 1,048,576; default 32 KiB.</summary>
    public int HeadLimitBytes { get; init; } = 32 * 1024;

    /// <summary>Fields of an answer, trailers included. 1 up to 10,000; default 200.</summary>
    public int FieldLimit { get; init; } = 200;

    /// <summary>Interim answers (1xx) to one request. 0 up to 1,000; default 8.</summary>
    public int InterimLimit { get; init; } = 8;

    /// <summary>A body, as it was sent and also when it is decompressed. 0 and more; default 64 GiB.</summary>
    public long BodyLimitBytes { get; init; } = 64L << 30;

    /// <summary>A body that is read into memory whole. 0 up to 2,147,483,591; default 16 MiB.</summary>
    public int BufferedBodyLimitBytes { get; init; } = 16 * 1024 * 1024;

    /// <summary>
    /// Rejects answers that break a rule in a way that has one meaning only, and that RFC 9110 and RFC 9112 let a client take. False (the default): a status line
    /// without the space after the status, a status from 600 to 999 (it means what 500 means), a folded field (its line ends become spaces), and a
    /// Content-Length that is there several times with the same number are taken. True: each of them is <see cref="HttpClientFailure.Protocol"/>.
    /// </summary>
    public bool StrictAnswers { get; init; }

    /// <summary>What is left of a body that nobody reads is read away up to here, so that the connection can be used again; else it is closed. 0 up to 1 GiB; default 64 KiB.</summary>
    public int SkipLimitBytes { get; init; } = 64 * 1024;

    /// <summary>Bytes a second that a server must send of a body, on average, while it is read, beyond <see cref="RateGrace"/>. 0 (then the grace is all there is for a body) up to 1 GiB; default 240.</summary>
    public int MinBytesPerSecond { get; init; } = 240;

    // ------------------------------------------------------------------ times

    /// <summary>Longest time for a connection, over all addresses of its host. 1 ms up to 1 h; default 15 s. TLS has its own (<see cref="TlsOptions.HandshakeTimeout"/>).</summary>
    public TimeSpan ConnectTimeout { get; init; } = TimeSpan.FromSeconds(15);

    /// <summary>From the end of the request to the end of the answer's head. 10 ms up to 7 days; default 60 s.</summary>
    public TimeSpan HeadTimeout { get; init; } = TimeSpan.FromSeconds(60);

    /// <summary>How long a body may be slower than <see cref="MinBytesPerSecond"/>. 10 ms up to 7 days; default 30 s.</summary>
    public TimeSpan RateGrace { get; init; } = TimeSpan.FromSeconds(30);

    /// <summary>A server that takes nothing of a request for so long is given up. 100 ms up to 7 days; default 30 s. Of a pool; a session has that of its <see cref="ConnectionOptions"/>.</summary>
    public TimeSpan SendTimeout { get; init; } = TimeSpan.FromSeconds(30);

    /// <summary>All of a request: the wait for a connection, redirects, and the body of the answer to its last byte. 10 ms up to 7 days; <see cref="Timeout.InfiniteTimeSpan"/> (the default) leaves it to the others, which bound each step. Of a pool.</summary>
    public TimeSpan RequestTimeout { get; init; } = Timeout.InfiniteTimeSpan;

    /// <summary>How long a request with <see cref="HttpClientRequest.ExpectContinue"/> waits to be told to send its body, before it sends it untold. 10 ms up to 7 days; default 1 s.</summary>
    public TimeSpan ContinueTimeout { get; init; } = TimeSpan.FromSeconds(1);

    // ------------------------------------------------------------------ connections

    /// <summary>Requests of a session that are sent before their answers have come. 1 (the default: no pipelining) up to 64. A pool does not pipeline.</summary>
    public int PipelineLimit { get; init; } = 1;

    /// <summary>Connections of a pool to one origin. 1 up to 100,000; default 64.</summary>
    public int ConnectionLimit { get; init; } = 64;

    /// <summary>Requests of a pool that wait for a connection to one origin. 0 up to 10,000,000; default 10,000.</summary>
    public int WaitingLimit { get; init; } = 10_000;

    /// <summary>
    /// How long a request of a pool waits for one of <see cref="ConnectionLimit"/> connections to become free. A response that is neither
    /// disposed nor read to its end holds one. 10 ms up to 7 days, or <see cref="Timeout.InfiniteTimeSpan"/>; default 60 s.
    /// </summary>
    public TimeSpan WaitTimeout { get; init; } = TimeSpan.FromSeconds(60);

    /// <summary>Connections of a pool that wait for a request, over all origins. 0 (none is used again) up to 100,000; default 256.</summary>
    public int IdleLimit { get; init; } = 256;

    /// <summary>How long a connection waits for a request. 10 ms up to 7 days; default 30 s.</summary>
    public TimeSpan IdleTimeout { get; init; } = TimeSpan.FromSeconds(30);

    /// <summary>Age from which on a connection is not used again, so that a host whose address has changed is found. 10 ms up to 7 days; default 10 min.</summary>
    public TimeSpan ConnectionLifetime { get; init; } = TimeSpan.FromMinutes(10);

    /// <summary>The engine of a pool. Null (the default) is <see cref="Whimbrel.Engine.Default"/>.</summary>
    public Engine? Engine { get; init; }

    /// <summary>TLS for <c>https</c>. Null (the default): the defaults, which check chain and host name. Where no application protocols are named <c>http/1.1</c> is offered.</summary>
    public TlsOptions? Tls { get; init; }

    /// <summary>Where a pool connects to, whatever the URL says: a Unix socket, a local proxy. Null (the default): host and port of the URL. The name that TLS checks is then that of <see cref="TlsOptions.HostName"/>.</summary>
    public EndPoint? EndPoint { get; init; }

    // ------------------------------------------------------------------ what a pool does by itself

    /// <summary>
    /// Redirects that are followed. 0 (none) up to 100; default 10. Never from https to http. What is not followed, and one more than the limit,
    /// is the answer. Authorization, Cookie and Proxy-Authorization do not go to another origin.
    /// </summary>
    public int RedirectLimit { get; init; } = 10;

    /// <summary>Keeps cookies, and sends them. Null (the default): nobody does.</summary>
    public CookieContainer? Cookies { get; init; }

    /// <summary>Asks for gzip, br and deflate, and takes them away. Default true.</summary>
    public bool Decompress { get; init; } = true;

    /// <summary>How many times larger than it was sent a body may become, above its first MiB. 1 up to 1,000,000; default 200.</summary>
    public int DecompressionRatioLimit { get; init; } = 200;

    // ------------------------------------------------------------------ for sessions and pools

    internal HttpReaderLimits ReaderLimits => new(HeadLimitBytes, HeadLimitBytes, FieldLimit, BodyLimitBytes, IsLenient: !StrictAnswers);

    /// <summary><see cref="Tls"/>, which says what is spoken.</summary>
    internal TlsOptions? SpokenTls { get; private set; }

    internal SessionPhase HeadPhase { get; private set; } = null!;

    internal SessionPhase BodyPhase { get; private set; } = null!;

    internal SessionPhase IdlePhase { get; private set; } = null!;

    /// <summary>Throws with all mistakes at once.</summary>
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
        if (ConnectTimeout < TimeSpan.FromMilliseconds(1) || ConnectTimeout > TimeSpan.FromHours(1)) mistakes.Add($"{nameof(ConnectTimeout)} is {ConnectTimeout}: 1 ms up to 1 h is possible.");
        HttpOptions.Within(mistakes, nameof(HeadTimeout), HeadTimeout);
        HttpOptions.Within(mistakes, nameof(RateGrace), RateGrace);
        if (SendTimeout < TimeSpan.FromMilliseconds(100) || SendTimeout > s_longest) mistakes.Add($"{nameof(SendTimeout)} is {SendTimeout}: 100 ms up to 7 days is possible.");
        if (RequestTimeout != Timeout.InfiniteTimeSpan) HttpOptions.Within(mistakes, nameof(RequestTimeout), RequestTimeout);
        HttpOptions.Within(mistakes, nameof(ContinueTimeout), ContinueTimeout);
        if (WaitTimeout != Timeout.InfiniteTimeSpan) HttpOptions.Within(mistakes, nameof(WaitTimeout), WaitTimeout);
        HttpOptions.Within(mistakes, nameof(IdleTimeout), IdleTimeout);
        HttpOptions.Within(mistakes, nameof(ConnectionLifetime), ConnectionLifetime);
        if (Tls is { ApplicationProtocols: { Count: > 0 } offered } && !(offered is [HttpServer.ApplicationProtocol])) mistakes.Add($"Tls.ApplicationProtocols may have {HttpServer.ApplicationProtocol} alone: it is what is spoken here.");
        SpokenTls = Tls is { ApplicationProtocols.Count: 0 } ? Tls.WithApplicationProtocols(HttpServer.ApplicationProtocol) : Tls;
        if (mistakes.Count > 0) throw new ArgumentException($"{nameof(HttpClientOptions)}: {string.Join(' ', mistakes)}");
        HeadPhase = new SessionPhase("the head of the answer", HeadTimeout);
        BodyPhase = new SessionPhase("the body of the answer", RateGrace, MinBytesPerSecond);
        IdlePhase = new SessionPhase("the wait for a request", IdleTimeout);
        _isChecked = true;
    }
}
