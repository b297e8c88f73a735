namespace Whimbrel.Http;

/// <summary>
/// Compression of generated responses with gzip and brotli, for clients that accept it (<c>Accept-Encoding</c>):
/// <see cref="HttpOptions.Compression"/>. It applies to text types (text, JSON, XML, scripts, WebAssembly), never to
/// encoded bodies and ranges (206). Responses of such types have <c>Vary</c>, and a strong entity tag of a compressed
/// one becomes weak. Immutable data; one object for one or more servers.
/// </summary>
/// <remarks>
/// Over TLS the length of a compressed response reveals its content. An attacker can make a browser request
/// <c>/search?q=guess</c> and observe the lengths. A secret next to the echoed guess can then be read letter by letter
/// (BREACH).
/// So responses over TLS are compressed only if <see cref="OverTls"/> allows it for all, or
/// <see cref="HttpResponse.MayCompress"/> for one.
/// </remarks>
public sealed class HttpCompression
{
    private int _streams;

    internal static HttpCompression Default { get; } = new();

    /// <summary>Level of brotli: 0, the fastest, to 11; default 4. Levels above 9 take a hundred times as long, and are
    /// for files that are compressed once.</summary>
    public int BrotliLevel { get; init; } = 4;

    /// <summary>Level of gzip: 1, the fastest, to 9; default 6.</summary>
    public int GzipLevel { get; init; } = 6;

    /// <summary>Smallest known body length in bytes that is compressed, unless the client refuses an uncompressed one.
    /// 0 to 1 GiB; default 1,024.</summary>
    public int MinimumBytes { get; init; } = 1024;

    /// <summary>Largest number of responses in pieces that are compressed at the same time, each with up to 1 MiB of
    /// memory; others are sent uncompressed. 0 to 1,000,000; default 256.</summary>
    public int StreamLimit { get; init; } = 256;

    /// <summary>Whether to compress over TLS: for sites without secrets next to data chosen by the request or its
    /// sender. Default false.</summary>
    public bool OverTls { get; init; }

    internal void Check(List<string> mistakes)
    {
        const string Name = nameof(HttpOptions.Compression);
        HttpOptions.Within(mistakes, $"{Name}.{nameof(BrotliLevel)}", BrotliLevel, 0, 11);
        HttpOptions.Within(mistakes, $"{Name}.{nameof(GzipLevel)}", GzipLevel, 1, 9);
        HttpOptions.Within(mistakes, $"{Name}.{nameof(MinimumBytes)}", MinimumBytes, 0, 1 << 30);
        HttpOptions.Within(mistakes, $"{Name}.{nameof(StreamLimit)}", StreamLimit, 0, 1_000_000);
    }

    /// <summary>Reserves a stream. Returns false at the limit; after true <see cref="Leave"/> must be called once. Any
    /// thread.</summary>
    internal bool TryEnter()
    {
        if (Interlocked.Increment(ref _streams) <= StreamLimit) return true;
        Leave();
        return false;
    }

    internal void Leave() => Interlocked.Decrement(ref _streams);

    /// <summary>Number of responses in pieces being compressed; for tests.</summary>
    internal int Streams => Volatile.Read(ref _streams);
}
