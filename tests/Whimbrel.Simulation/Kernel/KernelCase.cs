using System.Net;
using Whimbrel.Testing;

namespace Whimbrel.Simulation.Kernel;

// One situation on a simulated kernel without faults: a server, its sessions, and peers controlled by the test.
internal sealed class KernelCase : IDisposable
{
    private const int MostSteps = 20_000;
    private const int WireBytes = 64 * 1024;

    private readonly Server _server;

    internal KernelCase(Func<SimKernel, KernelEngine> engine)
    {
        SeedRun.NeedsPointers();
        Kernel = new SimKernel(new Dice(1), new KernelFaults(), WireBytes);
        Engine = engine(Kernel);
        _server = new Server(
            new ServerOptions { Engine = Engine, EndPoint = new IPEndPoint(IPAddress.Loopback, 0) },
            () =>
            {
                Counted session = new();
                Sessions.Add(session);
                return session;
            });
        Task starting = _server.StartAsync().AsTask();
        RunUntil(() => starting.IsCompleted);
    }

    internal SimKernel Kernel { get; }

    internal KernelEngine Engine { get; }

    internal Loop Loop => Engine.Loops[0];

    internal List<Session> Sessions { get; } = [];

    // It waits in the backlog.
    internal MemorySocket Connect() => Kernel.Connect(_server.EndPoint!)!;

    internal void RunUntil(Func<bool> isDone)
    {
        for (int steps = 0; !isDone(); steps++)
        {
            Assert.True(steps < MostSteps, $"not there after {MostSteps} steps");
            Assert.True(Engine.RunOne() || isDone(), "nothing is left to happen");
        }
    }

    public void Dispose()
    {
        Task ending = Engine.DisposeAsync().AsTask();
        RunUntil(() => ending.IsCompleted);
        while (Engine.RunOne())
        {
        }

        Engine.Free();
    }

    private sealed class Counted : Session;
}
