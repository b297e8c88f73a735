using System.Net.WebSockets;
using System.Text;
using Whimbrel.Conformance;

namespace Whimbrel.Http.Tests.WebSockets;

// When a client has its 101, the session is in the groups that OnConnected joined.
public sealed class WsOpeningTests
{
    public static TheoryData<EngineKind, bool, Scheduling> Kinds() => Serving.EngineTests.Kinds();

    private sealed class Opening(Action<Opening> onConnected) : WebSocketSession
    {
        internal void Fence()
        {
            // Enough iterations of the loop to send whatever could be sent.
            for (int i = 0; i < 3; i++)
            {
                using ManualResetEventSlim done = new();
                Assert.True(Loop.Post(static s => ((ManualResetEventSlim)s!).Set(), done));
                Assert.True(done.Wait(WsSite.Patience));
            }
        }

        protected override void OnConnected() => onConnected(this);
    }

    [Theory, MemberData(nameof(Kinds))]
    public async Task The_101_and_all_messages_after_it_are_sent_in_order_when_OnConnected_has_returned(EngineKind kind,
        bool isTls, Scheduling scheduling)
    {
        // inline, callback and flush are on one thread, and nothing may block
        if (scheduling == Scheduling.Inline) return;
        await using WsSite site = new(kind, isTls, scheduling);
        SessionGroup room = new("room");
        long before = -1, sent = -1;
        site.Server.WebSocket("/ws", () => new Opening(session =>
        {
            before = session.BytesSent;
            // Sent from another thread, which posts what the callback has batched; then from this one.
            Task.Run(() => Assert.Equal(SendResult.Queued, session.SendText("first"))).Wait();
            session.Fence();
            room.Join(session);
            session.SendText("second");
            Task.Run(() => room.BroadcastText("third"u8)).Wait();
            session.Fence();
            sent = session.BytesSent;
        }));
        await site.Server.StartAsync();
        using CancellationTokenSource limit = new(WsSite.Patience);
        using ClientWebSocket client = await site.ConnectNetAsync(limit.Token);
        room.BroadcastText("fourth"u8);
        byte[] got = new byte[100];
        foreach (string text in (string[])["first", "second", "third", "fourth"])
        {
            WebSocketReceiveResult result = await client.ReceiveAsync(got, limit.Token);
            Assert.Equal(text, Encoding.ASCII.GetString(got, 0, result.Count));
        }

        Assert.Equal(before, sent); // nothing was sent
    }

    [Theory, MemberData(nameof(Kinds))]
    public async Task A_broadcast_right_after_the_101_is_not_missed(EngineKind kind, bool isTls, Scheduling scheduling)
    {
        await using WsSite site = new(kind, isTls, scheduling);
        SessionGroup room = new("room");
        site.Server.WebSocket("/ws", () => new Opening(session => room.Join(session)));
        await site.Server.StartAsync();
        using CancellationTokenSource limit = new(WsSite.Patience);
        byte[] got = new byte[100];
        for (int i = 0; i < (isTls ? 10 : 50); i++)
        {
            using ClientWebSocket client = await site.ConnectNetAsync(limit.Token);
            room.BroadcastText(Encoding.ASCII.GetBytes($"{i}"));
            WebSocketReceiveResult result = await client.ReceiveAsync(got, limit.Token);
            Assert.Equal($"{i}", Encoding.ASCII.GetString(got, 0, result.Count));
        }
    }

    [Fact]
    public async Task OnConnected_may_wait_for_what_it_has_sent_and_a_large_greeting_leaves()
    {
        foreach (string how in (string[])["flush", "sent", "room"])
        {
            await using WsSite site = new(EngineKind.Portable, scheduling: Scheduling.ThreadPool);
            site.Server.WebSocket("/ws", () => new Opening(session =>
            {
                switch (how)
                {
                    case "flush":
                        session.SendText("x");
                        session.Flush();
                        long from = Environment.TickCount64;
                        while (session.BytesSent == 0
                            && Environment.TickCount64 - from < WsSite.Patience.TotalMilliseconds)
                            session.Fence();
                        Assert.NotEqual(0, session.BytesSent);
                        break;
                    case "sent":
                        session.SendText("x");
                        Assert.True(session.SentAsync().AsTask().Wait(WsSite.Patience));
                        break;
                    case "room":
                        // more than the send queue holds
                        for (int i = 0; i < 11; i++)
                            Assert.Equal(SendResult.Queued, session.SendBinary(new byte[100_000]));
                        break;
                }
            }));
            await site.Server.StartAsync();
            using CancellationTokenSource limit = new(WsSite.Patience);
            WebSocketSession client = await site.ConnectAsync(null, limit.Token);
            int messages = how == "room" ? 11 : 1;
            for (int i = 0; i < messages; i++) Assert.NotNull(await client.ReceiveMessageAsync(limit.Token));
        }
    }
}
