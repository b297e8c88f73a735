#if MEMORY
using System.Net;
using Whimbrel.Testing;

namespace Whimbrel.Conformance;

/// <summary> Datagrams on a faulty network: whatever is lost, duplicated, reordered or delayed, each received datagram
/// was sent in this form by this sender; only received datagrams are answered; and the counters of both sides match.
/// The same seed produces the same run. </summary>
public sealed class MemoryDatagramTests
{
    private const int Clients = 5;
    private const int Each = 60;

    private static IEnumerable<int> Seeds => Enumerable.Range(1, Depth.IsDeep ? 500 : 25);

    [Fact]
    public void On_a_faultless_network_each_datagram_arrives_once_and_in_order()
    {
        foreach (int seed in Seeds)
        {
            Story story = new(seed, new MemoryFaults());
            story.Run();
            for (int client = 0; client < Clients; client++)
                Assert.Equal(Enumerable.Range(0, Each), story.Answered[client]);
        }
    }

    [Fact]
    public void On_a_faulty_network_received_datagrams_were_sent_and_the_counts_match()
    {
        long lost = 0;
        long doubled = 0;
        long overtaken = 0;
        foreach (int seed in Seeds)
        {
            Story story = new(seed, new MemoryFaults
            {
                DatagramLoss = 60,
                DatagramDuplicate = 60,
                DatagramReorder = 150,
                DatagramDelay = 150,
                DatagramBufferBytes = 16 * 1024
            });
            story.Run();
            foreach (List<int> answers in story.Answered)
            {
                Assert.All(answers.GroupBy(static n => n), static g => Assert.InRange(g.Count(), 1, 4));
                lost += Each - answers.Distinct().Count();
                doubled += answers.Count - answers.Distinct().Count();
                for (int i = 1; i < answers.Count; i++) overtaken += answers[i] < answers[i - 1] ? 1 : 0;
            }
        }

        // The faults must have occurred; otherwise this test proves nothing.
        Assert.True(lost > 0 && doubled > 0 && overtaken > 0, $"{lost} lost, {doubled} doubled, {overtaken} overtaken");
    }

    [Fact]
    public void The_same_seed_gives_the_same_run()
    {
        MemoryFaults faults =
            new() { DatagramLoss = 50, DatagramDuplicate = 50, DatagramReorder = 100, DatagramDelay = 200 };
        foreach (int seed in new[] { 3, 4, 5 })
        {
            Story first = new(seed, faults);
            Story second = new(seed, faults);
            first.Run();
            second.Run();
            Assert.Equal(first.Hash, second.Hash);
            for (int client = 0; client < Clients; client++)
                Assert.Equal(first.Answered[client], second.Answered[client]);
        }
    }

    [Fact]
    public void A_flood_from_ten_thousand_sources_is_served_or_counted_and_the_socket_continues()
    {
        const int sources = 10_000;
        MemoryEngine engine = new(7, faults: MemoryFaults.None with { DatagramBufferBytes = 256 * 1024 });
        RecordingHandler handler = new() { Echoes = true };
        DatagramSocket socket =
            new(new DatagramOptions { Engine = engine, EndPoint = new IPEndPoint(IPAddress.Any, 0) }, () => handler);
        engine.Run(socket.StartAsync());
        IPEndPoint target = new(IPAddress.Loopback, ((IPEndPoint)socket.EndPoint!).Port);
        MemoryDatagramPeer raw = engine.OpenDatagrams(new IPEndPoint(IPAddress.Loopback, 0));
        for (int i = 0; i < sources; i++)
        {
            raw.SendAs(BitConverter.GetBytes(i), target,
                new DatagramPeer(new IPAddress(new byte[] { 10, 1, (byte)(i >> 8), (byte)i }), 1_000 + (i % 50)));
            if (i % 100 == 0) engine.RunUntilIdle();
        }

        engine.RunUntilIdle();
        DatagramCounters counters = socket.ReadCounters();
        Assert.Equal(sources, counters.DatagramsReceived + counters.Overflowed);
        Assert.Equal(counters.DatagramsReceived, handler.All.Select(static d => d.Peer).Distinct().Count());
        Assert.Equal(counters.DatagramsReceived, counters.DatagramsSent);
        // No socket is bound there: each response came back as an error.
        Assert.Equal(counters.DatagramsSent, counters.PeerErrors);
        raw.Send("still there?"u8, target);
        engine.RunUntilIdle();
        Assert.Equal("still there?"u8.ToArray(), raw.TryReceive(out _));
        engine.Run(socket.DisposeAsync());
        engine.Run(engine.DisposeAsync());
        Assert.Empty(handler.Wrong);
    }

    [Fact]
    public void A_flood_that_is_not_read_is_dropped_by_the_buffer_and_counted()
    {
        MemoryEngine engine = new(8, faults: MemoryFaults.None with { DatagramBufferBytes = 10_000 });
        RecordingHandler handler = new();
        DatagramSocket socket = new(
            new DatagramOptions { Engine = engine, EndPoint = new IPEndPoint(IPAddress.Loopback, 0) }, () => handler);
        engine.Run(socket.StartAsync());
        MemoryDatagramPeer raw = engine.OpenDatagrams(new IPEndPoint(IPAddress.Loopback, 0));
        for (int i = 0; i < 100; i++) raw.Send(new byte[744], socket.EndPoint!);
        engine.RunUntilIdle();
        Assert.Equal((10, 90), (socket.ReadCounters().DatagramsReceived, socket.ReadCounters().Overflowed));
        engine.Run(socket.DisposeAsync());
        engine.Run(engine.DisposeAsync());
    }

