using System.Globalization;

namespace Whimbrel.Hosting;

/// <summary>Loops that have not answered, and the duration.</summary>
/// <param name="Loops">Indexes of the loops.</param>
/// <param name="Longest">Longest time without an answer.</param>
/// <param name="Sessions">Number of the server's sessions on them.</param>
internal readonly record struct LoopSilence(IReadOnlyList<int> Loops, TimeSpan Longest, int Sessions)
{
    internal string TextFor(string server) => string.Create(
        CultureInfo.InvariantCulture,
        $"{server}: loop {string.Join(", ", Loops)} has not answered for {Longest.TotalSeconds:0.#} s, and {Sessions} "
        + $"of its sessions wait there. A callback blocks it: docs/symptoms/blocked-loop.md");
}
