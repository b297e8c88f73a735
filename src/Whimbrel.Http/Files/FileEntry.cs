using Whimbrel.Http.Parsing;

namespace Whimbrel.Http.Files;

/// <summary>What is known of one name: the file as it is, and the variants beside it. Does not change, but for the time of the last look and what was compressed since.</summary>
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

    /// <summary>The path it is known by.</summary>
    internal byte[] Name { get; }

    internal FileVariant Plain { get; }

    /// <summary>What the disk said when this was made, of each name that was looked at: the same again, and it still holds.</summary>
    internal FoundFile[] Seen { get; }

    internal FileVariant? Gzip => Volatile.Read(ref _gzip);

    internal FileVariant? Brotli => Volatile.Read(ref _brotli);

    /// <summary>Somebody asked for it since the clock's hand came by.</summary>
    internal bool WasUsed { get; set; }

    /// <summary>It is in the cache, whose lock guards this.</summary>
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

    /// <summary>The cache gives it up; who sends of it goes on.</summary>
    internal void Drop()
    {
        Plain.EndUse();
        Gzip?.EndUse();
        Brotli?.EndUse();
    }

    private static long BytesOf(FileVariant? variant) => variant?.Bytes?.Length ?? 0;
}
