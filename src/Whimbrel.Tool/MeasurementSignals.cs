using System.Globalization;
using System.Runtime;
using System.Runtime.InteropServices;

namespace Whimbrel.Tool;

/// <summary>Signals of benchmarks, on Linux only: SIGUSR1 prints allocated bytes and turns of the loops, SIGUSR2 runs a
/// collection.</summary>
internal sealed class MeasurementSignals : IDisposable
{
    private const PosixSignal Usr1 = (PosixSignal)10;
    private const PosixSignal Usr2 = (PosixSignal)12;

    private readonly PosixSignalRegistration[] _registrations;
    private readonly Engine _engine;

    internal MeasurementSignals(Engine engine)
    {
        _engine = engine;
        // The raw numbers mean these signals on Linux only, and only Linux has this file.
        _registrations = File.Exists("/proc/self/status")
            ? [PosixSignalRegistration.Create(Usr1, Allocated), PosixSignalRegistration.Create(Usr2, Collect)]
            : [];
    }

    public void Dispose()
    {
        foreach (PosixSignalRegistration registration in _registrations) registration.Dispose();
    }

    private void Allocated(PosixSignalContext context)
    {
        context.Cancel = true;
        EngineCounters counters = _engine.ReadCounters();
        Console.Out.WriteLine(string.Create(
            CultureInfo.InvariantCulture,
            $"allocated {GC.GetTotalAllocatedBytes(precise: true)} turns {counters.Turns} empty {counters.EmptyTurns} "
            + $"completions {counters.Completions}"));
    }

    private static void Collect(PosixSignalContext context)
    {
        context.Cancel = true;
        for (int i = 0; i < 2; i++)
        {
            // Aggressive gives free memory back to the system as well.
            GCSettings.LargeObjectHeapCompactionMode = GCLargeObjectHeapCompactionMode.CompactOnce;
            GC.Collect(GC.MaxGeneration, GCCollectionMode.Aggressive, blocking: true, compacting: true);
            GC.WaitForPendingFinalizers();
        }

        Console.Out.WriteLine("collected");
    }
}
