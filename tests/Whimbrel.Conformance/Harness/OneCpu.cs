using System.Runtime.InteropServices;

namespace Whimbrel.Conformance;

/// <summary>Binds all threads of this process to one cpu until it is disposed. New threads inherit it.</summary>
// Safe: the mask is a local array of the size that is passed.
internal sealed unsafe class OneCpu : IDisposable
{
    private const int Words = 16;

    private readonly ulong[] _before = new ulong[Words];

    internal OneCpu()
    {
        fixed (ulong* mask = _before)
        {
            if (SchedGetAffinity(0, Words * sizeof(ulong), mask) < 0)
                throw new InvalidOperationException("sched_getaffinity failed.");
        }

        int cpu = Array.FindIndex(_before, static w => w != 0) is var word and >= 0
            ? word * 64 + System.Numerics.BitOperations.TrailingZeroCount(_before[word])
            : 0;
        ulong[] one = new ulong[Words];
        one[cpu / 64] = 1UL << (cpu % 64);
        Bind(one);
    }

    public void Dispose() => Bind(_before);

    private static void Bind(ulong[] cpus)
    {
        foreach (string task in Directory.GetDirectories("/proc/self/task"))
        {
            // A thread that has ended meanwhile needs nothing.
            fixed (ulong* mask = cpus)
                _ = SchedSetAffinity(int.Parse(Path.GetFileName(task)), Words * sizeof(ulong), mask);
        }
    }

    [DllImport("libc", EntryPoint = "sched_setaffinity")]
    private static extern int SchedSetAffinity(int thread, nint size, ulong* mask);

    [DllImport("libc", EntryPoint = "sched_getaffinity")]
    private static extern int SchedGetAffinity(int thread, nint size, ulong* mask);
}
