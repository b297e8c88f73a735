using Whimbrel.Engines.Uring;
using Whimbrel.Linux;
using Whimbrel.Simulation.Kernel;

namespace Whimbrel.Simulation.Uring;

// The io_uring engine on simulated rings.
internal sealed class RingEngine : KernelEngine
{
    private readonly SimKernel _kernel;
    private readonly RingShape _shape;
    private readonly List<SimRing> _rings = [];
    private readonly SimRing?[] _current;

    internal RingEngine(SimKernel kernel, RingShape shape, Action<DiagnosticEvent> onDiagnosticEvent)
        : base(kernel, "uring", onDiagnosticEvent)
    {
        _kernel = kernel;
        _shape = shape;
        _current = new SimRing[shape.Loops];
        RingSockets sockets = new(kernel);
        Loops = new Loop[shape.Loops];
        for (int i = 0; i < shape.Loops; i++)
        {
            int index = i;
            Loops[i] = new UringLoop(this, i, () => OpenRing(index), sockets);
        }
    }

    internal override string Shape => _shape.ToString();

    private protected override bool IsReady(int loop) => _current[loop] is { IsReady: true };

    private SimRing OpenRing(int index)
    {
        // Replaces a broken ring; other tests cover a failing start.
        if (IsStarted && _kernel.Chance(_kernel.Faults.NoRing, "no other ring"))
            throw new NetworkException(new NetworkError(Errno.ENOMEM, ErrorCategory.System, "No ring, by the test."));
        SimRing ring = new(_kernel, _shape.SubmitEntries, _shape.CompleteEntries, _shape.Buffers, _shape.BufferBytes,
            _shape.CanLimitReceive, () => OthersWhileAsleep(index));
        _rings.Add(ring);
        return _current[index] = ring;
    }

    private void OthersWhileAsleep(int index)
    {
        if (RunWhileAsleep() && !_current[index]!.IsWoken && Loops[index].Mailbox.Any)
            throw _kernel.Violation("an item was posted to a sleeping loop that is not woken");
    }

    internal override void Free()
    {
        foreach (SimRing ring in _rings) ring.Free();
        _rings.Clear();
    }
}
