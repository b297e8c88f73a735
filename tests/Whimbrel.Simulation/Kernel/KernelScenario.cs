namespace Whimbrel.Simulation.Kernel;

// Runs one world from start to end and checks the final state.
internal static class KernelScenario
{
    private const int StepLimit = 200_000;

    internal readonly record struct Outcome(ulong TraceHash, long Steps, int Sessions, long StrandSends);

    internal static Outcome Run(SimPlatform platform, int seed, Action<string>? print = null,
        Dictionary<string, long>? tally = null, bool isPool = false)
    {
        KernelWorld world = new(platform, seed, isPool, print, tally);
        try
        {
            return Run(platform, world);
        }
        catch (Exception e)
        {
            // Runs the seed again with its steps printed; the result is the same.
            if (print is null) Run(platform, seed, static _ => { }, isPool: isPool);
            if (e is OracleException && e.Message.Contains("seed ", StringComparison.Ordinal)) throw;
            world.Fail(e is OracleException ? e.Message : $"{e.GetType().Name}: {e.Message}\n{e.StackTrace}");
            world.ThrowIfFailed();
            throw;
        }
        finally
        {
            world.Engine.Free();
        }
    }

    private static Outcome Run(SimPlatform platform, KernelWorld world)
    {
        StartServer(world);
        int lives = world.Dice.Chance(100) ? 2 : 1;
        for (int life = 1; life <= lives; life++)
        {
            Live(world);
            bool isLast = life == lives;
            End(world, world.Dice.Next(isLast ? 5 : 2), isLast);
            if (isLast) break;
            StopServer(world, TimeSpan.Zero);
            world.Log("the engine starts again");
            Drive(world, world.Engine.StartAsync().AsTask(), "StartAsync of the engine");
            StartServer(world);
            world.PlannedLinks = 1;
        }

        foreach (KernelPeer peer in world.Engine.Peers) peer.GoAway();
        Judge(platform, world);
        world.ThrowIfFailed();
        return new Outcome(world.Trace.Hash, world.Trace.Steps, world.Sessions.Count, world.StrandSends);
    }

    private static void StartServer(KernelWorld world)
    {
        Drive(world, world.Server.StartAsync().AsTask(), "StartAsync");
        if (!world.Server.IsAccepting) world.Fail("the server does not accept after its start");
    }

    private static void Live(KernelWorld world)
    {
        long until = world.Trace.Steps + world.Dice.Pick(30, 200, 600);
        // Some peers do not read meanwhile: a slow peer must not be disconnected.
        world.Engine.MostMs = 1_000;
        world.MakeConnection();
        while (world.Trace.Steps < until)
        {
            if (world.PlannedLinks > 0 && world.Dice.Chance(200)) world.MakeConnection();
            if (!world.Engine.RunOne()) break;
            world.ThrowIfFailed();
        }

        world.Engine.MostMs = long.MaxValue;
    }

    private static void End(KernelWorld world, int how, bool isLast)
    {
        switch (how)
        {
            case 0:
                StopServer(world, TimeSpan.FromMilliseconds(world.Dice.Pick(0, 20, 10_000)));
                break;
            case 1:
                break;
            default:
                Settle(world);
                StopServer(world, TimeSpan.FromMilliseconds(world.Dice.Pick(0, 1_000)));
                break;
        }

        world.MayFail = true;
        world.Log("the engine stops");
        Task stopping = (isLast ? world.Engine.DisposeAsync() : world.Engine.StopAsync()).AsTask();
        Drive(world, stopping, "the stop of the engine");
        while (world.Engine.RunOne()) world.ThrowIfFailed();
        world.ThrowIfFailed();
    }

    // Runs until no event is left: then every connection must have ended.
    private static void Settle(KernelWorld world)
    {
        while (world.PlannedLinks > 0) world.MakeConnection();
        world.Settles = true;
        world.Log("all come to their end");
        long limit = world.Trace.Steps + StepLimit;
        while (world.Engine.RunOne())
        {
            world.ThrowIfFailed();
            if (world.Trace.Steps > limit) world.Fail($"not settled after {StepLimit} steps\n{Unfinished(world)}");
        }

        world.ThrowIfFailed();
        string unfinished = Unfinished(world);
        if (unfinished.Length > 0) world.Fail($"nothing is left to happen, and these wait:\n{unfinished}");
        foreach (Task connect in world.Connects)
        {
            if (!connect.IsCompleted) world.Fail("a ConnectAsync never completed");
            if (connect.IsFaulted && !world.MayFail)
                world.Fail($"a connect failed: {connect.Exception!.InnerException!.Message}");
        }

        if (!world.MayFail) JudgeLinks(world);
    }

