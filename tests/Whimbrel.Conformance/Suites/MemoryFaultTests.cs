#if MEMORY
using System.Net;
using Whimbrel.Testing;

namespace Whimbrel.Conformance;

/// <summary>Faults that only the memory engine can inject: failing accepts, resets in the middle, failing
/// sends.</summary>
public sealed class MemoryFaultTests
{
    public static TheoryData<int> Seeds => [.. Enumerable.Range(1, Depth.IsDeep ? 200 : 10)];

    [Theory, Contract(1)]
    [MemberData(nameof(Seeds))]
    public async Task Failed_accepts_are_shed_and_reported_once_a_minute_and_the_others_are_served(int seed)
    {
        List<DiagnosticEvent> notices = [];
        await using MemoryEngine engine = new(seed, loops: 2, notices.Add, new MemoryFaults { AcceptError = 300 });
        await using Server server =
            new(new ServerOptions { Engine = engine, EndPoint = new IPEndPoint(IPAddress.Loopback, 0) },
                static () => new EchoSession());
        engine.Run(server.StartAsync());
        int served = 0;
        for (int i = 0; i < 40; i++)
        {
            MemoryPeer peer = engine.Connect(server.EndPoint!);
            peer.Write("x"u8);
            engine.RunUntil(() => peer.Available > 0 || !peer.IsConnected);
            if (peer.Available > 0) served++;
            peer.Close();
        }

        engine.RunUntil(() => server.SessionCount == 0);
        Assert.Equal(served, server.AcceptedCount);
        Assert.InRange(served, 10, 40);
        Assert.InRange(notices.Count(static n => n.Kind == DiagnosticEventKind.DescriptorLimit), 0, 1);
        Assert.Equal(40 - served, engine.Loops.Sum(static l => l.Counters.AcceptsShed));
        engine.Run(server.StopAsync(TimeSpan.Zero));
        engine.Run(engine.DisposeAsync());
    }

    [Theory, Contract(1, 3, 5)]
    [MemberData(nameof(Seeds))]
    public async Task Resets_and_broken_sends_in_the_middle_of_a_stream_never_bring_a_wrong_byte(int seed)
    {
        await using MemoryEngine engine = new(seed, loops: 2,
            faults: new MemoryFaults { Reset = 5, SendError = 5, Split = 500, WouldBlock = 400 });
        int ends = 0;
        await using Server server =
            new(new ServerOptions { Engine = engine, EndPoint = new IPEndPoint(IPAddress.Loopback, 0) },
                () => new EchoSession { Ended = () => ends++ });
        engine.Run(server.StartAsync());
        byte[] data = new byte[30_000];
        new Random(seed).NextBytes(data);
        byte[] buffer = new byte[4096];
        for (int i = 0; i < 20; i++)
        {
            MemoryPeer peer = engine.Connect(server.EndPoint!);
            int written = 0;
            int read = 0;
            engine.RunUntil(() =>
            {
                try
                {
                    int got;
                    if (written < data.Length)
                        written += peer.Write(data.AsSpan(written, Math.Min(700, data.Length - written)));
                    while ((got = peer.Read(buffer)) > 0)
                    {
                        Assert.True(data.AsSpan(read, got).SequenceEqual(buffer.AsSpan(0, got)),
                            $"a difference after byte {read}");
                        read += got;
                    }

                    return read == data.Length || got == 0;
                }
                catch (IOException)
                {
                    return true; // reset: the data before it was correct
                }
            });
            peer.Close();
        }

        engine.RunUntil(() => server.SessionCount == 0);
        Assert.Equal(server.AcceptedCount, ends);
        engine.Run(server.StopAsync(TimeSpan.Zero));
        engine.Run(engine.DisposeAsync());
        Assert.All(engine.Loops, static l => Assert.Equal(0, l.Blocks.Outstanding));
    }

    private sealed class EchoSession : Session
    {
        internal Action? Ended { get; init; }

        protected override void OnReceived(ReadOnlySpan<byte> data) => Send(data);

        protected override void OnDisconnected(CloseReason reason) => Ended?.Invoke();
    }
}
#endif
