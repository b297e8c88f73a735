using System.Net;
using System.Text;
using Whimbrel.Testing;

namespace Whimbrel.Simulation.Kernel;

// One seed: a server, clients and raw peers on a simulated kernel, and all counters of the oracle.
internal sealed class KernelWorld
{
    private const int KeptLines = 120;

    private static readonly IPEndPoint s_anyPort = new(IPAddress.Loopback, 0);

    private readonly Dictionary<int, KernelLink> _links = [];
    private readonly Action<string>? _print;
    private readonly Queue<string> _lines = new();
    private OracleException? _failure;
    private int _nextKey = 1;

    internal KernelWorld(SimPlatform platform, int seed, bool isPool, Action<string>? print,
        Dictionary<string, long>? tally)
    {
        Seed = seed;
        IsPool = isPool;
        _print = print;
        Dice = new Dice((ulong)seed + 1);
        bool isHarsh = Dice.Chance(400);
        Faults = platform.DrawFaults(Dice, isHarsh);
        if (isPool) Faults = Faults with { WhileAsleep = Dice.Pick(300, 900) };
        bool isBulk = Dice.Chance(40);
        bool isCrowd = !isBulk && Dice.Chance(30);
        WireBytes = isBulk ? Dice.Pick(20_000, 100_000) : Dice.Pick(16, 100, 500, 4096, 16_384);
        LargestPlan = isBulk ? 120_000 : isCrowd ? 20 : WireBytes < 100 ? 60 : Dice.Pick(1, 100, 500, 2_000);
        PlannedLinks = isCrowd ? Dice.Next(10, 25) : Dice.Pick(1, 1, 2, 3);
        PausePerMille = Dice.Pick(0, 0, 100, 300);
        HandOverPerMille = Dice.Pick(0, 0, 0, 200);
        // By the seed's number and not at random, so that older seeds still find their defects.
        OffersAgain = seed % 5 == 4;
        StopsAtOnce = platform.StopsAtOnce && !isPool;
        if (platform.IsWide)
        {
            FilePerMille = Dice.Pick(0, 0, 300);
            EndOthersPerMille = isPool ? 0 : Dice.Pick(0, 0, 0, 20);
        }

        Kernel = new SimKernel(Dice, Faults, WireBytes) { Tally = tally };
        if (isHarsh && Dice.Chance(100)) Kernel.DescriptorLimit = Dice.Next(6, 20);
        Engine = platform.MakeEngine(Kernel, isBulk, n => Log($"notice {n.Kind}: {n.Message}"));
        MayFail = Faults.Fatal > 0 || Faults.AcceptError > 0 || Faults.ConnectError > 0 || Faults.Break > 0
            || Faults.ControlError > 0 || Kernel.DescriptorLimit != int.MaxValue;
        Engine.IsPool = isPool;
        Engine.Accepted = AcceptRaw;
        Server = new Server(
            new ServerOptions
            {
                Engine = Engine,
                EndPoint = s_anyPort,
                Limits = new()
                {
                    SlowConsumer = SlowConsumer.Wait,
                    SendBytes = Dice.Pick(4096, 65_536, 1024 * 1024),
                    UnreadBytes = 1024 * 1024,
                },
                Scheduling = Scheduling,
                // Where every byte must arrive, a slow peer must not be disconnected.
                Timeouts = new()
                {
                    Drain =
                        MayFail ? TimeSpan.FromMilliseconds(Dice.Pick(10, 1_000, 5_000)) : TimeSpan.FromMinutes(10),
                },
            },
            () => new KernelSession(this, isOutgoing: false));
    }

    internal int Seed { get; }

    // Callbacks run on the (simulated) pool.
    internal bool IsPool { get; }

    private Scheduling Scheduling => IsPool ? Scheduling.ThreadPool : Scheduling.Inline;

    internal Dice Dice { get; }

    internal KernelFaults Faults { get; }

    internal SimKernel Kernel { get; }

    internal SimulationTrace Trace => Kernel.Trace;

    internal KernelEngine Engine { get; }

    internal Server Server { get; }

    internal List<KernelSession> Sessions { get; } = [];

    internal List<Client> Clients { get; } = [];

    internal List<Task> Connects { get; } = [];

    internal int WireBytes { get; }

    internal int LargestPlan { get; }

    internal int PlannedLinks { get; set; }

    internal int PausePerMille { get; }

    internal int HandOverPerMille { get; }

    // Sessions request their unconsumed data repeatedly (Session.DeliverAgain).
    internal bool OffersAgain { get; }

    internal bool StopsAtOnce { get; }

    // Files are sent; and callbacks abort another session of the loop.
    internal int FilePerMille { get; }

    internal int EndOthersPerMille { get; }

    // Connections may be aborted by injected faults, or by an end that does not wait.
    internal bool MayFail { get; set; }

