using System.Text;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

/// <summary>
/// Limits of HTTP sessions. Plain data, checked when the first session uses it. Give one object to all sessions of a kind: what was
/// counted is counted in it (<see cref="ReadCounters"/>).
/// </summary>
public sealed class HttpOptions
{
    private const int MinHeadBytes = 128;
    private const int MaxHead = 64 * 1024;
    private static readonly TimeSpan s_longest = TimeSpan.FromDays(7);

    private bool _isChecked;

    /// <summary>The first line of a request, without its end: 414 above it. 64 up to 65,536; default 8 KiB.</summary>
    public int RequestLineLimitBytes { get; init; } = 8 * 1024;

    /// <summary>The head of a request, and trailers by themselves: 431 above it. 128 up to 65,536; default 16 KiB.</summary>
    public int HeadLimitBytes { get; init; } = 16 * 1024;

    /// <summary>Fields of a request, trailers included: 431 above it. 1 up to 10,000; default 100.</summary>
    public int FieldLimit { get; init; } = 100;

    /// <summary>A body that is kept until it is whole: 413 above it. 0 up to 1 GiB; default 1 MiB.</summary>
    public int BufferedBodyLimitBytes { get; init; } = 1024 * 1024;

    /// <summary>A body that is read as a stream, or skipped: 413 above it. 0 and more; default 30,000,000.</summary>
    public long BodyLimitBytes { get; init; } = 30_000_000;

    /// <summary>Fields of a form, or its parts: 413 above it. 1 up to 100,000; default 1,000.</summary>
    public int FormFieldLimit { get; init; } = 1000;

    /// <summary>From the first byte of a request to the end of its head: 408 after it. 10 ms up to 7 days; default 10 s.</summary>
    public TimeSpan HeadTimeout { get; init; } = TimeSpan.FromSeconds(10);

    /// <summary>From the head of a request to the end of its body, time in which nobody reads left out: 408 after it. 10 ms up to 7 days; default 300 s.</summary>
    public TimeSpan BodyTimeout { get; init; } = TimeSpan.FromSeconds(300);

    /// <summary>Without a request under way: the connection is closed after it. 10 ms up to 7 days; default 60 s.</summary>
    public TimeSpan KeepAliveTimeout { get; init; } = TimeSpan.FromSeconds(60);

    /// <summary>Bytes a second that a peer must send of a body, and take of an answer, on average after <see cref="RateGrace"/>. 0 (any rate) up to 1 GiB; default 240.</summary>
    public int MinBytesPerSecond { get; init; } = 240;

    /// <summary>How long a peer may be slower than <see cref="MinBytesPerSecond"/> at the beginning. 10 ms up to 7 days; default 5 s.</summary>
    public TimeSpan RateGrace { get; init; } = TimeSpan.FromSeconds(5);

    /// <summary>A peer that takes nothing of an answer for so long is reset. 10 ms up to 7 days; default 30 s.</summary>
    public TimeSpan SendTimeout { get; init; } = TimeSpan.FromSeconds(30);

    /// <summary>Requests of one connection: the last one's answer closes it. 1 and more; default 10,000.</summary>
    public int RequestLimit { get; init; } = 10_000;

    /// <summary>Age from which on an answer closes its connection. 10 ms up to 7 days; default 1 h.</summary>
    public TimeSpan ConnectionLifetime { get; init; } = TimeSpan.FromHours(1);

    /// <summary>Bytes of further requests that are taken in while one is answered, and above it what one receive brought (up to 260 KiB); the rest stays in the system. 1 KiB up to 512 KiB; default 64 KiB.</summary>
    public int PipelineLimitBytes { get; init; } = 64 * 1024;

    /// <summary>What is left of a body that nobody read is read away up to here, so that the connection can be used again; else it is closed. 0 up to 1 GiB; default 256 KiB.</summary>
    public int SkipLimitBytes { get; init; } = 256 * 1024;

    /// <summary>The hosts that are served, without port: a request for another is refused with 421. A web page elsewhere cannot reach a server of a private network under a name of its own then. Empty, the default: all are served.</summary>
    public IReadOnlyList<string> Hosts { get; init; } = [];

    /// <summary>Which web pages of other origins may use the server from a script. Null (the default): none.</summary>
    public HttpCors? Cors { get; init; }

    /// <summary>For how long browsers come back over TLS only (HSTS): said in answers over TLS. Null (the default): not said. Zero up to 10 years.</summary>
    public TimeSpan? StrictTransport { get; init; }

    /// <summary>With <see cref="StrictTransport"/>: for sub-domains, too. Default false.</summary>
    public bool StrictTransportForSubdomains { get; init; }

    /// <summary>Compression of answers as they are made. Null (the default): none, because a secret beside what a stranger chose can be read from lengths, and because it takes time on the loop.</summary>
    public HttpCompression? Compression { get; init; }

    /// <summary>Where answers are noted. Null (the default): nowhere.</summary>
    public HttpLog? Log { get; init; }

    /// <summary>Let handlers have TRACE. Off by default: refused with 405.</summary>
    public bool AllowTrace { get; init; }

    /// <summary>Whether answers say when they were made (<c>Date</c>). Default true.</summary>
    public bool SendDate { get; init; } = true;

    internal HttpTally Tally { get; } = new();

    /// <summary>The field that says <see cref="StrictTransport"/>, with its line end.</summary>
    internal byte[]? StrictTransportLine { get; private set; }

    /// <summary>Whether a host is served.</summary>
    /// <param name="authority">Checked by the reader, with or without a port.</param>
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

    /// <summary>What the sessions that use these options have counted so far. Any thread.</summary>
    public HttpCounters ReadCounters() => Tally.Read();

    /// <summary>Throws with all mistakes at once.</summary>
    internal void Check()
    {
        if (_isChecked) return;
        IReadOnlyList<string> mistakes = FindMistakes();
        if (mistakes.Count > 0) throw new ArgumentException($"{nameof(HttpOptions)}: {string.Join(' ', mistakes)}");
        if (StrictTransport is { } strict) StrictTransportLine = Encoding.ASCII.GetBytes($"Strict-Transport-Security: max-age={(long)strict.TotalSeconds}{(StrictTransportForSubdomains ? "; includeSubDomains" : "")}\r\n");
        _isChecked = true;
    }

    /// <summary>What a server would throw for: one sentence for each mistake, which begins with the name of the option. Empty when there is none.</summary>
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
            if (hasPort || !HttpBytes.IsAuthority(Encoding.UTF8.GetBytes(host))) mistakes.Add($"{nameof(Hosts)} has \"{host}\": a host is a name or an address, without port.");
        }

        if (StrictTransport is { } strict && (strict < TimeSpan.Zero || strict > TimeSpan.FromDays(3660))) mistakes.Add($"{nameof(StrictTransport)} is {strict}: zero up to 10 years is possible.");
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
        if (value < TimeSpan.FromMilliseconds(10) || value > s_longest) mistakes.Add($"{name} is {value}: 10 ms up to 7 days is possible.");
    }
}
