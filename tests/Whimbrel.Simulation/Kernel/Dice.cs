namespace Whimbrel.Simulation.Kernel;

// Random numbers from a seed (SplitMix64): creating a System.Random takes too long for a scenario of a tenth of a
// millisecond.
internal sealed class Dice(ulong seed)
{
    private ulong _state = seed * 0x9E3779B97F4A7C15;

    internal int Next(int below) => (int)(((Draw() >> 32) * (ulong)below) >> 32);

    internal int Next(int from, int below) => from + Next(below - from);

    internal bool Chance(int perMille) => perMille > 0 && Next(1000) < perMille;

    internal T Pick<T>(params ReadOnlySpan<T> values) => values[Next(values.Length)];

    private ulong Draw()
    {
        ulong z = _state += 0x9E3779B97F4A7C15;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
        return z ^ (z >> 31);
    }
}
