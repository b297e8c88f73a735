using Whimbrel.Testing;

namespace Whimbrel.Tests;

// A thread that repeatedly sends a little to each of many sessions: batched messages of one session are sent together.
public sealed class ManySessionsTests : IDisposable
{
    private const int Sessions = 200;
    private const int Rounds = 20;
    private const int MessageBytes = 32;

    private static readonly MemoryEndPoint s_here = new("here");

    private readonly List<Recorder> _sessions = [];
    private readonly List<MemoryPeer> _peers = [];
    private readonly MemoryEngine _engine = new(1, faults: MemoryFaults.None with { WireBytes = 64 * 1024 });
    private readonly Server _server;

    public ManySessionsTests()
    {
        _server = new Server(
            new ServerOptions { Engine = _engine, EndPoint = s_here },
            () =>
            {
                Recorder session = new() { Tag = _sessions.Count };
                _sessions.Add(session);
                return session;
            });
        _engine.Run(_server.StartAsync());
        for (int i = 0; i < Sessions; i++) _peers.Add(_engine.Connect(s_here));
        _engine.RunUntilIdle();
    }

    public void Dispose()
    {
        _engine.Run(_server.StopAsync(TimeSpan.Zero));
        _engine.Run(_engine.DisposeAsync());
        Assert.Equal(0, _engine.GetLoop(0).Blocks.Outstanding);
    }

    [Fact]
    public void Messages_of_another_thread_to_each_of_many_sessions_are_sent_with_one_send_each()
    {
        byte[] message = new byte[MessageBytes];
        for (int round = 0; round < Rounds; round++)
        {
            message.AsSpan().Fill((byte)round);
            foreach (Recorder session in _sessions) Assert.Equal(SendResult.Queued, session.Send(message));
        }

        long before = _engine.GetLoop(0).Counters.Sends;
        _engine.RunUntilIdle();
        Assert.Equal(Sessions, _engine.GetLoop(0).Counters.Sends - before);
        foreach (MemoryPeer peer in _peers)
        {
            byte[] got = new byte[peer.Available];
            peer.Read(got);
            Assert.Equal(Enumerable.Range(0, Rounds)
                .SelectMany(static round => Enumerable.Repeat((byte)round, MessageBytes)), got);
        }
    }
}
