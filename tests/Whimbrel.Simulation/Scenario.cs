namespace Whimbrel.Simulation;

// Runs one world from start to end and checks the final state.
internal static class Scenario
{
    private const int StepLimit = 10_000_000; // a wire of one byte is slow

    internal readonly record struct Outcome(ulong TraceHash, long Steps, int Sessions);

    internal static Outcome Run(int seed, Action<string>? print = null)
    {
        World world = new(seed, print);
        try
        {
            return Run(world);
        }
        catch (Exception e) when (e is not OracleException)
        {
            world.Fail($"{e.GetType().Name}: {e.Message}\n{e.StackTrace}");
            world.ThrowIfFailed();
            throw;
        }
    }

    private static Outcome Run(World world)
    {
        Task starting = world.Server.StartAsync().AsTask();
        Drive(world, () => starting.IsCompleted, 1_000, "StartAsync");
        starting.GetAwaiter().GetResult();
        world.MakeClients();
        foreach (SimClient client in world.Clients)
        {
            bool cancellable = world.Chance(300);
            if (world.Chance(500)) client.Connect(cancellable);
            else world.Engine.Elsewhere(() => client.Connect(cancellable));
            if (cancellable && world.Chance(300)) world.Engine.Elsewhere(client.Cancel);
        }

        long until = world.Engine.StepCount + world.Pick(50, 300, 1_500);
        while (world.Engine.StepCount < until && world.Engine.RunOne()) world.ThrowIfFailed();

        bool isAbrupt = world.Chance(250);
        if (!isAbrupt) StopServer(world);
        if (!isAbrupt && world.Chance(700)) DisposeClients(world);
        world.Log("engine stops");
        Task disposing = world.Engine.DisposeAsync().AsTask();
        Drive(world, () => disposing.IsCompleted, 60_000, "DisposeAsync of the engine");
        Drive(world, () => world.Awaited.Count == 0, 60_000, "everything that was awaited");
        while (world.Engine.RunOne()) world.ThrowIfFailed();
        world.ThrowIfFailed();
        Judge(world);
        world.ThrowIfFailed();
        return new Outcome(world.Engine.TraceHash, world.Engine.StepCount, world.Sessions.Count);
    }

    private static void StopServer(World world)
    {
        TimeSpan deadline = TimeSpan.FromMilliseconds(world.Pick(0, 50, 5_000));
        world.Log($"server stops, deadline {deadline.TotalMilliseconds} ms");
        Task<StopReport> stopping = world.Server.StopAsync(deadline).AsTask();
        Drive(world, () => stopping.IsCompleted, (long)deadline.TotalMilliseconds + 1_000, "StopAsync");
        StopReport report = stopping.GetAwaiter().GetResult();
        world.Log($"server stopped: {report}");
        if (!report.IsComplete) world.Fail($"the stop was not complete: {report}");
        if (world.Server.SessionCount != 0) world.Fail($"{world.Server.SessionCount} sessions after the stop");
    }

    private static void DisposeClients(World world)
    {
        foreach (SimClient client in world.Clients)
        {
            Task disposing = client.DisposeAsync().AsTask();
            Drive(world, () => disposing.IsCompleted, 60_000, "DisposeAsync of a client");
        }
    }

    private static void Drive(World world, Func<bool> done, long withinMs, string what)
    {
        long steps = world.Engine.StepCount + StepLimit;
        long time = world.Engine.VirtualTimeMs + withinMs;
        while (!done())
        {
            world.ThrowIfFailed();
            if (!world.Engine.RunOne())
                world.Fail($"{what}: nothing is left to happen; waiting for {string.Join(", ", world.Awaited)}");
            else if (world.Engine.StepCount > steps)
                world.Fail($"{what}: not done after {StepLimit} steps\n{world.Engine.Trace}");
            else if (world.Engine.VirtualTimeMs > time && !done()) world.Fail($"{what}: not done after {withinMs} ms");
        }

        world.ThrowIfFailed();
    }

    private static void Judge(World world)
    {
        foreach (SimSession session in world.Sessions) session.Judge();
        foreach (Loop loop in world.Engine.Loops)
        {
            if (!loop.IsStopped) world.Fail($"{loop} runs on");
            if (loop.ResidentCount != 0) world.Fail($"{loop} has {loop.ResidentCount} residents");
            if (loop.Blocks.Outstanding != 0) world.Fail($"{loop} misses {loop.Blocks.Outstanding} blocks");
            if (loop.StrandBlocks.Outstanding != 0)
                world.Fail($"{loop} misses {loop.StrandBlocks.Outstanding} blocks of the pool");
            if (loop.Counters.ConnectionsOpened != loop.Counters.ConnectionsClosed)
                world.Fail($"{loop} opened {loop.Counters.ConnectionsOpened} connections and closed "
                    + $"{loop.Counters.ConnectionsClosed}");
        }

        foreach (SessionGroup group in world.Groups)
        {
            if (group.Count != 0) world.Fail($"{group} has members");
        }

        if (world.OwnedAlive != 0) world.Fail($"{world.OwnedAlive} pieces of passed memory were not disposed");
        if (world.Server.SessionCount != 0) world.Fail($"the server counts {world.Server.SessionCount} sessions");
        if (world.Server.AcceptedCount != world.ServerSessionsEnded + world.FactoryThrew)
            world.Fail($"{world.Server.AcceptedCount} accepted, {world.ServerSessionsEnded} ended");
    }
}
