#:project ../../src/Whimbrel/Whimbrel.csproj
// A game server at 60 steps a second. The loop runs on the game's own thread: network and world need no lock.
// Try it: nc 127.0.0.1 1111, and type w, a, s or d.
using System.Diagnostics;
using Whimbrel;

await using Engine engine = new(new EngineOptions { Loops = 1, AdoptedLoops = 1 });
Loop loop = engine.GetLoop(0);
World world = new();
ServerOptions options = new()
{
    Engine = engine,
    Address = args.FirstOrDefault() ?? "tcp://127.0.0.1:1111",
    Limits = new() { SendBytes = 64 * 1024, SlowConsumer = SlowConsumer.DropNewest }, // a slow player misses steps
};
await using Server server = new(options, () => new Player(world));

// No await until the end: the loop belongs to this thread, and an await may continue on another one.
Task stopped = StopSignal.WaitAsync();
Task started = server.StartAsync().AsTask();
while (!started.IsCompleted) loop.Turn(TimeSpan.FromMilliseconds(1));
started.GetAwaiter().GetResult();
Console.WriteLine($"Listening at {server.EndPoint}. Ctrl-C stops.");

TimeSpan step = TimeSpan.FromSeconds(1.0 / 60), next = TimeSpan.Zero;
Stopwatch clock = Stopwatch.StartNew();
while (!stopped.IsCompleted)
{
    // Receives and sends until the next step is due; a message that comes meanwhile ends the wait.
    for (TimeSpan left; (left = next - clock.Elapsed) > TimeSpan.Zero;)
        loop.Turn(left);
    next += step;
    world.Step();
    server.Broadcast(world.Describe());
}

Task<StopReport> stopping = server.StopAsync(TimeSpan.FromSeconds(1)).AsTask();
while (!stopping.IsCompleted) loop.Turn(TimeSpan.FromMilliseconds(1));
Console.WriteLine($"Stopped: {stopping.Result}");

sealed class World
{
    private long _step;

    public HashSet<Player> Players { get; } = [];

    public void Step()
    {
        _step++;
        foreach (Player player in Players) player.Move();
    }

    public string Describe() => $"{_step} {string.Join(' ', Players.Select(player => player.ToString()))}\n";
}

sealed class Player(World world) : Session
{
    private int _x, _y, _dx, _dy;

    protected override void OnConnected() => world.Players.Add(this);

    protected override void OnReceived(ReadOnlySpan<byte> data)
    {
        foreach (byte key in data) (_dx, _dy) = key switch
        {
            (byte)'w' => (0, -1),
            (byte)'a' => (-1, 0),
            (byte)'s' => (0, 1),
            (byte)'d' => (1, 0),
            _ => (_dx, _dy),
        };
    }

    protected override void OnDisconnected(CloseReason reason) => world.Players.Remove(this);

    public void Move() => (_x, _y) = (_x + _dx, _y + _dy);

    public override string ToString() => $"{Id}:{_x},{_y}";
}
