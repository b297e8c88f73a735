using System.Text;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

/// <summary>
/// Limits of HTTP sessions. Immutable data, checked when the first session uses it. Use one object for all sessions of
/// a kind, because it also holds their counters (<see cref="ReadCounters"/>).
/// </summary>
public sealed class HttpOptions
{
    private const int MinHeadBytes = 128;
    private const int MaxHead = 64 * 1024;
    private static readonly TimeSpan s_longest = TimeSpan.FromDays(7);

    private bool _isChecked;

    /// <summary>Longest request line in bytes, without its line end; then 414. 64 to 65,536; default 8 KiB.</summary>
    public int RequestLineLimitBytes { get; init; } = 8 * 1024;

    /// <summary>Largest head of a request in bytes, and largest trailers; then 431. 128 to 65,536; default 16
    /// KiB.</summary>
    public int HeadLimitBytes { get; init; } = 16 * 1024;

    /// <summary>Largest number of fields of a request, including trailers; then 431. 1 to 10,000; default
    /// 100.</summary>
    public int FieldLimit { get; init; } = 100;

    /// <summary>Largest buffered body in bytes; then 413. 0 to 1 GiB; default 1 MiB.</summary>
    public int BufferedBodyLimitBytes { get; init; } = 1024 * 1024;

    /// <summary>Largest streamed or skipped body in bytes; then 413. 0 and more; default 30,000,000.</summary>
    public long BodyLimitBytes { get; init; } = 30_000_000;

    /// <summary>Largest number of fields or parts of a form; then 413. 1 to 100,000; default 1,000.</summary>
    public int FormFieldLimit { get; init; } = 1000;

    /// <summary>Longest time from the first byte of a request to the end of its head; then 408. 10 ms to 7 days;
    /// default 10 s.</summary>
    public TimeSpan HeadTimeout { get; init; } = TimeSpan.FromSeconds(10);

    /// <summary>Longest time from the head of a request to the end of its body, without times in which the handler does
    /// not read; then 408. 10 ms to 7 days; default 300 s.</summary>
    public TimeSpan BodyTimeout { get; init; } = TimeSpan.FromSeconds(300);

    /// <summary>Longest time without a pending request; then the connection is closed. 10 ms to 7 days; default 60
    /// s.</summary>
    public TimeSpan KeepAliveTimeout { get; init; } = TimeSpan.FromSeconds(60);

    /// <summary>Lowest average rate, in bytes per second, at which a peer sends a body and reads a response, after
    /// <see cref="RateGrace"/>. 0 (any rate) to 1 GiB; default 240.</summary>
    public int MinBytesPerSecond { get; init; } = 240;

    /// <summary>Initial time in which a peer may be slower than <see cref="MinBytesPerSecond"/>. 10 ms to 7 days;
    /// default 5 s.</summary>
    public TimeSpan RateGrace { get; init; } = TimeSpan.FromSeconds(5);

    /// <summary>Longest time in which a peer reads nothing of a response; then the connection is reset. 10 ms to 7
    /// days; default 30 s.</summary>
    public TimeSpan SendTimeout { get; init; } = TimeSpan.FromSeconds(30);

    /// <summary>Largest number of requests of one connection; the last response closes it. 1 and more; default
    /// 10,000.</summary>
    public int RequestLimit { get; init; } = 10_000;

    /// <summary>Age of a connection after which the next response closes it. 10 ms to 7 days; default 1 h.</summary>
    public TimeSpan ConnectionLifetime { get; init; } = TimeSpan.FromHours(1);

    /// <summary>Bytes of pipelined requests that are received during a response, plus the rest of one receive (up to
    /// 260 KiB). Further bytes stay in the kernel. 1 KiB to 512 KiB; default 64 KiB.</summary>
    public int PipelineLimitBytes { get; init; } = 64 * 1024;

    /// <summary>Largest rest of an unread body, in bytes, that is skipped to reuse the connection; with more it is
    /// closed. 0 to 1 GiB; default 256 KiB.</summary>
    public int SkipLimitBytes { get; init; } = 256 * 1024;

    /// <summary>Host names served, without port; requests for others get 421. This protects a server of a private
    /// network from web pages under another name (DNS rebinding). Default empty: all are served.</summary>
    public IReadOnlyList<string> Hosts { get; init; } = [];

    /// <summary>CORS rules for scripts of other origins. Default null: none are allowed.</summary>
    public HttpCors? Cors { get; init; }

    /// <summary>Time in which browsers use TLS only (HSTS), sent in responses over TLS. Zero to 10 years. Default null:
    /// not sent.</summary>
    public TimeSpan? StrictTransport { get; init; }

    /// <summary>Whether <see cref="StrictTransport"/> includes sub-domains. Default false.</summary>
    public bool StrictTransportForSubdomains { get; init; }

    /// <summary>Compression of generated responses. Default null: none, because their lengths can reveal a secret next
    /// to data chosen by an attacker, and because it takes time on the loop.</summary>
    public HttpCompression? Compression { get; init; }

