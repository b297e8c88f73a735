using System.Diagnostics;

namespace Whimbrel.Compat.Tests.Connections;

/// <summary>Events in order, from many threads.</summary>
internal sealed class Log
{
    internal static readonly TimeSpan Patience = TimeSpan.FromSeconds(30);

    private readonly Lock _gate = new();
    private readonly List<string> _lines = [];

    internal void Add(string line)
    {
        lock (_gate) _lines.Add(line);
    }

    internal string[] Lines
    {
        get
        {
            lock (_gate) return [.. _lines];
        }
    }

    internal int Count(string line) => Lines.Count(l => l == line);

    internal void Until(string line, int times = 1) =>
        Until(() => Count(line) >= times, $"{times} x '{line}'; there were: {string.Join(", ", Lines)}");

    internal static void Until(Func<bool> condition, string what)
    {
        long start = Stopwatch.GetTimestamp();
        while (!condition())
        {
            Assert.True(Stopwatch.GetElapsedTime(start) < Patience, "Waited for " + what);
            Thread.Sleep(1); // tidy: waits because the condition is polled
        }
    }
}