    // Every party must end by itself from now on.
    internal bool Settles { get; set; }

    internal string? Running { get; set; }

    // Number of sends made by strands themselves (docs/design/0071).
    internal long StrandSends { get; set; }

    internal bool Prints => _print is not null;

    internal IEnumerable<KernelLink> Links => _links.Values;

    // ------------------------------------------------------------------ connections

    // The connection that was opened from this address.
    internal KernelLink LinkOf(IPEndPoint connecting)
    {
        if (_links.TryGetValue(connecting.Port, out KernelLink? link)) return link;
        EndPlan client = MakePlan(Dice.Pick(EndStyle.Finish, EndStyle.Close));
        EndPlan server = MakePlan(Dice.Pick(EndStyle.Echo, EndStyle.Echo, EndStyle.Finish, EndStyle.Follow));
        server.Expected = client.ToSend;
        client.Expected = server.Style == EndStyle.Echo ? client.ToSend : server.ToSend;
        int key = _nextKey++;
        // An echo returns the bytes of the other direction.
        link = new KernelLink(new ByteTrack(this, key),
            new ByteTrack(this, server.Style == EndStyle.Echo ? key : _nextKey++), client, server);
        _links.Add(connecting.Port, link);
        return link;
    }

    private EndPlan MakePlan(EndStyle style) => new()
    {
        Style = style,
        ToSend = Dice.Next(LargestPlan + 1),
        PieceBytes = Dice.Pick(1 + (LargestPlan / 10), 1 + (LargestPlan / 3), 1 + LargestPlan),
        AbortAfter = Dice.Chance(80) ? Dice.Next(8) : -1,
        IsSlow = Dice.Chance(150),
        SendsFromElsewhere = Dice.Chance(200),
    };

    internal void MakeConnection()
    {
        PlannedLinks--;
        switch (Dice.Next(4))
        {
            case 0 or 1:
                ConnectServer();
                break;
            case 2:
                MakeClient(Server.EndPoint!);
                break;
            default:
                MemoryListening listening = Kernel.Listen(s_anyPort);
                MakeClient(listening.EndPoint);
                Engine.Listening.Add(listening);
                break;
        }
    }

    private void ConnectServer()
    {
        if (Kernel.Connect(Server.EndPoint!) is not { } socket) return;
        Trace.Add("peer-connects", socket.Id, 0);
        Engine.Peers.Add(new KernelPeer(this, socket, LinkOf((IPEndPoint)socket.LocalEndPoint!), isClient: true));
    }

    private void AcceptRaw(MemorySocket socket)
    {
        Trace.Add("peer-accepts", socket.Id, 0);
        Engine.Peers.Add(new KernelPeer(this, socket, LinkOf((IPEndPoint)socket.RemoteEndPoint!), isClient: false));
    }

    private void MakeClient(EndPoint target)
    {
        Client client = new(
            new ClientOptions
            {
                Engine = Engine,
                EndPoint = target,
                Limits = new() { SlowConsumer = SlowConsumer.Wait, SendBytes = Dice.Pick(4096, 1024 * 1024) },
                Scheduling = Scheduling,
                Timeouts = new()
                {
                    Drain = TimeSpan.FromMinutes(MayFail ? 0.01 : 10),
                    Connect = TimeSpan.FromMilliseconds(Dice.Pick(50, 1_000)),
                },
                Socket = new() { FastOpen = Dice.Chance(200) },
            },
            () => new KernelSession(this, isOutgoing: true));
        Clients.Add(client);
        Connects.Add(client.ConnectAsync().AsTask());
    }

    internal void Elsewhere(Action action) => Engine.Elsewhere.Add(action);

    // ------------------------------------------------------------------ log

    internal void Log(string line)
    {
        if (_print is null) return;
        line = $"[{Trace.Steps}] {line}";
        _print(line);
        if (_lines.Count == KeptLines) _lines.Dequeue();
        _lines.Enqueue(line);
    }

    // Recorded, not thrown: exceptions of an override, where this may run, are caught.
    internal void Fail(string what)
    {
        if (_failure is not null) return;
        StringBuilder text = new();
        text.AppendLine(what).AppendLine($"seed {Seed}{(IsPool ? " of the pool" : "")} (WHIMBREL_SEED={Seed} runs it "
            + $"alone), step {Trace.Steps}, {Faults}, {Engine.Shape}, {nameof(WireBytes)} = {WireBytes}");
        foreach (string line in _lines) text.Append("  ").AppendLine(line);
        text.AppendLine("The last steps:").Append(Trace);
        _failure = new OracleException(text.ToString());
        if (_print is not null) _print("FAILED: " + what);
    }

    internal void ThrowIfFailed()
    {
        if (_failure is not null) throw _failure;
    }
}
