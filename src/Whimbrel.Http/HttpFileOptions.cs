namespace Whimbrel.Http;

/// <summary>Rules and cache limits of <see cref="HttpRoutes.Files"/>. Immutable data, checked there.</summary>
public sealed class HttpFileOptions
{
    private const int MostFiles = 1_000_000;

    private static readonly Files.ContentTypes s_known = new();

    /// <summary>Index file names of a folder; the first existing one is served. Default <c>index.html</c>; empty for
    /// none. Folders are never listed.</summary>
    public IReadOnlyList<string> IndexPages { get; init; } = ["index.html"];

    /// <summary>Whether the folder may be missing at registration and created later: until then its files get 404.
    /// Default false: a missing folder throws.</summary>
    public bool MayBeMissing { get; init; }

    /// <summary>Whether names that begin with a dot are served. Default false.</summary>
    public bool ServesDotFiles { get; init; }

    /// <summary>Symbolic links below the root. Default <see cref="HttpFileLinks.Inside"/>.</summary>
    public HttpFileLinks Links { get; init; }

    /// <summary>Additional content types by file extension with its dot, which override the known ones. Default null:
    /// none.</summary>
    public IReadOnlyDictionary<string, string>? ContentTypes { get; init; }

    /// <summary>Value of Cache-Control. Default null: none.</summary>
    public string? CacheControl { get; init; }

    /// <summary>Whether <c>name.br</c> and <c>name.gz</c> beside a file are sent to clients that accept them. Default
    /// true.</summary>
    public bool UsesNeighbours { get; init; } = true;

    /// <summary>Largest total of small files in memory, in bytes. 0 to 1 TiB; default 64 MiB.</summary>
    public long CacheLimitBytes { get; init; } = 64L * 1024 * 1024;

    /// <summary>Largest number of cached files, in memory or as open descriptors. 1 to 1,000,000; default
    /// 1,000.</summary>
    public int CacheLimitFiles { get; init; } = 1000;

    /// <summary>Largest file that is kept in memory, in bytes; larger ones are sent by the system. 0 to 16 MiB; default
    /// 128 KiB.</summary>
    public int SmallFileBytes { get; init; } = 128 * 1024;

    /// <summary>Time for which cached data of a file is used before the disk is checked again. 0 to 1 day; default 1
    /// s.</summary>
    public TimeSpan Freshness { get; init; } = TimeSpan.FromSeconds(1);

    /// <summary>Returns the known content type of a file extension; <c>application/octet-stream</c> if it is
    /// unknown.</summary>
    /// <param name="name">A name, a path, or an extension with its dot.</param>
    public static string ContentTypeOf(string name)
    {
        ArgumentNullException.ThrowIfNull(name);
        return s_known.Of(name);
    }

    /// <summary>Throws with all errors at once.</summary>
    internal void Check()
    {
        List<string> mistakes = [];
        if (CacheLimitBytes is < 0 or > 1L << 40)
            mistakes.Add($"{nameof(CacheLimitBytes)} is {CacheLimitBytes}: 0 up to 1 TiB is possible.");
        if (CacheLimitFiles is < 1 or > MostFiles)
            mistakes.Add($"{nameof(CacheLimitFiles)} is {CacheLimitFiles}: 1 up to {MostFiles} is possible.");
        if (SmallFileBytes is < 0 or > 16 << 20)
            mistakes.Add($"{nameof(SmallFileBytes)} is {SmallFileBytes}: 0 up to 16 MiB is possible.");
        if (Freshness < TimeSpan.Zero || Freshness > TimeSpan.FromDays(1))
            mistakes.Add($"{nameof(Freshness)} is {Freshness}: 0 up to 1 day is possible.");
        if (!Enum.IsDefined(Links)) mistakes.Add($"{nameof(Links)} is {Links}.");
        foreach (string page in IndexPages)
        {
            if (page.Length == 0 || page.AsSpan().IndexOfAny('/', '\\', '\0') >= 0)
                mistakes.Add($"{nameof(IndexPages)} has '{page}', which is not the name of a file.");
        }

        foreach ((string ending, string type) in ContentTypes ?? new Dictionary<string, string>())
        {
            if (!ending.StartsWith('.'))
                mistakes.Add($"{nameof(ContentTypes)} has '{ending}': an ending begins with a dot.");
            if (type.AsSpan().IndexOfAnyExceptInRange(' ', '~') >= 0)
                mistakes.Add($"{nameof(ContentTypes)} has a type for '{ending}' that cannot stand in a field.");
        }

        if (CacheControl is { } value
            && (value.Length is 0 or > 1000 || value.AsSpan().IndexOfAnyExceptInRange(' ', '~') >= 0))
            mistakes.Add($"{nameof(CacheControl)} cannot stand in a field.");
        if (mistakes.Count > 0) throw new ArgumentException($"{nameof(HttpFileOptions)}: {string.Join(' ', mistakes)}");
    }
}
