using System.Globalization;

namespace Whimbrel.Hosting;

/// <summary>Loops that have not answered, and for how long.</summary>
/// <param name="Loops">Their indexes.</param>
/// <param name="Longest">The longest time that one of them has not answered.</param>
/// <param name="Sessions">The server's sessions on them.</param>
internal readonly record struct LoopSilence(IReadOnlyList<int> Loops, TimeSpan Longest, int Sessions)
{
    internal string TextFor(string server) => string.Create(
        CultureInfo.InvariantCulture,
        $"{server}: loop {string.Join(", ", Loops)} has not answered for {Longest.TotalSeconds:0.#} s, and {Sessions} of its sessions wait there. A callback blocks it: docs/symptoms/blocked-loop.md");
}
