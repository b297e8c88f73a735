using System.Net.Sockets;
using System.Text;
using CSharpServer;
using Whimbrel.Compat.Tests.Connections;

namespace Whimbrel.Compat.Tests.CSharp;

// Multicasts to sessions that override OnSending, as the performance programs of CSharpServer do. Each session is asked
// for each message, and messages with the same recipients are sent together. A blocked loop makes this observable.
public sealed class CSharpMulticastTests
{
    private const int Messages = 1000;

    [Fact]
    public void A_flood_of_multicasts_costs_one_native_send_per_loop_iteration()
    {
        using Room room = new(sessions: 20, threads: 1);
        Assert.True(room.Server.Multicast("first. "));
        foreach (Socket peer in room.Peers) Assert.Equal("first. ", Text(peer, 7));
        room.Idle();
        long before = room.Sends;
        using (room.Stop(0))
        {
            for (int i = 0; i < Messages; i++) Assert.True(room.Server.Multicast(Message(i)));
            // The first message was sent; the others wait for the loop, and are counted exactly as pending.
            Assert.Equal(before + 1, room.Sends);
            Assert.Equal((1 + Messages) * 20, room.Asked);
            Assert.All(room.Sessions, static s => Assert.Equal(Messages * 10, s.BytesPending));
            Assert.Equal(20 * Messages * 10, room.Server.BytesPending);
        }

        foreach (Socket peer in room.Peers) Assert.Equal(Expected(Messages), Text(peer, Messages * 10));
        Assert.InRange(room.Sends - before, 2, 3);
    }

    // 32 KiB, so that it does not grow while the loop is blocked.
    [Fact]
    public void A_full_batch_is_sent_while_the_loop_is_blocked()
    {
        using Room room = new(sessions: 2, threads: 1);
        long before = room.Sends;
        using (room.Stop(0))
        {
            for (int i = 0; i < 10 * Messages; i++) Assert.True(room.Server.Multicast(Message(i)));
            Assert.Equal(before + 1 + ((10 * Messages - 1) * 10 / (32 * 1024)), room.Sends);
        }

        foreach (Socket peer in room.Peers) Assert.Equal(Expected(10 * Messages), Text(peer, 100 * Messages));
    }

    [Theory]
    [InlineData(12 * 1024, 0)] // 32 KiB with the one before it
    [InlineData((12 * 1024) + 1, 1)]
    public void A_batch_has_up_to_32_KiB(int length, int sent)
    {
        using Room room = new(sessions: 2, threads: 1);
        string one = new('a', 20 * 1024), two = new('b', length);
        using (room.Stop(0))
        {
            Assert.True(room.Server.Multicast("first. ")); // it is sent at once
            long before = room.Sends;
            Assert.True(room.Server.Multicast(one));
            Assert.True(room.Server.Multicast(two));
            Assert.Equal(before + sent, room.Sends);
        }

        string all = $"first. {one}{two}";
        foreach (Socket peer in room.Peers) Assert.Equal(all, Text(peer, all.Length));
    }

    [Fact]
    public void A_limit_in_OnSending_holds_to_the_byte_for_messages_that_are_collected()
    {
        using Room room = new(sessions: 3, threads: 1) { Most = 105 };
        using (room.Stop(0))
        {
            for (int i = 0; i < Messages; i++) Assert.True(room.Server.Multicast(Message(i)));
            Assert.All(room.Sessions, static s => Assert.Equal(100, s.BytesPending));
        }

        foreach (Socket peer in room.Peers) Assert.Equal(Expected(10), Text(peer, 100));
    }

    [Fact]
    public void A_sessions_own_send_follows_the_messages_collected_for_it()
    {
        using Room room = new(sessions: 3, threads: 1);
        using (room.Stop(0))
        {
            for (int i = 0; i < 5; i++) Assert.True(room.Server.Multicast(Message(i)));
            Assert.True(room.Sessions[1].SendAsync("own."));
            for (int i = 5; i < 10; i++) Assert.True(room.Server.Multicast(Message(i)));
            Assert.True(room.Sessions[2].DisconnectAsync());
        }

        string[] got = [.. room.Sessions.Select((_, i) => Text(room.PeerOf(i), i == 1 ? 104 : 100))];
        Assert.Equal([Expected(10), Expected(5) + "own." + Expected(10)[50..], Expected(10)], got);
        Assert.Equal(0, room.PeerOf(2).Receive(new byte[1]));
    }

