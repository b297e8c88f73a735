using HdrHistogram;

namespace Whimbrel.Tool.Bench;

/// <summary>Percentiles of the report. One is left out if fewer messages were measured than it needs to have one above
/// it.</summary>
internal static class Percentiles
{
    /// <summary>The percentiles and their names in the report.</summary>
    internal static IReadOnlyList<(string Name, double Percent)> All { get; } =
    [
        ("p50", 50), ("p75", 75), ("p90", 90), ("p95", 95), ("p99", 99), ("p99.5", 99.5), ("p99.9", 99.9),
        ("p99.95", 99.95), ("p99.99", 99.99),
    ];

    private const int TicksInHalf = 5;

    /// <summary>Returns a percentile in nanoseconds; null if too few messages were measured.</summary>
    internal static long? Of(LongHistogram histogram, double percent)
    {
        // Rounded, because 100 - 99.99 is not exact.
        double needed = Math.Round(100 / (100 - percent), 3);
        return histogram.TotalCount < needed ? null : histogram.GetValueAtPercentile(percent);
    }

    internal static long MaxOf(LongHistogram histogram) =>
        histogram.TotalCount == 0 ? 0 : histogram.GetValueAtPercentile(100);

    /// <summary>Returns the whole curve: percentile and nanoseconds, denser towards 100.</summary>
    internal static IEnumerable<(double Percent, long Ns)> CurveOf(LongHistogram histogram) =>
        histogram.TotalCount == 0
            ? []
            : histogram.Percentiles(TicksInHalf).Select(static v => (v.PercentileLevelIteratedTo, v.ValueIteratedTo));
}