    /// <summary>Access log. Default null: none.</summary>
    public HttpLog? Log { get; init; }

    /// <summary>Whether handlers may serve TRACE. Default false: 405.</summary>
    public bool AllowTrace { get; init; }

    /// <summary>Whether responses have a <c>Date</c> field. Default true.</summary>
    public bool SendDate { get; init; } = true;

    internal HttpTally Tally { get; } = new();

    /// <summary>Field line of <see cref="StrictTransport"/>, with its line end.</summary>
    internal byte[]? StrictTransportLine { get; private set; }

    /// <summary>Returns whether a host is served.</summary>
    /// <param name="authority">Host, checked by the reader, with or without a port.</param>
    internal bool Serves(ReadOnlySpan<byte> authority)
    {
        if (Hosts.Count == 0) return true;
        int port = authority.LastIndexOf((byte)':');
        if (port > authority.LastIndexOf((byte)']')) authority = authority[..port];
        foreach (string host in Hosts)
        {
            if (Ascii.EqualsIgnoreCase(authority, host)) return true;
        }

        return false;
    }

    internal HttpReaderLimits ReaderLimits => new(RequestLineLimitBytes, HeadLimitBytes, FieldLimit, long.MaxValue);

    /// <summary>Returns the counters of all sessions with these options. Any thread.</summary>
    public HttpCounters ReadCounters() => Tally.Read();

    /// <summary>Throws with all errors at once.</summary>
    internal void Check()
    {
        if (_isChecked) return;
        IReadOnlyList<string> mistakes = FindMistakes();
        if (mistakes.Count > 0) throw new ArgumentException($"{nameof(HttpOptions)}: {string.Join(' ', mistakes)}");
        if (StrictTransport is { } strict) StrictTransportLine = Encoding.ASCII.GetBytes($"Strict-Transport-Security: "
            + $"max-age={(long)strict.TotalSeconds}{(StrictTransportForSubdomains ? "; includeSubDomains" : "")}\r\n");
        _isChecked = true;
    }

    /// <summary>Returns one sentence for each invalid option, beginning with its name. A server throws with these.
    /// Empty if all are valid.</summary>
    public IReadOnlyList<string> FindMistakes()
    {
        List<string> mistakes = [];
        Within(mistakes, nameof(RequestLineLimitBytes), RequestLineLimitBytes, 64, MaxHead);
        Within(mistakes, nameof(HeadLimitBytes), HeadLimitBytes, MinHeadBytes, MaxHead);
        Within(mistakes, nameof(FieldLimit), FieldLimit, 1, 10_000);
        Within(mistakes, nameof(BufferedBodyLimitBytes), BufferedBodyLimitBytes, 0, 1 << 30);
        Within(mistakes, nameof(BodyLimitBytes), BodyLimitBytes, 0, long.MaxValue);
        Within(mistakes, nameof(FormFieldLimit), FormFieldLimit, 1, 100_000);
        Within(mistakes, nameof(MinBytesPerSecond), MinBytesPerSecond, 0, 1 << 30);
        Within(mistakes, nameof(RequestLimit), RequestLimit, 1, int.MaxValue);
        Within(mistakes, nameof(PipelineLimitBytes), PipelineLimitBytes, 1024, 512 * 1024);
        Within(mistakes, nameof(SkipLimitBytes), SkipLimitBytes, 0, 1 << 30);
        Within(mistakes, nameof(HeadTimeout), HeadTimeout);
        Within(mistakes, nameof(BodyTimeout), BodyTimeout);
        Within(mistakes, nameof(KeepAliveTimeout), KeepAliveTimeout);
        Within(mistakes, nameof(RateGrace), RateGrace);
        Within(mistakes, nameof(SendTimeout), SendTimeout);
        Within(mistakes, nameof(ConnectionLifetime), ConnectionLifetime);
        foreach (string host in Hosts)
        {
            bool hasPort = host.AsSpan().LastIndexOf(':') > host.AsSpan().LastIndexOf(']');
            if (hasPort || !HttpBytes.IsAuthority(Encoding.UTF8.GetBytes(host)))
                mistakes.Add($"{nameof(Hosts)} has \"{host}\": a host is a name or an address, without port.");
        }

        if (StrictTransport is { } strict && (strict < TimeSpan.Zero || strict > TimeSpan.FromDays(3660)))
            mistakes.Add($"{nameof(StrictTransport)} is {strict}: zero up to 10 years is possible.");
        Cors?.Check(mistakes);
        Compression?.Check(mistakes);
        return mistakes;
    }

    internal static void Within(List<string> mistakes, string name, long value, long least, long most)
    {
        if (value < least || value > most) mistakes.Add($"{name} is {value}: {least} up to {most} is possible.");
    }

    internal static void Within(List<string> mistakes, string name, TimeSpan value)
    {
        if (value < TimeSpan.FromMilliseconds(10) || value > s_longest)
            mistakes.Add($"{name} is {value}: 10 ms up to 7 days is possible.");
    }
}