    // One session rejects every second message, so the set of recipients changes each time.
    [Fact]
    public void Messages_with_changing_recipients_keep_their_order()
    {
        using Room room = new(sessions: 3, threads: 1);
        using (room.Stop(0))
        {
            for (int i = 0; i < 100; i++)
            {
                room.Sessions[1].Refuses = i % 2 == 1;
                Assert.True(room.Server.Multicast(Message(i)));
            }
        }

        Assert.Equal(Expected(100), Text(room.PeerOf(0), 1000));
        Assert.Equal(Expected(100), Text(room.PeerOf(2), 1000));
        Assert.Equal(string.Concat(Enumerable.Range(0, 50).Select(static i => $"<{2 * i:D8}>")),
            Text(room.PeerOf(1), 500));
    }

    [Fact]
    public void A_blocked_loop_does_not_delay_the_sessions_of_another()
    {
        using Room room = new(sessions: 6, threads: 2);
        int[] first = [.. Enumerable.Range(0, 6).Where(i => room.LoopOf(i) == 0)];
        int[] second = [.. Enumerable.Range(0, 6).Except(first)];
        Assert.NotEmpty(first);
        Assert.NotEmpty(second);
        using (room.Stop(0))
        {
            for (int i = 0; i < 20; i++)
            {
                Assert.True(room.Server.Multicast(Message(i)));
                foreach (int other in second)
                    Assert.Equal(Expected(20).Substring(10 * i, 10), Text(room.PeerOf(other), 10));
            }
        }

        foreach (int each in first) Assert.Equal(Expected(20), Text(room.PeerOf(each), 200));
    }

    // A restart creates new loops, which must not count messages of the first start as pending.
    [Fact]
    public void After_a_restart_of_the_service_a_single_message_arrives()
    {
        using Room room = new(sessions: 2, threads: 1);
        Assert.True(room.Server.Multicast("before"));
        room.Restart(sessions: 2);
        for (int i = 0; i < 3; i++)
        {
            Assert.True(room.Server.Multicast(Message(i)));
            foreach (Socket peer in room.Peers) Assert.Equal(Expected(3).Substring(10 * i, 10), Text(peer, 10));
        }
    }

    private static string Message(int i) => $"<{i:D8}>";

    private static string Expected(int count) => string.Concat(Enumerable.Range(0, count).Select(Message));

    private static string Text(Socket peer, int length)
    {
        byte[] bytes = new byte[length];
        Cost.Read(peer, bytes);
        return Encoding.ASCII.GetString(bytes);
    }

    private sealed class Room : IDisposable
    {
        private readonly Service _service;
        private readonly AskingServer _server;

        public Room(int sessions, int threads)
        {
            _service = new Service(threads);
            _server = new AskingServer(_service, this);
            Start(sessions);
        }

        public long Most { get; init; } = long.MaxValue;

        public int Asked { get; set; }

        public TcpServer Server => _server;

        public List<AskingSession> Sessions { get; } = [];

        public List<Socket> Peers { get; } = [];

        public long Sends => _server.Link.Multicasts.Sends;

        public Socket PeerOf(int session) => Peers[session];

        public int LoopOf(int session) => Enumerable.Range(0, _service.Threads)
            .First(i => ReferenceEquals(_service.Engine!.GetLoop(i), Sessions[session].Link.Bridge!.Loop));

        public void Restart(int sessions)
        {
            foreach (Socket peer in Peers) peer.Dispose();
            Peers.Clear();
            Sessions.Clear();
            Assert.True(_server.Stop() && _service.Restart());
            Start(sessions);
        }

        private void Start(int sessions)
        {
            if (!_service.IsStarted) Assert.True(_service.Start());
            Assert.True(_server.Start());
            for (int i = 1; i <= sessions; i++)
            {
                Peers.Add(Cost.Connect(_server.Port));
                Log.Until(() => Volatile.Read(ref _server.Connected) == i, "a session");
            }

            _server.Connected = 0;
        }

        // The thread pool does the last step, after the loop.
        public void Idle() => Log.Until(() => !_server.Link.Multicasts.Collects, "the end of the last message");

        public Standing Stop(int loop) => new(_service.Engine!.GetLoop(loop));

        public void Dispose()
        {
            _server.Dispose();
            _service.Dispose();
            foreach (Socket peer in Peers) peer.Dispose();
        }
    }

    private sealed class AskingServer(Service service, Room room) : TcpServer(service, "127.0.0.1", 0)
    {
        public int Connected;

        protected override TcpSession CreateSession() => new AskingSession(this, room);

        protected override void OnConnected(TcpSession session)
        {
            room.Sessions.Add((AskingSession)session);
            Interlocked.Increment(ref Connected);
        }
    }

    private sealed class AskingSession(TcpServer server, Room room) : TcpSession(server)
    {
        public bool Refuses { get; set; }

        protected override bool OnSending(long size)
        {
            room.Asked++;
            return !Refuses && BytesPending + size <= room.Most;
        }
    }
}
