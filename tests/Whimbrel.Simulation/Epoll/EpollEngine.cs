using Whimbrel.Engines.Epoll;
using Whimbrel.Simulation.Kernel;

namespace Whimbrel.Simulation.Epoll;

// The epoll engine on simulated sets.
internal sealed class EpollEngine : KernelEngine
{
    private readonly SimEpoll[] _sets;

    internal EpollEngine(SimKernel kernel, int loops, Action<DiagnosticEvent> onDiagnosticEvent)
        : base(kernel, "epoll", onDiagnosticEvent)
    {
        _sets = new SimEpoll[loops];
        EpollSockets sockets = new(kernel);
        Loops = new Loop[loops];
        for (int i = 0; i < loops; i++)
        {
            _sets[i] = new SimEpoll(kernel, RunWhileAsleep);
            Loops[i] = _sets[i].Loop = new EpollLoop(this, i, _sets[i], sockets);
        }
    }

    internal override string Shape => $"{Loops.Length} loops";

    private protected override bool IsReady(int loop) => _sets[loop].IsReady;

    internal override void Free()
    {
        // Owns no memory: the loops free theirs when they end.
    }
}
