using System.Globalization;
using System.Runtime.InteropServices;

namespace Whimbrel.Bench.Peers;

/// <summary>
/// What the runner may ask of a .NET server while it runs, by signal: SIGUSR1 prints the bytes allocated so far,
/// SIGUSR2 collects, so that memory can be read without garbage in it. Answers are single lines on stdout.
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
        // Twice: what the first pass only finalizes, the second frees. Aggressive gives the pages back to the system.
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
