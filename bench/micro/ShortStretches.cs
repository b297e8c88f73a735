using System.Diagnostics;
using System.Globalization;

namespace Whimbrel.Bench.Micro;

/// <summary>Medians of rounds, each the median of many short stretches, when the runtime has compiled what it finds hot.</summary>
internal static class ShortStretches
{
    private const int Stretches = 400;
    private static readonly TimeSpan _warmUp = TimeSpan.FromSeconds(1);

    /// <summary>Prints one line.</summary>
    /// <param name="name">What is measured.</param>
    /// <param name="rounds">How many count.</param>
    /// <param name="operations">In one stretch.</param>
    /// <param name="stretch">Does them, and says how many went well.</param>
    /// <returns>All did.</returns>
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
        Console.WriteLine(string.Create(CultureInfo.InvariantCulture, $"{name,-28} {medians[medians.Count / 2],8:F1} ns  ({medians[0]:F1} to {medians[^1]:F1})"));
        return done == begun;
    }
}
