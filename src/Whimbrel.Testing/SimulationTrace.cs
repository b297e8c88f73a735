using System.Globalization;
using System.Text;

namespace Whimbrel.Testing;

/// <summary>Trace of a simulation: a hash of all steps, and the last steps as text.</summary>
internal sealed class SimulationTrace
{
    private const int Kept = 200;

    private readonly (string What, int Id, long Value)[] _last = new (string, int, long)[Kept];
    private ulong _hash = 14695981039346656037;

    internal long Steps { get; private set; }

    internal ulong Hash => _hash;

    internal void Add(string what, int id, long value)
    {
        _last[Steps++ % Kept] = (what, id, value);
        Mix(((uint)what.Length << 16) | ((uint)what[0] << 8) | (byte)what[^1]);
        Mix((uint)id);
        Mix((ulong)value);
    }

    private void Mix(ulong value) => _hash = (_hash ^ value) * 1099511628211;

    public override string ToString()
    {
        StringBuilder text = new();
        long first = Math.Max(0, Steps - Kept);
        for (long i = first; i < Steps; i++)
        {
            (string what, int id, long value) = _last[i % Kept];
            text.Append(CultureInfo.InvariantCulture, $"  {i}: {what} #{id} {value}\n");
        }

        return text.ToString();
    }
}
