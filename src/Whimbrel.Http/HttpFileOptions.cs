namespace Whimbrel.Http;

/// <summary>How <see cref="HttpRoutes.Files"/> serves a folder. Plain data, checked there.</summary>
public sealed class HttpFileOptions
{
    private const int MostFiles = 1_000_000;

    private static readonly Files.ContentTypes s_known = new();

    /// <summary>Names that stand for a folder, the first that exists. Default <c>index.html</c>; empty for none. Folders are never listed.</summary>
    public IReadOnlyList<string> IndexPages { get; init; } = ["index.html"];

    /// <summary>Whether the folder may be missing when it is added, because it is made later: its files are 404 until then. Default false: a missing folder throws.</summary>
    public bool MayBeMissing { get; init; }

    /// <summary>Whether names that begin with a dot are served. Default false.</summary>
    public bool ServesDotFiles { get; init; }

    /// <summary>Symbolic links below the root. Default <see cref="HttpFileLinks.Inside"/>.</summary>
    public HttpFileLinks Links { get; init; }

    /// <summary>Content types by the ending with its dot, looked at before those that are known. Default none.</summary>
    public IReadOnlyDictionary<string, string>? ContentTypes { get; init; }

    /// <summary>The value of Cache-Control; null (the default) for none.</summary>
    public string? CacheControl { get; init; }

    /// <summary>Whether <c>name.br</c> and <c>name.gz</c> beside a file are sent to those who take them. Default true.</summary>
    public bool UsesNeighbours { get; init; } = true;

    /// <summary>Bytes of small files that are kept in memory. 0 up to 1 TiB; default 64 MiB.</summary>
    public long CacheLimitBytes { get; init; } = 64L * 1024 * 1024;

    /// <summary>Files that are known, in memory or as open descriptors. 1 up to 1,000,000; default 1,000.</summary>
    public int CacheLimitFiles { get; init; } = 1000;

    /// <summary>A larger file is sent by the system, and not kept in memory. 0 up to 16 MiB; default 128 KiB.</summary>
    public int SmallFileBytes { get; init; } = 128 * 1024;

    /// <summary>How long what is known of a file is believed before the disk is asked again. 0 up to 1 day; default 1 s.</summary>
    public TimeSpan Freshness { get; init; } = TimeSpan.FromSeconds(1);

    /// <summary>The content type that is known for a file, by the ending of its name: <c>application/octet-stream</c> when that says nothing.</summary>
    /// <param name="name">A name, a path, or an ending with its dot.</param>
    public static string ContentTypeOf(string name)
    {
        ArgumentNullException.ThrowIfNull(name);
        return s_known.Of(name);
    }

    /// <summary>Throws with all mistakes at once.</summary>
    internal void Check()
    {
        List<string> mistakes = [];
        if (CacheLimitBytes is < 0 or > 1L << 40) mistakes.Add($"{nameof(CacheLimitBytes)} is {CacheLimitBytes}: 0 up to 1 TiB is possible.");
        if (CacheLimitFiles is < 1 or > MostFiles) mistakes.Add($"{nameof(CacheLimitFiles)} is {CacheLimitFiles}: 1 up to {MostFiles} is possible.");
        if (SmallFileBytes is < 0 or > 16 << 20) mistakes.Add($"{nameof(SmallFileBytes)} is {SmallFileBytes}: 0 up to 16 MiB is possible.");
        if (Freshness < TimeSpan.Zero || Freshness > TimeSpan.FromDays(1)) mistakes.Add($"{nameof(Freshness)} is {Freshness}: 0 up to 1 day is possible.");
        if (!Enum.IsDefined(Links)) mistakes.Add($"{nameof(Links)} is {Links}.");
        foreach (string page in IndexPages)
        {
            if (page.Length == 0 || page.AsSpan().IndexOfAny('/', '\\', '\0') >= 0) mistakes.Add($"{nameof(IndexPages)} has '{page}', which is not the name of a file.");
        }

        foreach ((string ending, string type) in ContentTypes ?? new Dictionary<string, string>())
        {
            if (!ending.StartsWith('.')) mistakes.Add($"{nameof(ContentTypes)} has '{ending}': an ending begins with a dot.");
            if (type.AsSpan().IndexOfAnyExceptInRange(' ', '~') >= 0) mistakes.Add($"{nameof(ContentTypes)} has a type for '{ending}' that cannot stand in a field.");
        }

        if (CacheControl is { } value && (value.Length is 0 or > 1000 || value.AsSpan().IndexOfAnyExceptInRange(' ', '~') >= 0)) mistakes.Add($"{nameof(CacheControl)} cannot stand in a field.");
        if (mistakes.Count > 0) throw new ArgumentException($"{nameof(HttpFileOptions)}: {string.Join(' ', mistakes)}");
    }
}
