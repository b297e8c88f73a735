using Whimbrel.Simulation.Kernel;

namespace Whimbrel.Simulation.Uring;

// The io_uring engine.
internal sealed class RingPlatform : SimPlatform
{
    internal static RingPlatform One { get; } = new();

    internal override int KindsOfFaults => 29;

    internal override bool TellsOfTheClosed => false;

    internal override bool StopsAtOnce => false;

    internal override bool IsWide => false;

    internal override KernelFaults DrawFaults(Dice dice, bool isHarsh)
    {
        int passing = dice.Pick(0, 0, 20, 100);
        return new KernelFaults
        {
            EnterError = dice.Pick(0, 0, 50, 200),
            ShortSubmit = dice.Pick(0, 0, 100, 400),
            Delay = dice.Pick(0, 100, 400),
            Late = dice.Pick(0, 100, 400),
            Reorder = dice.Pick(0, 300, 900),
            Short = dice.Pick(0, 0, 100, 500),
            Passing = passing,
            NoBuffer = dice.Pick(0, 0, 100),
            EndOfMultishot = dice.Pick(0, 50, 300),
            LateCancel = dice.Pick(0, 200, 600),
            FailedCancel = dice.Pick(0, 0, 200),
            CloseError = dice.Pick(0, 0, 200),
            Fatal = isHarsh ? dice.Pick(0, 5, 30) : 0,
            AcceptError = isHarsh ? dice.Pick(0, 50, 300) : 0,
            ConnectError = isHarsh ? dice.Pick(0, 200) : 0,
            Break = isHarsh ? dice.Pick(0, 0, 0, 300) : 0,
            NoRing = 50,
        };
    }

    internal override KernelEngine MakeEngine(SimKernel kernel, bool isBulk, Action<DiagnosticEvent> onDiagnosticEvent)
    {
        Dice dice = kernel.Dice;
        RingShape shape = new RingShape(
            dice.Pick(1, 1, 2, 3),
            dice.Pick<uint>(2, 4, 8, 32),
            dice.Pick<uint>(2, 4, 16, 64),
            isBulk ? dice.Pick(4, 8) : dice.Pick(1, 2, 4, 16),
            isBulk ? dice.Pick(17_000, 32 * 1024) : dice.Pick(16, 128, 1024),
            dice.Chance(500));
        return new RingEngine(kernel, shape, onDiagnosticEvent);
    }
}
