using System.Diagnostics;

namespace Whimbrel.Tool.Bench;

/// <summary>Monotonic nanoseconds.</summary>
internal static class Clock
{
    internal const long NsInMs = 1_000_000;
    internal const long NsInSecond = 1_000_000_000;

    private static readonly double s_nsInTick = NsInSecond / (double)Stopwatch.Frequency;

    internal static long Now() => Stopwatch.Frequency == NsInSecond
        ? Stopwatch.GetTimestamp()
        : (long)(Stopwatch.GetTimestamp() * s_nsInTick);

    internal static long Ns(TimeSpan time) => time.Ticks * TimeSpan.NanosecondsPerTick;
}
