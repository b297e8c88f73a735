using System.Globalization;
using System.Text;
using Whimbrel.Testing;

namespace Whimbrel.Http.Tests.WebSockets;

// A chat on a memory network that splits, delays and resets, with our clients as members. A member that stays connected
// receives every broadcast line exactly once, in order per sender. A member that misses lines has been informed that
// its connection is lost.
public sealed class ChatSimulationTests
{
    private const int Members = 50;
    private const int LinesOfEach = 2;

    private static int Seeds => Depth.Of(1000, deep: 20_000);

    private sealed class Hall
    {
        internal SessionGroup Room { get; } = new("room");

        internal List<string> Broadcast { get; } = [];

        internal int Joined { get; set; }
    }

    private sealed class Guest(Hall hall) : WebSocketSession
    {
        protected override void OnConnected()
        {
            hall.Room.Join(this);
            hall.Joined++;
            SendText("joined");
        }

        protected override void OnText(ReadOnlySpan<byte> utf8)
        {
            hall.Broadcast.Add(Encoding.UTF8.GetString(utf8));
            Assert.Equal(SendResult.Queued, hall.Room.BroadcastText(utf8));
        }
    }

    private sealed class Member(int number) : WebSocketSession
    {
        internal List<string> Heard { get; } = [];

        internal bool HasJoined { get; private set; }

        internal bool HasLost { get; private set; }

        internal int Number => number;

        protected override void OnText(ReadOnlySpan<byte> utf8)
        {
            if (!HasJoined) HasJoined = utf8.SequenceEqual("joined"u8);
            else Heard.Add(Encoding.UTF8.GetString(utf8));
        }

        protected override void OnDisconnected(CloseReason reason)
        {
            base.OnDisconnected(reason);
            HasLost = true;
        }
    }

    [Fact]
    public void Every_member_receives_every_line_once_and_in_order_or_is_informed_that_it_is_cut_off()
    {
        int lost = 0, stayed = 0, heard = 0;
        int first = Random.Shared.Next(1_000_000);
        TestContext.Current.TestOutputHelper!.WriteLine($"seeds from {first}");
        for (int seed = first; seed < first + Seeds; seed++) Play(seed, ref lost, ref stayed, ref heard);
        // Both outcomes occurred, and most lines reached most members.
        Assert.InRange(lost, Seeds / 4, Seeds * Members / 2);
        Assert.InRange(stayed, Seeds * Members / 2, Seeds * Members);
        Assert.InRange(heard, stayed * Members * LinesOfEach / 3, Seeds * Members * Members * LinesOfEach);
    }

    private static void Play(int seed, ref int lost, ref int stayed, ref int heard)
    {
        Random random = new(seed);
        MemoryFaults faults = new()
        {
            Split = random.Next(300),
            Delay = random.Next(300),
            WouldBlock = random.Next(200),
            Reset = random.Next(3) == 0 ? random.Next(1, 4) : 0,
            WireBytes = random.Next(2) == 0 ? 64 * 1024 : 512
        };
        MemoryEngine engine = new(seed, loops: 1 + seed % 3, faults: faults);
        Hall hall = new();
        WebSocketDeflate? deflate =
            random.Next(4) == 0 ? new WebSocketDeflate { LeastBytes = 0, Forgets = random.Next(2) == 0 } : null;
        HttpServer server = new(new ServerOptions { Engine = engine, EndPoint = new MemoryEndPoint("chat") });
        server.WebSocket("/", () => new Guest(hall),
            new WebSocketOptions { Deflate = deflate, Heartbeat = Timeout.InfiniteTimeSpan });
        engine.Run(server.StartAsync());

        List<Member> members = [];
        List<WebSocketClient> clients = [];
        WebSocketOptions options = new() { Deflate = deflate, Heartbeat = Timeout.InfiniteTimeSpan };
        for (int i = 0; i < Members; i++)
        {
            Member member = new(i);
            WebSocketClient client = new("ws://chat/",
                new ClientOptions { Engine = engine, EndPoint = new MemoryEndPoint("chat") }, () => member, options);
            clients.Add(client);
            ValueTask<WebSocketSession> connecting = client.ConnectAsync();
            members.Add(member);
            _ = connecting.AsTask().ContinueWith(static t => t.Exception, TaskScheduler.Default);
        }

        engine.RunUntilIdle();
        foreach (Member member in members.Where(static m => m.HasJoined))
        {
            for (int i = 0; i < LinesOfEach; i++)
                member.SendText(string.Create(CultureInfo.InvariantCulture,
                    $"{member.Number}:{i} {new string('x', random.Next(random.Next(4) == 0 ? 700 : 20))}"));
        }

        engine.RunUntilIdle();
        ILookup<string, string> saidBy =
            hall.Broadcast.ToLookup(static l => l[..l.IndexOf(':', StringComparison.Ordinal)]);
        foreach (Member member in members)
        {
            string told = $"seed {seed}, member {member.Number}";
            Assert.True(member.Heard.Distinct().Count() == member.Heard.Count, $"{told}: a line came twice");
            Assert.True(!member.Heard.Except(hall.Broadcast).Any(), $"{told}: a line that was never sent");
            foreach (IGrouping<string, string> each in member.Heard.GroupBy(
                static l => l[..l.IndexOf(':', StringComparison.Ordinal)]))
            {
                List<string> lines = [.. each];
                Assert.True(lines.SequenceEqual(saidBy[each.Key].Take(lines.Count)),
                    $"{told}: lines of {each.Key} are out of order");
            }

            heard += member.Heard.Count;
            if (member.HasLost) lost++;
            else if (member.HasJoined) stayed++;
            Assert.True(member.HasLost || !member.HasJoined || member.Heard.Count == hall.Broadcast.Count,
                $"{told}: received {member.Heard.Count} of {hall.Broadcast.Count} lines and is connected");
        }

        foreach (WebSocketClient client in clients) engine.Run(client.DisposeAsync());
        engine.Run(server.StopAsync(TimeSpan.Zero));
        engine.Run(engine.DisposeAsync());
    }
}
