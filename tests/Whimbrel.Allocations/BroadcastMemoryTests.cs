using System.Diagnostics;
using System.Globalization;
using System.Net;
using Whimbrel.Testing;

namespace Whimbrel.Allocations;

// One broadcast to ten thousand members that do not read takes at most 8 MiB of resident memory.
public sealed class BroadcastMemoryTests
{
    private const int Members = 10_000;
    private const long LimitBytes = 8 * 1024 * 1024;

    // A separate process holds the other ends, because both ends together need too many descriptors for one process.
    private const string Holder = """
        import resource, socket, sys
        port, count = int(sys.argv[1]), int(sys.argv[2])
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        held = []
        for _ in range(count):
            s = socket.socket()
            s.connect(("127.0.0.1", port))
            held.append(s)
        print("open", flush=True)
        sys.stdin.read()
        """;

    public static TheoryData<string, int> Cases => [.. Rig.Engines.SelectMany(static e => (int[])[32, 4096],
        static (e, n) => new TheoryDataRow<string, int>(e.Data, n))];

    private static long ResidentBytes()
    {
        string[] pages = File.ReadAllText("/proc/self/statm").Split(' ');
        return long.Parse(pages[1], CultureInfo.InvariantCulture) * Environment.SystemPageSize;
    }

    private static void Collect()
    {
        for (int i = 0; i < 2; i++)
        {
            GC.Collect();
            GC.WaitForPendingFinalizers();
        }
    }

    [Theory]
    [MemberData(nameof(Cases))]
    public void One_broadcast_to_ten_thousand_connections_costs_8_MiB_at_most(string engine, int messageBytes)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Resident memory is read from /proc.");
        Assert.SkipUnless(Environment.GetEnvironmentVariable("PATH")!.Split(':')
            .Any(static p => File.Exists(Path.Combine(p, "python3"))), "python3 is not installed.");
        using Rig rig = new(engine, static () => new ScriptedSession(static (_, unread) => unread.Length));
        int port = ((IPEndPoint)rig.Server.EndPoint!).Port;
        ProcessStartInfo start = new("python3",
            ["-c", Holder, port.ToString(CultureInfo.InvariantCulture), Members.ToString(CultureInfo.InvariantCulture)])
        {
            RedirectStandardInput = true,
            RedirectStandardOutput = true,
            RedirectStandardError = true,
        };
        using Process holder = Process.Start(start)!;
        try
        {
            string? line = holder.StandardOutput.ReadLine();
            if (line != "open")
            {
                string error = holder.StandardError.ReadToEnd();
                Assert.SkipWhen(error.Contains("Too many open files", StringComparison.Ordinal),
                    "The descriptor limit is below 10,000.");
                Assert.Fail($"The other ends were not opened: {error}");
            }

            bool all = SpinWait.SpinUntil(() => rig.Server.Sessions.Count == Members || rig.Server.RejectedCount > 0,
                LoopMeter.Patience);
            Assert.True(all, $"{rig.Server.Sessions.Count} members");
            Check(rig.Server, messageBytes, broadcast => rig.Server.Sessions.BroadcastAsync(broadcast).AsTask());
            Assert.True(SpinWait.SpinUntil(() => rig.Server.BytesSent == (long)messageBytes * Members,
                LoopMeter.Patience), "not everything was sent");
        }
        finally
        {
            holder.Kill();
            holder.WaitForExit();
        }
    }

    private static void Check(Server server, int messageBytes,
        Func<ReadOnlyMemory<byte>, Task<BroadcastResult>> broadcast)
    {
        byte[] message = new byte[messageBytes];
        // A first broadcast without recipients compiles the code.
        Rig.Wait(new SessionGroup().BroadcastAsync(message).AsTask());
        Rig.Wait(server.Sessions.BroadcastAsync(message, predicate: static _ => false).AsTask());
        Collect();
        long before = ResidentBytes();
        Task<BroadcastResult> sent = broadcast(message);
        Rig.Wait(sent);
        long grown = ResidentBytes() - before;
        Assert.Equal(new BroadcastResult(Members, 0), sent.Result);
        TestContext.Current.TestOutputHelper?.WriteLine($"{grown / 1024} KiB for {messageBytes} bytes to {Members}");
        Assert.True(grown <= LimitBytes, $"resident memory grew by {grown / 1024} KiB");
    }

    // The kernel accepts no bytes because every socket buffer is full, so every member must keep the message itself.
    [Theory]
    [InlineData(32)]
    [InlineData(4096)]
    [InlineData(60_000)]
    public void One_broadcast_to_ten_thousand_stuck_members_costs_8_MiB_at_most(int messageBytes)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Resident memory is read from /proc.");
        const int Wire = 64;
        MemoryEngine engine = new(1, faults: MemoryFaults.None with { WireBytes = Wire });
        MemoryEndPoint here = new("here");
        Server server = new(new ServerOptions { Engine = engine, EndPoint = here }, static () =>
            new ScriptedSession(static (_, unread) => unread.Length, static s => s.Send(new byte[2 * Wire])));
        engine.Run(server.StartAsync());
        List<MemoryPeer> peers = [];
        for (int i = 0; i < Members; i++)
        {
            peers.Add(engine.Connect(here));
            if (i % 1_000 == 999) engine.RunUntilIdle();
        }

        Assert.Equal(Members, server.Sessions.Count);
        byte[] message = new byte[messageBytes];
        engine.Run(server.Sessions.BroadcastAsync(message, predicate: static _ => false));
        Collect();
        long before = ResidentBytes();
        BroadcastResult sent = engine.Run(server.Sessions.BroadcastAsync(message));
        long grown = ResidentBytes() - before;
        Assert.Equal(new BroadcastResult(Members, 0), sent);
        TestContext.Current.TestOutputHelper?.WriteLine($"{grown / 1024} KiB for {messageBytes} bytes to {Members}");
        Assert.True(grown <= LimitBytes, $"resident memory grew by {grown / 1024} KiB");
        Assert.All(peers, static p => Assert.Equal(Wire, p.Available));
        engine.Run(server.StopAsync(TimeSpan.Zero));
        engine.Run(engine.DisposeAsync());
    }
}