    [Fact]
    public void A_datagram_above_the_mtu_is_reported_with_its_length()
    {
        MemoryEngine engine = new(9, faults: MemoryFaults.None with { DatagramMtuBytes = 1_400 });
        RecordingHandler handler = new();
        DatagramSocket socket = new(
            new DatagramOptions { Engine = engine, EndPoint = new IPEndPoint(IPAddress.Loopback, 0) }, () => handler);
        engine.Run(socket.StartAsync());
        DatagramPeer self = new(socket.EndPoint!);
        foreach (int size in new[] { 1_400, 1_401 }) Assert.Equal(SendResult.Queued, socket.Send(new byte[size], self));
        engine.RunUntilIdle();
        Assert.Equal(1_400, handler.Datagrams.Single().Length);
        Assert.Equal((1_401, ErrorCategory.Limit),
            (handler.Failed.Single().Length, handler.Failed.Single().Error.Category));
        engine.Run(socket.DisposeAsync());
        engine.Run(engine.DisposeAsync());
    }

    /// <summary>An echo server and clients that send numbered datagrams. Its checks are the oracle.</summary>
    private sealed class Story
    {
        private readonly MemoryEngine _engine;
        private readonly HashSet<(int Client, int Number)> _served = [];
        private readonly DatagramSocket _server;
        private readonly RecordingHandler _serverHandler;
        private readonly List<(DatagramSocket Socket, RecordingHandler Handler)> _clients = [];
        private int _servedCount;

        internal Story(int seed, MemoryFaults faults)
        {
            _engine = new MemoryEngine(seed, loops: 2, faults: faults);
            _serverHandler = new RecordingHandler { Echoes = true, Received = Serve };
            _server = new DatagramSocket(
                new DatagramOptions { Engine = _engine, EndPoint = new IPEndPoint(IPAddress.Loopback, 0) },
                () => _serverHandler);
        }

        internal List<int>[] Answered { get; } = [.. Enumerable.Range(0, Clients).Select(static _ => new List<int>())];

        internal ulong Hash => _engine.TraceHash;

        internal void Run()
        {
            _engine.Run(_server.StartAsync());
            for (int i = 0; i < Clients; i++) Join(i);
            for (int number = 0; number < Each; number++)
            {
                int now = number;
                for (int client = 0; client < Clients; client++)
                {
                    int me = client;
                    // Some from their own loops, some from other threads.
                    if (client % 2 == 0) _clients[me].Handler.Loop.Post(() => Send(me, now));
                    else Send(me, now);
                }

                for (int step = 0; step < 4 && _engine.RunOne(); step++)
                {
                }
            }

            _engine.RunFor(TimeSpan.FromSeconds(1));
            Check();
            _engine.Run(_server.DisposeAsync());
            foreach ((DatagramSocket socket, _) in _clients) _engine.Run(socket.DisposeAsync());
            _engine.Run(_engine.DisposeAsync());
            Assert.Empty(_serverHandler.Wrong);
        }

        private void Join(int client)
        {
            RecordingHandler handler = new() { Received = (_, data, peer) => TakeAnswer(client, data, peer) };
            DatagramSocket socket = new(new DatagramOptions
            {
                Engine = _engine,
                EndPoint = new IPEndPoint(IPAddress.Loopback, 0),
                RemoteEndPoint = _server.EndPoint
            }, () => handler);
            _engine.Run(socket.StartAsync());
            _clients.Add((socket, handler));
        }

        private void Send(int client, int number) =>
            Assert.Equal(SendResult.Queued, _clients[client].Socket.Send(Message(client, number)));

        private static byte[] Message(int client, int number)
        {
            byte[] bytes = new byte[8 + (client * number * 37 % 1_300)];
            BitConverter.TryWriteBytes(bytes, client);
            BitConverter.TryWriteBytes(bytes.AsSpan(4), number);
            for (int i = 8; i < bytes.Length; i++) bytes[i] = (byte)(client + (number * 7) + i);
            return bytes;
        }

        private void Serve(RecordingHandler handler, byte[] data, DatagramPeer peer)
        {
            (int client, int number) = (BitConverter.ToInt32(data), BitConverter.ToInt32(data, 4));
            Assert.Equal(Message(client, number), data);
            Assert.Equal(new DatagramPeer(_clients[client].Socket.EndPoint!), peer);
            _served.Add((client, number));
            _servedCount++;
        }

        private void TakeAnswer(int client, byte[] data, DatagramPeer peer)
        {
            int number = BitConverter.ToInt32(data, 4);
            Assert.Equal(Message(client, number), data);
            Assert.Equal(new DatagramPeer(_server.EndPoint!), peer);
            Assert.Contains((client, number), _served);
            Answered[client].Add(number);
        }

        private void Check()
        {
            DatagramCounters server = _server.ReadCounters();
            Assert.Equal((0, 0, 0), (server.Queued, server.Failed, server.HandlerErrors));
            Assert.Equal(_servedCount, server.DatagramsReceived);
            Assert.Equal(server.DatagramsReceived, server.DatagramsSent);
            for (int i = 0; i < Clients; i++)
            {
                DatagramCounters client = _clients[i].Socket.ReadCounters();
                Assert.Equal((Each, 0, 0), (client.DatagramsSent, client.Queued, client.HandlerErrors));
                Assert.Equal(Answered[i].Count, client.DatagramsReceived);
                Assert.Empty(_clients[i].Handler.Wrong);
            }
        }
    }
}
#endif
