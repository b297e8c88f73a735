namespace Whimbrel.Simulation.Kernel;

// The engine of a scenario. The scenarios, their peers and their checks are the same for all.
internal abstract class SimPlatform
{
    // Checks the fault counts of many seeds: see SimKernel.Chance.
    internal abstract int KindsOfFaults { get; }

    // Events of closed descriptors may be reported to a loop, which must ignore them.
    internal abstract bool TellsOfTheClosed { get; }

    // A connection that has stopped receiving receives nothing more.
    internal abstract bool StopsAtOnce { get; }

    // Sessions send files and abort each other. Not for older seeds.
    internal abstract bool IsWide { get; }

    internal abstract KernelFaults DrawFaults(Dice dice, bool isHarsh);

    internal abstract KernelEngine MakeEngine(SimKernel kernel, bool isBulk, Action<DiagnosticEvent> onDiagnosticEvent);
}
