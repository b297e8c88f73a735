using System.Diagnostics;
using System.Globalization;

namespace Whimbrel.Bench.Micro;

/// <summary>Medians of rounds, each the median of many short stretches, after the runtime has recompiled hot
/// code.</summary>
internal static class ShortStretches
{
    private const int Stretches = 400;
    private static readonly TimeSpan _warmUp = TimeSpan.FromSeconds(1);

    /// <summary>Prints one line.</summary>
    /// <param name="name">Name of the measurement.</param>
    /// <param name="rounds">Number of rounds that count.</param>
    /// <param name="operations">Number of operations per stretch.</param>
    /// <param name="stretch">Runs the operations, and returns the number of successful ones.</param>
    /// <returns>True if all succeeded.</returns>
    internal static bool Measure(string name, int rounds, int operations, Func<int> stretch)
    {
        List<double> medians = [];
        long done = 0, begun = 0;
        var start = Stopwatch.GetTimestamp();
        for (; Stopwatch.GetElapsedTime(start) < _warmUp; begun += operations) done += stretch();
        for (var round = 0; round < rounds; round++)
        {
            List<double> ticks = [];
            for (var i = 0; i < Stretches; i++)
            {
                start = Stopwatch.GetTimestamp();
                done += stretch();
                begun += operations;
                ticks.Add((Stopwatch.GetTimestamp() - start) * 1e9 / Stopwatch.Frequency / operations);
            }

            ticks.Sort();
            medians.Add(ticks[ticks.Count / 2]);
        }

        medians.Sort();
        Console.WriteLine(string.Create(CultureInfo.InvariantCulture,
            $"{name,-28} {medians[medians.Count / 2],8:F1} ns  ({medians[0]:F1} to {medians[^1]:F1})"));
        return done == begun;
    }
}
