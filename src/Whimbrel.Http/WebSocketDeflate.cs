using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

/// <summary>How messages are compressed (RFC 7692), when the peer agrees.</summary>
public sealed class WebSocketDeflate
{
    /// <summary>1, the fastest, up to 9. Default 1.</summary>
    public int Level { get; init; } = 1;

    /// <summary>Shorter messages are sent as they are. 0 and more; default 64 bytes.</summary>
    public int LeastBytes { get; init; } = 64;

    /// <summary>This end begins each message anew, so that nothing of one tells of another, and broadcasts are compressed once for all. If not, a message may point back to the last 4 KiB of those before. Default true.</summary>
    public bool Forgets { get; init; } = true;

    /// <summary>The peer is asked to do so. Default true: its window costs memory only while one of its messages is read.</summary>
    public bool PeerForgets { get; init; } = true;

    /// <summary>The window of this end, as a power of two: 9 to 15; default 12, which is 4 KiB.</summary>
    public int WindowBits { get; init; } = 12;

    /// <summary>The largest window of the peer that is put up with: 9 to 15; default 15. A peer that cannot choose one uses 15.</summary>
    public int PeerWindowBits { get; init; } = DeflateTerms.MostBits;

    /// <summary>What zlib has for a message besides the window: 1 to 9, twice as much with each step; default 5.</summary>
    public int MemoryLevel { get; init; } = 5;

    internal DeflateTerms AsServer() => new() { ServerForgets = Forgets, ClientForgets = PeerForgets, ServerBits = WindowBits, ClientBits = PeerWindowBits };

    // What the server sends may have any window up to what was asked for; its own the client can always make smaller.
    internal DeflateTerms AsClient() => new() { ServerForgets = PeerForgets, ClientForgets = Forgets, ServerBits = PeerWindowBits, ClientBits = DeflateTerms.MostBits, OffersClientBits = true };

    internal void Check(List<string> mistakes)
    {
        if (Level is < 1 or > 9) mistakes.Add($"Deflate.{nameof(Level)} is {Level}: 1 to 9.");
        if (LeastBytes < 0) mistakes.Add($"Deflate.{nameof(LeastBytes)} is {LeastBytes}: 0 and more.");
        if (WindowBits is < DeflateTerms.LeastWrittenBits or > DeflateTerms.MostBits) mistakes.Add($"Deflate.{nameof(WindowBits)} is {WindowBits}: 9 to 15.");
        if (PeerWindowBits is < DeflateTerms.LeastWrittenBits or > DeflateTerms.MostBits) mistakes.Add($"Deflate.{nameof(PeerWindowBits)} is {PeerWindowBits}: 9 to 15.");
        if (MemoryLevel is < 1 or > 9) mistakes.Add($"Deflate.{nameof(MemoryLevel)} is {MemoryLevel}: 1 to 9.");
    }
}
