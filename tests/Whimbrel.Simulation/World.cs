using System.Net;
using System.Text;
using Whimbrel.Connections;
using Whimbrel.Testing;

namespace Whimbrel.Simulation;

// One seed: a server, clients, groups and other threads on one memory engine, and all counters of the oracle.
internal sealed class World
{
    internal const int GroupCount = 3;
    internal const int Direct = 1;
    internal const int Broadcast = 2;
    internal const int BroadcastAwaited = 3;
    internal const int ToEach = 4;
    private const int KeptLines = 80;

    private readonly Queue<string> _lines = new();
    private readonly Dictionary<string, (Flow ToServer, Flow ToClient)> _links = [];
    private readonly Dictionary<int, int> _numbers = [];
    private readonly Dictionary<PoolSession, int> _poolSessions = [];
    private readonly Action<string>? _print;
    private readonly ConnectionShape _shape;
    private OracleException? _failure;
    private int _nextKey = 1;

    internal World(int seed, Action<string>? print = null)
    {
        Seed = seed;
        _print = print;
        // By the seed's number and not at random, so that older seeds still find their defects.
        IsPool = seed % 4 == 3;
        Random = new Random(seed ^ 0x2F6B1D);
        int wire = Pick(1, 7, 100, 4096, 64 * 1024, 64 * 1024);
        bool isHarsh = Chance(400);
        Faults = new MemoryFaults
        {
            Split = Pick(0, 300, 900),
            Delay = Pick(0, 300, 700),
            WouldBlock = Pick(0, 200, 600),
            LateClose = Pick(0, 300, 900),
            Reset = isHarsh ? Pick(0, 1, 5) : 0,
            SendError = isHarsh ? Pick(0, 1, 5) : 0,
            AcceptError = isHarsh ? Pick(0, 100) : 0,
            WireBytes = wire,
        };
        _shape = new ConnectionShape(
            Pick(4096, 20_000, 64 * 1024, 1024 * 1024),
            (SlowConsumer)Random.Next(3),
            Pick(1024, 64 * 1024, 1024 * 1024),
            Pick<bool?>(null, true, false),
            TimeSpan.FromMilliseconds(Pick(10, 100, 5000)));
        LargestMessage = wire switch { 1 => 300, 7 => 1_500, 100 => 8_000, _ => Pick(500, 5_000, 40_000, 120_000) };
        EndingPerMille = Pick(2, 20, 100);
        ThrowPerMille = Pick(0, 0, 5, 30);
        Budget = Pick(60, 200, 500);
        // By the seed's number, as above.
        ActsInside = seed % 3 == 1;
        Posts = seed % 4 == 3;
        SendsToEach = seed % 7 == 4;
        OffersAgain = seed % 6 == 5;
        Engine = new MemoryEngine(seed, Pick(1, 2, 3), n => Log($"notice {n.Kind}: {n.Message}"), Faults,
            mailboxLimitBytes: MailboxLimit);
        for (int i = 0; i < GroupCount; i++) Groups[i] = new SessionGroup($"group {i}");
        Server = new Server(
            new ServerOptions
            {
                Engine = Engine,
                EndPoint = new IPEndPoint(IPAddress.Loopback, 0),
                Limits = new()
                {
                    SendBytes = _shape.SendLimit,
                    SlowConsumer = _shape.Policy,
                    UnreadBytes = _shape.UnreadLimit,
                    BackPressure = _shape.BackPressure,
                    Connections = Pick(2, 1000, 1000),
                },
                Timeouts = new() { Drain = _shape.DrainTimeout },
                Scheduling = IsPool ? Scheduling.ThreadPool : Scheduling.Inline,
            },
            MakeServerSession);
        Engine.AddBlackHole(Nowhere);
    }

    private readonly record struct ConnectionShape(int SendLimit, SlowConsumer Policy, int UnreadLimit,
        bool? BackPressure, TimeSpan DrainTimeout);

    // IP addresses, because an accepted session knows its peer's address: both ends of a connection find it by that.
    private static IPEndPoint Nobody { get; } = new(IPAddress.Loopback, IPEndPoint.MaxPort);

    private static IPEndPoint Nowhere { get; } = new(IPAddress.Loopback, IPEndPoint.MaxPort - 1);

    internal int Seed { get; }

    // Callbacks run on the (virtual) thread pool.
    internal bool IsPool { get; }

    // Other threads also act inside callbacks, not only between two steps.
    internal bool ActsInside { get; }

    // Code is posted to sessions, from callbacks and by other threads (contract 18).
    internal bool Posts { get; }

    // One message goes to several sessions at once (docs/design/0071).
    internal bool SendsToEach { get; }

