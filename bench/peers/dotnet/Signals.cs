using System.Globalization;
using System.Runtime.InteropServices;

namespace Whimbrel.Bench.Peers;

/// <summary> Requests of the runner to a running .NET server, by signal: SIGUSR1 prints the number of allocated bytes,
/// SIGUSR2 collects garbage, so that memory can be measured without it. Responses are single lines on stdout.
/// </summary>
internal sealed class Signals : IDisposable
{
    // PosixSignal names neither; the class takes raw numbers, and these are Linux's on x64 and arm64.
    private const PosixSignal SigUsr1 = (PosixSignal)10;
    private const PosixSignal SigUsr2 = (PosixSignal)12;

    private readonly PosixSignalRegistration _allocated = PosixSignalRegistration.Create(SigUsr1, PrintAllocated);
    private readonly PosixSignalRegistration _collect = PosixSignalRegistration.Create(SigUsr2, Collect);

    public void Dispose()
    {
        _allocated.Dispose();
        _collect.Dispose();
    }

    private static void PrintAllocated(PosixSignalContext context)
    {
        context.Cancel = true;
        Print(string.Create(CultureInfo.InvariantCulture, $"allocated {GC.GetTotalAllocatedBytes(precise: true)}"));
    }

    private static void Collect(PosixSignalContext context)
    {
        context.Cancel = true;
        // Twice, because the second pass frees what the first one only finalizes. Aggressive returns the pages to the
        // system.
        GC.Collect(GC.MaxGeneration, GCCollectionMode.Aggressive, blocking: true, compacting: true);
        GC.WaitForPendingFinalizers();
        GC.Collect(GC.MaxGeneration, GCCollectionMode.Aggressive, blocking: true, compacting: true);
        Print("collected");
    }

    private static void Print(string line)
    {
        Console.Out.WriteLine(line);
        Console.Out.Flush();
    }
}
