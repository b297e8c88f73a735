namespace Whimbrel.Clusters;

/// <summary>Limits of a group's history. Above any of them the oldest entries are removed.</summary>
public sealed record HistoryLimits
{
    /// <summary>Maximum number of broadcasts: default 1000, 1 up to a million.</summary>
    public int MaxCount { get; init; } = 1000;

    /// <summary>
    /// Maximum number of bytes including envelopes: default 1 MiB, 1 KiB to 1 GiB. The newest broadcast is always kept.
    /// </summary>
    public long MaxBytes { get; init; } = 1 << 20;

    /// <summary>Maximum age: default 5 minutes, 1 s to 7 days.</summary>
    public TimeSpan MaxAge { get; init; } = TimeSpan.FromMinutes(5);

    internal void Check()
    {
        if (MaxCount is < 1 or > 1_000_000) Refuse(nameof(MaxCount), "1 up to a million");
        if (MaxBytes is < 1024 or > 1 << 30) Refuse(nameof(MaxBytes), "1 KiB up to 1 GiB");
        if (MaxAge < TimeSpan.FromSeconds(1) || MaxAge > TimeSpan.FromDays(7))
            Refuse(nameof(MaxAge), "1 s up to 7 days");
    }

    private static void Refuse(string name, string allowed) =>
        throw new ArgumentException($"{nameof(HistoryLimits)}.{name} has to be {allowed}.", name);
}