    // Sessions request their unconsumed data repeatedly (Session.DeliverAgain).
    internal bool OffersAgain { get; }

    internal Random Random { get; }

    // So small that every fifth seed reaches it.
    private long MailboxLimit => Seed % 5 == 2 ? 20_000 : 0;

    internal MemoryFaults Faults { get; }

    internal MemoryEngine Engine { get; }

    internal Server Server { get; }

    internal List<SimClient> Clients { get; } = [];

    internal SessionGroup[] Groups { get; } = new SessionGroup[GroupCount];

    internal List<SimSession> Sessions { get; } = [];

    internal int LargestMessage { get; }

    internal int UnreadLimit => _shape.UnreadLimit;

    internal int SendLimit => _shape.SendLimit;

    internal int EndingPerMille { get; }

    internal int ThrowPerMille { get; }

    // Number of actions left.
    internal int Budget { get; set; }

    // Descriptions of pending operations.
    internal List<string> Awaited { get; } = [];

    internal int OwnedAlive { get; set; }

    internal int FactoryThrew { get; private set; }

    internal int ServerSessionsEnded { get; set; }

    internal string? Running { get; set; }

    internal T Pick<T>(params T[] values) => values[Random.Next(values.Length)];

    internal bool Chance(int perMille) => Random.Next(1000) < perMille;

    internal void MakeClients()
    {
        int count = Random.Next(1, 7);
        for (int i = 0; i < count; i++)
            Clients.Add(new SimClient(this, i,
                Random.Next(20) switch { 0 => Nobody, 1 => Nowhere, _ => Server.EndPoint! }));
    }

    internal ClientOptions ClientOptions(EndPoint target) => new()
    {
        Engine = Engine,
        EndPoint = target,
        Limits = new()
        {
            SendBytes = _shape.SendLimit,
            SlowConsumer = _shape.Policy,
            UnreadBytes = _shape.UnreadLimit,
            BackPressure = _shape.BackPressure,
        },
        Timeouts = new() { Drain = _shape.DrainTimeout, Connect = TimeSpan.FromMilliseconds(Pick(5, 1000)) },
        Scheduling = IsPool ? Scheduling.ThreadPool : Scheduling.Inline,
    };

    private SimSession MakeServerSession()
    {
        if (ThrowPerMille > 0 && Chance(ThrowPerMille))
        {
            FactoryThrew++;
            throw new ScriptException("factory");
        }

        return new SimSession(this, null);
    }

    // The two directions of the connection that was opened from this end point.
    internal (Flow ToServer, Flow ToClient) Link(EndPoint? connecting)
    {
        string name = connecting?.ToString() ?? "";
        if (_links.TryGetValue(name, out (Flow ToServer, Flow ToClient) link)) return link;
        link = (new Flow(this, _nextKey++), new Flow(this, _nextKey++));
        _links.Add(name, link);
        return link;
    }

    // Identifies the caller: 0 for other threads, otherwise the loop, or the strand of a session on the pool. Numbers
    // of one caller increase over everything it sends.
    internal int Lane => Loop.Current is { } loop ? 1 + loop.Index : PoolSession.Current is { } pool ? LaneOf(pool) : 0;

    private int LaneOf(PoolSession pool)
    {
        if (_poolSessions.TryGetValue(pool, out int lane)) return lane;
        lane = 100 + _poolSessions.Count;
        _poolSessions.Add(pool, lane);
        return lane;
    }

    internal int NextNumber(int lane) => _numbers[lane] = _numbers.GetValueOrDefault(lane) + 1;

    internal async Task Watch(ValueTask task)
    {
        Awaited.Add("DisconnectAsync");
        try
        {
            await task;
        }
        finally
        {
            Awaited.Remove("DisconnectAsync");
        }
    }

    // ------------------------------------------------------------------ log

    internal void Log(string line)
    {
        line = $"[{Engine.StepCount}] {line}";
        _print?.Invoke(line);
        if (_lines.Count == KeptLines) _lines.Dequeue();
        _lines.Enqueue(line);
    }

    // Recorded, not thrown: exceptions of an override, where this may run, are caught.
    internal void Fail(string what)
    {
        if (_failure is not null) return;
        StringBuilder text = new();
        text.AppendLine(what).AppendLine($"seed {Seed} (WHIMBREL_SEED={Seed} runs it alone), step {Engine.StepCount}, "
            + $"{Engine.LoopCount} loop(s), {Faults}, {_shape}");
        foreach (string line in _lines) text.Append("  ").AppendLine(line);
        _failure = new OracleException(text.ToString());
        _print?.Invoke("FAILED: " + what);
    }

    internal void ThrowIfFailed()
    {
        if (_failure is not null) throw _failure;
    }
}
