namespace Whimbrel.Simulation.Kernel;

// Which engine a scenario runs on. The scenarios, their peers and what is judged are the same for all.
internal abstract class SimPlatform
{
    // What a tally of many seeds must hold: see SimKernel.Chance.
    internal abstract int KindsOfFaults { get; }

    // A loop may be told of what is closed: then it does nothing.
    internal abstract bool TellsOfTheClosed { get; }

    // Nothing is received for a connection that has stopped to.
    internal abstract bool StopsAtOnce { get; }

    // Sessions send from files and end one another, too. Not where the seeds are older than that.
    internal abstract bool IsWide { get; }

    internal abstract KernelFaults DrawFaults(Dice dice, bool isHarsh);

    internal abstract KernelEngine MakeEngine(SimKernel kernel, bool isBulk, Action<Notice> onNotice);
}
