namespace Whimbrel.Http;

/// <summary>
/// Compression of answers as they are made, with gzip and brotli, for clients that take it (<c>Accept-Encoding</c>): <see cref="HttpOptions.Compression"/>.
/// Bodies of text types are compressed (text, JSON, XML, scripts, WebAssembly); what is encoded already, and parts (206), never. Answers with such a
/// type say <c>Vary</c>, and a strong entity tag of one that is compressed becomes a weak one. Plain data; one object for a server, or for several.
/// </summary>
/// <remarks>
/// Over TLS the length of a compressed answer tells an onlooker what is in it: who can make a browser ask for <c>/search?q=guess</c>, and sees how long
/// the answers are, reads a secret beside the echoed guess, letter by letter (BREACH). So answers over TLS are compressed only where
/// <see cref="OverTls"/> says so for all, or <see cref="HttpResponse.MayCompress"/> for one.
/// </remarks>
public sealed class HttpCompression
{
    private int _streams;

    internal static HttpCompression Default { get; } = new();

    /// <summary>Of brotli: 0, the fastest, up to 11; default 4. Above 9 it takes a hundred times as long, and is for files that are compressed once.</summary>
    public int BrotliLevel { get; init; } = 4;

    /// <summary>Of gzip: 1, the fastest, up to 9; default 6.</summary>
    public int GzipLevel { get; init; } = 6;

    /// <summary>A body that is known to be smaller goes as it is, unless the client refuses that. 0 up to 1 GiB; default 1,024.</summary>
    public int MinimumBytes { get; init; } = 1024;

    /// <summary>Answers in pieces that are compressed at a time, each with up to 1 MiB of memory: those above it go as they are. 0 up to 1,000,000; default 256.</summary>
    public int StreamLimit { get; init; } = 256;

    /// <summary>Over TLS, too: for sites whose answers have no secret beside what the request, or its sender, chose. Default false.</summary>
    public bool OverTls { get; init; }

    internal void Check(List<string> mistakes)
    {
        const string Name = nameof(HttpOptions.Compression);
        HttpOptions.Within(mistakes, $"{Name}.{nameof(BrotliLevel)}", BrotliLevel, 0, 11);
        HttpOptions.Within(mistakes, $"{Name}.{nameof(GzipLevel)}", GzipLevel, 1, 9);
        HttpOptions.Within(mistakes, $"{Name}.{nameof(MinimumBytes)}", MinimumBytes, 0, 1 << 30);
        HttpOptions.Within(mistakes, $"{Name}.{nameof(StreamLimit)}", StreamLimit, 0, 1_000_000);
    }

    /// <summary>False: as many as may are under way. Else <see cref="Leave"/> follows, once. Any thread.</summary>
    internal bool TryEnter()
    {
        if (Interlocked.Increment(ref _streams) <= StreamLimit) return true;
        Leave();
        return false;
    }

    internal void Leave() => Interlocked.Decrement(ref _streams);

    /// <summary>Answers in pieces that are being compressed: for tests.</summary>
    internal int Streams => Volatile.Read(ref _streams);
}