    private static string Unfinished(KernelWorld world)
    {
        List<string> names = [];
        foreach (KernelSession session in world.Sessions)
        {
            if (!session.IsOver) names.Add(session.ToString());
        }

        foreach (KernelPeer peer in world.Engine.Peers)
        {
            if (!peer.IsOver) names.Add(peer.ToString());
        }

        return string.Join("\n", names);
    }

    // If nothing broke and neither side aborted, every byte to be sent has arrived.
    private static void JudgeLinks(KernelWorld world)
    {
        foreach (KernelLink link in world.Links)
        {
            if (!link.IsGraceful) continue;
            Judge(link.ToServer, link.Client.ToSend, "to the server");
            Judge(link.ToClient, link.Server.Style == EndStyle.Echo ? link.Client.ToSend : link.Server.ToSend,
                "to the client");
        }

        void Judge(ByteTrack track, int planned, string where)
        {
            if (track.Sent != planned)
                world.Fail($"track {track.Key} {where}: {track.Sent} of {planned} bytes were sent");
            if (track.Received != planned)
                world.Fail($"track {track.Key} {where}: {track.Received} of {planned} bytes have come");
        }
    }

    private static void StopServer(KernelWorld world, TimeSpan deadline)
    {
        world.Log($"the server stops, deadline {deadline.TotalMilliseconds} ms");
        world.MayFail = true;
        Drive(world, world.Server.StopAsync(deadline).AsTask(), "StopAsync");
        if (world.Server.SessionCount != 0) world.Fail($"{world.Server.SessionCount} sessions after the stop");
    }

    private static void Drive(KernelWorld world, Task task, string what)
    {
        long limit = world.Trace.Steps + StepLimit;
        while (!task.IsCompleted)
        {
            world.ThrowIfFailed();
            if (!world.Engine.RunOne() && !task.IsCompleted)
                world.Fail($"{what}: nothing is left to happen\n{Unfinished(world)}");
            else if (world.Trace.Steps > limit)
                world.Fail($"{what}: not done after {StepLimit} steps\n{Unfinished(world)}");
        }

        world.ThrowIfFailed();
        task.GetAwaiter().GetResult();
    }

    private static void Judge(SimPlatform platform, KernelWorld world)
    {
        world.ThrowIfFailed();
        foreach (KernelSession session in world.Sessions)
        {
            if (!session.IsOver) world.Fail($"{session} never got its last callback");
            if (session.BytesPending != 0)
                world.Fail($"{session} has {session.BytesPending} bytes pending after its end");
        }

        foreach (Loop loop in world.Engine.Loops)
        {
            if (!loop.IsStopped) world.Fail($"{loop} runs on");
            if (loop.ResidentCount != 0) world.Fail($"{loop} has {loop.ResidentCount} residents");
            if (loop.Blocks.Outstanding != 0) world.Fail($"{loop} misses {loop.Blocks.Outstanding} blocks");
            if (loop.StrandBlocks.Outstanding != 0)
                world.Fail($"{loop} misses {loop.StrandBlocks.Outstanding} blocks of the pool");
            world.StrandSends += loop.Counters.SendsOfStrands;
            if (loop.Counters.ConnectionsOpened != loop.Counters.ConnectionsClosed)
                world.Fail($"{loop} opened {loop.Counters.ConnectionsOpened} connections and closed "
                    + $"{loop.Counters.ConnectionsClosed}");
            if (!platform.TellsOfTheClosed && loop.Counters.StaleCompletions != 0)
                world.Fail($"{loop} got {loop.Counters.StaleCompletions} completions without an operation");
        }

        if (world.Kernel.OpenCount != 0) world.Fail($"descriptors {world.Kernel.OpenNumbers} are open");
        if (world.Kernel.Operations != 0) world.Fail($"{world.Kernel.Operations} operations run on");
    }
}
