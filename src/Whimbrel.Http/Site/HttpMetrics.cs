using System.Diagnostics;
using System.Diagnostics.Metrics;
using System.Globalization;

namespace Whimbrel.Http;

/// <summary>
/// HTTP instruments of the meter "Whimbrel": duration and number of requests, by the names and units of OpenTelemetry.
/// Recorded on the thread of the request. Without a listener nothing is counted and no clock is read.
/// </summary>
/// <remarks>Created on the thread pool with the first server, session or pool, because the meter classes take
/// milliseconds to load. It lives as long as the process.</remarks>
internal sealed class HttpMetrics
{
    private const int LowestStatus = 100;
    private const int HighestStatus = 999; // of responses to a client; those of a server end at 599
    private const string SimulatedEngine = "memory";
    internal const string Unknown = "_OTHER";

    // as OpenTelemetry advises
    private static readonly double[] s_buckets = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5,
        5, 7.5, 10];
    private static HttpMetrics? s_current;
    private static int s_isMade;

    // Created on first use and cached, so that a tag needs no allocation. Two threads may both create one; either is
    // valid.
    private readonly object?[] _statuses = new object?[HighestStatus - LowestStatus + 1];
    private readonly string?[] _statusTexts = new string?[HighestStatus - LowestStatus + 1];
    private readonly Histogram<double> _serverDuration;
    private readonly Histogram<double> _clientDuration;
    private readonly UpDownCounter<long> _active;

    private HttpMetrics()
    {
        _ = HttpTraces.IsHeard; // loads the activity source here, and not in the first request
        Meter meter = new("Whimbrel", typeof(HttpMetrics).Assembly.GetName().Version?.ToString(3));
        _active = meter.CreateUpDownCounter<long>("http.server.active_requests", "{request}",
            "Requests with a received header and an incomplete response.");
        _clientDuration = meter.CreateHistogram(
            "http.client.request.duration",
            "s",
            "Time of a request until the head of its answer is there: of a pool with the wait for a connection. "
            + "error.type is the status or why there was no answer.",
            tags: null,
            new InstrumentAdvice<double> { HistogramBucketBoundaries = s_buckets });
        _serverDuration = meter.CreateHistogram(
            "http.server.request.duration",
            "s",
            "Time from the last byte of a request's head until its answer is complete; error.type is the exception, "
            + "the cause of the connection's end, or a status from 500 on.",
            tags: null,
            new InstrumentAdvice<double> { HistogramBucketBoundaries = s_buckets });
    }

    /// <summary>Current instruments; null until they are created.</summary>
    internal static HttpMetrics? Current => Volatile.Read(ref s_current);

    /// <summary>Whether there is a listener for server metrics or activities.</summary>
    internal bool IsServerHeard => _serverDuration.Enabled || _active.Enabled || HttpTraces.IsHeard;

    /// <summary>Whether there is a listener for client metrics.</summary>
    internal bool IsClientHeard => _clientDuration.Enabled;

    /// <summary>Starts the creation of the instruments, once.</summary>
    internal static void Prepare()
    {
        if (Volatile.Read(ref s_isMade) == 0 && Interlocked.Exchange(ref s_isMade, 1) == 0)
            ThreadPool.UnsafeQueueUserWorkItem(static _ => Make(), null);
    }

    private static void Make()
    {
        try
        {
            Volatile.Write(ref s_current, new HttpMetrics());
        }
        catch (Exception e)
        {
            Report(null, e);
        }
    }

    /// <summary>
    /// Reports an exception of a listener where no session is available: the engine logs a diagnostic event. Null for
    /// the default engine.
    /// </summary>
    internal static void Report(Engine? engine, Exception exception) =>
        (engine ?? Engine.Default).Post(() => throw new InvalidOperationException(
            $"A listener of the meter or the activities \"Whimbrel\" threw: {exception.Message}", exception));

    // ------------------------------------------------------------------ time

    /// <summary>Returns the time of the stopwatch, never 0; with the memory engine that of its clock.</summary>
    internal static long Now(Loop loop) => loop.Engine.KindName == SimulatedEngine
        ? loop.TimeMs * (Stopwatch.Frequency / 1000) + 1
        : Stopwatch.GetTimestamp();

    private static double Seconds(long since, long now) => Stopwatch.GetElapsedTime(since, now).TotalSeconds;

    // ------------------------------------------------------------------ servers

    /// <summary>Counts the begin of a request. Returns false if active requests are not counted, so that its end is not
    /// counted either.</summary>
    internal bool RequestBegins(HttpVerb verb, bool isSecure)
    {
        if (!_active.Enabled) return false;
        CountActive(1, verb, isSecure);
        return true;
    }

    /// <summary>Changes the number of active requests.</summary>
    internal void CountActive(int change, HttpVerb verb, bool isSecure) =>
        _active.Add(change, new("http.request.method", NameOf(verb)), new("url.scheme", SchemeOf(isSecure)));

    /// <summary>Records the end of a request, with or without a response.</summary>
    /// <param name="span">Times of begin and end.</param>
    /// <param name="request">Method, scheme and version.</param>
    /// <param name="route">Pattern of its route; null for none.</param>
    /// <param name="status">Status code; 0 if no response was sent.</param>
    /// <param name="error">Error type; null if it follows from the status.</param>
    internal void RequestEnded((long Since, long Now) span, (HttpVerb Verb, bool IsSecure, int MinorVersion) request,
        string? route, int status, string? error)
    {
        TagList tags = default;
        tags.Add("http.request.method", NameOf(request.Verb));
        tags.Add("url.scheme", SchemeOf(request.IsSecure));
        tags.Add("network.protocol.version", VersionOf(request.MinorVersion));
        if (status != 0) tags.Add("http.response.status_code", StatusOf(status));
        if (route is not null) tags.Add("http.route", route);
        error ??= status >= 500 ? TextOf(status) : null;
        if (error is not null) tags.Add("error.type", error);
        _serverDuration.Record(Seconds(span.Since, span.Now), tags);
    }

    // ------------------------------------------------------------------ clients

    /// <summary>Records the head of a response, or the failure of a request.</summary>
    /// <param name="span">Times of the begin and of this call.</param>
    /// <param name="method">Name of the method: <see cref="NameOf(string)"/>.</param>
    /// <param name="peer">Host and port of the server the request was sent to.</param>
    /// <param name="status">Status code; 0 without a response.</param>
    /// <param name="minorVersion">Minor version of the response.</param>
    /// <param name="error">Error type; null if it follows from the status.</param>
    internal void AnswerCame((long Since, long Now) span, string method, HttpMetricsPeer peer, int status,
        int minorVersion, string? error)
    {
        TagList tags = default;
        tags.Add("http.request.method", method);
        tags.Add("server.address", peer.Address);
        tags.Add("server.port", peer.Port);
        tags.Add("url.scheme", peer.Scheme);
        if (status != 0)
        {
            tags.Add("http.response.status_code", StatusOf(status));
            tags.Add("network.protocol.version", VersionOf(minorVersion));
        }

        error ??= status >= 400 ? TextOf(status) : null;
        if (error is not null) tags.Add("error.type", error);
        _clientDuration.Record(Seconds(span.Since, span.Now), tags);
    }

    // ------------------------------------------------------------------ tags: few by construction

    internal static string SchemeOf(bool isSecure) => isSecure ? "https" : "http";

    private static string VersionOf(int minor) => minor == 0 ? "1.0" : "1.1";

    internal static string NameOf(HttpVerb verb) => verb switch
    {
        HttpVerb.Get => "GET",
        HttpVerb.Head => "HEAD",
        HttpVerb.Post => "POST",
        HttpVerb.Put => "PUT",
        HttpVerb.Delete => "DELETE",
        HttpVerb.Connect => "CONNECT",
        HttpVerb.Options => "OPTIONS",
        HttpVerb.Trace => "TRACE",
        HttpVerb.Patch => "PATCH",
        _ => Unknown,
    };

    /// <summary>Returns the name of a method for metrics: <c>_OTHER</c> for all non-standard ones, to keep the number
    /// of tags small.</summary>
    internal static string NameOf(string method) => method switch
    {
        "GET" or "HEAD" or "POST" or "PUT" or "DELETE" or "CONNECT" or "OPTIONS" or "TRACE" or "PATCH" => method,
        _ => Unknown,
    };

    private object StatusOf(int status) => _statuses[status - LowestStatus] ??= status;

    private string TextOf(int status) =>
        _statusTexts[status - LowestStatus] ??= status.ToString(CultureInfo.InvariantCulture);
}
