namespace Whimbrel.Clusters;

/// <summary>How much of a group is kept: what is beyond one of them goes, oldest first.</summary>
public sealed record HistoryLimits
{
    /// <summary>Most broadcasts: default 1000, up to a million.</summary>
    public int MaxCount { get; init; } = 1000;

    /// <summary>Most bytes with their envelopes: default 1 MiB, 1 KiB to 1 GiB. The newest broadcast is kept in any case.</summary>
    public long MaxBytes { get; init; } = 1 << 20;

    /// <summary>Longest time: default 5 minutes, 1 s to 7 days.</summary>
    public TimeSpan MaxAge { get; init; } = TimeSpan.FromMinutes(5);

    internal void Check()
    {
        if (MaxCount is < 1 or > 1_000_000) Refuse(nameof(MaxCount), "1 up to a million");
        if (MaxBytes is < 1024 or > 1 << 30) Refuse(nameof(MaxBytes), "1 KiB up to 1 GiB");
        if (MaxAge < TimeSpan.FromSeconds(1) || MaxAge > TimeSpan.FromDays(7)) Refuse(nameof(MaxAge), "1 s up to 7 days");
    }

    private static void Refuse(string name, string allowed) => throw new ArgumentException($"{nameof(HistoryLimits)}.{name} has to be {allowed}.", name);
}
