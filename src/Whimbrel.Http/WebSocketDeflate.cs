using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

/// <summary>Settings of compression (RFC 7692), used if the peer agrees.</summary>
public sealed class WebSocketDeflate
{
    /// <summary>Compression level: 1, the fastest, to 9; default 1.</summary>
    public int Level { get; init; } = 1;

    /// <summary>Smallest message in bytes that is compressed. 0 and more; default 64.</summary>
    public int LeastBytes { get; init; } = 64;

    /// <summary>Whether this end compresses each message without the context of earlier ones, so that lengths do not
    /// reveal other messages, and broadcasts are compressed once. Otherwise a message may refer to the last 4 KiB of
    /// earlier ones. Default true.</summary>
    public bool Forgets { get; init; } = true;

    /// <summary>Whether the peer is asked to do so. Default true: its window then uses memory only while one of its
    /// messages is read.</summary>
    public bool PeerForgets { get; init; } = true;

    /// <summary>Window of this end, as a power of two: 9 to 15; default 12, which is 4 KiB.</summary>
    public int WindowBits { get; init; } = 12;

    /// <summary>Largest accepted window of the peer: 9 to 15; default 15. A peer that cannot choose one uses
    /// 15.</summary>
    public int PeerWindowBits { get; init; } = DeflateTerms.MostBits;

    /// <summary>zlib's memory level, besides the window: 1 to 9, doubled with each step; default 5.</summary>
    public int MemoryLevel { get; init; } = 5;

    internal DeflateTerms AsServer() => new()
    {
        ServerForgets = Forgets,
        ClientForgets = PeerForgets,
        ServerBits = WindowBits,
        ClientBits = PeerWindowBits
    };

    // The server may use any window up to the offered one; the client can always use a smaller one.
    internal DeflateTerms AsClient() => new()
    {
        ServerForgets = PeerForgets,
        ClientForgets = Forgets,
        ServerBits = PeerWindowBits,
        ClientBits = DeflateTerms.MostBits,
        OffersClientBits = true
    };

    internal void Check(List<string> mistakes)
    {
        if (Level is < 1 or > 9) mistakes.Add($"Deflate.{nameof(Level)} is {Level}: 1 to 9.");
        if (LeastBytes < 0) mistakes.Add($"Deflate.{nameof(LeastBytes)} is {LeastBytes}: 0 and more.");
        if (WindowBits is < DeflateTerms.LeastWrittenBits or > DeflateTerms.MostBits)
            mistakes.Add($"Deflate.{nameof(WindowBits)} is {WindowBits}: 9 to 15.");
        if (PeerWindowBits is < DeflateTerms.LeastWrittenBits or > DeflateTerms.MostBits)
            mistakes.Add($"Deflate.{nameof(PeerWindowBits)} is {PeerWindowBits}: 9 to 15.");
        if (MemoryLevel is < 1 or > 9) mistakes.Add($"Deflate.{nameof(MemoryLevel)} is {MemoryLevel}: 1 to 9.");
    }
}
