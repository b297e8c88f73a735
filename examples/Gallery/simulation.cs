#:project ../../src/Whimbrel.Testing/Whimbrel.Testing.csproj
// A protocol on a thousand bad networks: datagrams are lost, doubled, delayed and overtaken, in virtual time.
// The number of a run is its seed: a run that fails is repeated by that number, step by step.
// Try it: dotnet run simulation.cs 1000
using System.Diagnostics;
using System.Net;
using Whimbrel;
using Whimbrel.Testing;

int runs = int.Parse(args.FirstOrDefault() ?? "1000");
byte[] messages = [.. Enumerable.Range(1, 20).Select(number => (byte)number)];
MemoryFaults faults = new() { DatagramLoss = 200, DatagramDuplicate = 100, DatagramReorder = 100, DatagramDelay = 300 };
Stopwatch clock = Stopwatch.StartNew();
TimeSpan virtualTime = TimeSpan.Zero;
for (int seed = 1; seed <= runs; seed++)
{
    MemoryEngine engine = new(seed, faults: faults);
    long began = engine.VirtualTimeMs;
    Receiver receiver = new();
    Sender sender = new(messages);
    DatagramOptions options = new() { Engine = engine, EndPoint = new IPEndPoint(IPAddress.Loopback, 0) };
    DatagramSocket here = new(options, () => receiver);
    engine.Run(here.StartAsync());
    DatagramSocket there = new(new DatagramOptions { Engine = engine, RemoteEndPoint = here.EndPoint }, () => sender);
    engine.Run(there.StartAsync());
    engine.RunUntil(() => sender.IsDone);
    if (!receiver.Received.SequenceEqual(messages))
    {
        Console.Error.WriteLine($"seed {seed}: received {string.Join(' ', receiver.Received)}");
        return 1;
    }

    virtualTime += TimeSpan.FromMilliseconds(engine.VirtualTimeMs - began);
    engine.Run(engine.DisposeAsync());
}

Console.WriteLine($"{runs} networks: each of {messages.Length} messages arrived once and in order.");
Console.WriteLine($"{virtualTime.TotalSeconds:0} s of virtual time in {clock.Elapsed.TotalSeconds:0.0} s");
return 0;

// Stop and wait: a message leaves when the one before is confirmed, and again until it is.
sealed class Sender(byte[] messages) : DatagramHandler
{
    private int _confirmed;

    public bool IsDone => _confirmed == messages.Length;

    protected override void OnStarted()
    {
        StartTimer(TimeSpan.FromMilliseconds(100), TimeSpan.FromMilliseconds(100));
        SendNext();
    }

    protected override void OnReceived(ReadOnlySpan<byte> datagram, in DatagramPeer peer)
    {
        if (IsDone || !datagram.SequenceEqual(messages.AsSpan(_confirmed, 1))) return; // an old confirmation
        _confirmed++;
        SendNext();
    }

    protected override void OnTimer(LoopTimer timer) => SendNext();

    private void SendNext()
    {
        if (!IsDone) Send(messages.AsSpan(_confirmed, 1));
    }
}

sealed class Receiver : DatagramHandler
{
    public List<byte> Received { get; } = [];

    protected override void OnReceived(ReadOnlySpan<byte> datagram, in DatagramPeer peer)
    {
        if (datagram[0] == Received.Count + 1) Received.Add(datagram[0]);
        if (datagram[0] <= Received.Count) Send(datagram, peer); // also again: a confirmation may have been lost
    }
}
