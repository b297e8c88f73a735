namespace Whimbrel.Tool.Bench;

/// <summary>Errors by kind, with one example of each, and statuses of HTTP. The loop's thread; merged at the end.
/// </summary>
internal sealed class ErrorCounts
{
    /// <summary>Maximum number of kinds; further ones are counted as <c>other</c>.</summary>
    internal const int MostKinds = 32;

    private readonly SortedDictionary<string, (long Count, string Example)> _kinds = new(StringComparer.Ordinal);
    private readonly SortedDictionary<int, long> _statuses = [];

    internal IReadOnlyDictionary<string, (long Count, string Example)> Kinds => _kinds;

    internal IReadOnlyDictionary<int, long> Statuses => _statuses;

    internal long Total => _kinds.Values.Sum(static k => k.Count) + BadStatuses;

    /// <summary>Number of answers with a status of 400 or more.</summary>
    internal long BadStatuses => _statuses.Sum(static s => s.Key >= 400 ? s.Value : 0);

    internal void Add(string kind, string example, long count = 1)
    {
        if (_kinds.Count >= MostKinds - 1 && !_kinds.ContainsKey(kind)) kind = "other";
        _kinds[kind] = _kinds.TryGetValue(kind, out var known)
            ? (known.Count + count, known.Example)
            : (count, example);
    }

    internal void AddStatus(int status, long count = 1) =>
        _statuses[status] = _statuses.GetValueOrDefault(status) + count;

    internal void Add(ErrorCounts other)
    {
        foreach ((string kind, (long count, string example)) in other._kinds) Add(kind, example, count);
        foreach ((int status, long count) in other._statuses) AddStatus(status, count);
    }

    /// <summary>Returns the name of a cause in the report, such as <c>peer-reset</c>.</summary>
    internal static string KindOf(Enum cause)
    {
        string name = cause.ToString();
        return string.Concat(name.Select((c, i) => char.IsUpper(c) && i > 0
            ? $"-{char.ToLowerInvariant(c)}"
            : char.ToLowerInvariant(c).ToString()));
    }
}
