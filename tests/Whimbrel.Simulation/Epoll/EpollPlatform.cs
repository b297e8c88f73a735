using Whimbrel.Simulation.Kernel;

namespace Whimbrel.Simulation.Epoll;

// The epoll engine.
internal sealed class EpollPlatform : SimPlatform
{
    internal static EpollPlatform One { get; } = new();

    internal override int KindsOfFaults => 18;

    internal override bool TellsOfTheClosed => true;

    internal override bool StopsAtOnce => true;

    internal override bool IsWide => true;

    internal override KernelFaults DrawFaults(Dice dice, bool isHarsh) => new()
    {
        EnterError = dice.Pick(0, 0, 50, 200),
        Late = dice.Pick(0, 100, 400),
        Stray = dice.Pick(0, 0, 30, 200),
        Short = dice.Pick(0, 0, 100, 500),
        Passing = dice.Pick(0, 0, 20, 100),
        WhileAsleep = dice.Pick(0, 300, 900),
        Fatal = isHarsh ? dice.Pick(0, 5, 30) : 0,
        AcceptError = isHarsh ? dice.Pick(0, 50, 300) : 0,
        ConnectError = isHarsh ? dice.Pick(0, 200) : 0,
        ControlError = isHarsh ? dice.Pick(0, 0, 30) : 0,
        Duplicate = dice.Pick(0, 0, 0, 100),
    };

    internal override KernelEngine MakeEngine(SimKernel kernel, bool isBulk, Action<DiagnosticEvent> onDiagnosticEvent)
    {
        int loops = kernel.Dice.Pick(1, 1, 2, 3);
        // Descriptors of the loops themselves (epoll set, wake, reserve) do not count.
        if (kernel.DescriptorLimit != int.MaxValue) kernel.DescriptorLimit += 3 * loops;
        return new EpollEngine(kernel, loops, onDiagnosticEvent);
    }
}
