using Whimbrel.Http.Parsing;

namespace Whimbrel.Http.Files;

/// <summary>Cached data of one name: the file and its variants. Immutable, except for the time of the last check and
/// variants compressed since.</summary>
internal sealed class FileEntry
{
    private const int OwnBytes = 1024;

    private long _checkedMs;
    private FileVariant? _gzip;
    private FileVariant? _brotli;

    internal FileEntry(byte[] name, FileVariant plain, FileVariant? gzip, FileVariant? brotli, FoundFile[] seen)
    {
        Name = name;
        Plain = plain;
        _gzip = gzip;
        _brotli = brotli;
        Seen = seen;
    }

    /// <summary>Path of the entry.</summary>
    internal byte[] Name { get; }

    internal FileVariant Plain { get; }

    /// <summary>State of each checked name on disk when the entry was created. While it is the same, the entry is
    /// valid.</summary>
    internal FoundFile[] Seen { get; }

    internal FileVariant? Gzip => Volatile.Read(ref _gzip);

    internal FileVariant? Brotli => Volatile.Read(ref _brotli);

    /// <summary>Reference bit of the CLOCK eviction algorithm: set on access, cleared by the sweep.</summary>
    internal bool WasUsed { get; set; }

    /// <summary>Whether it is in the cache. Guarded by the lock of the cache.</summary>
    internal bool IsKept { get; set; }

    internal bool HasOpenFile => Plain.Source is not null || Gzip?.Source is not null || Brotli?.Source is not null;

    internal long Bytes => OwnBytes + Name.Length + BytesOf(Plain) + BytesOf(Gzip) + BytesOf(Brotli);

    internal bool IsFresh(long nowMs, long freshMs) => nowMs - Volatile.Read(ref _checkedMs) < freshMs;

    internal void SetChecked(long nowMs) => Volatile.Write(ref _checkedMs, nowMs);

    internal FileVariant VariantFor(HttpRequest request)
    {
        FileVariant? gzip = Gzip, brotli = Brotli;
        if (gzip is null && brotli is null) return Plain;
        using HttpRequest.RequestUse use = request.Enter();
        return use.Exchange.ChooseCoding(gzip is not null, brotli is not null, out _) switch
        {
            HttpCoding.Gzip => gzip!,
            HttpCoding.Brotli => brotli!,
            _ => Plain,
        };
    }

    /// <summary>Releases the cache's reference. Sends in progress continue.</summary>
    internal void Drop()
    {
        Plain.EndUse();
        Gzip?.EndUse();
        Brotli?.EndUse();
    }

    private static long BytesOf(FileVariant? variant) => variant?.Bytes?.Length ?? 0;
}
