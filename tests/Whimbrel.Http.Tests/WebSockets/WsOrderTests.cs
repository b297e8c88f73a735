using System.Net.WebSockets;
using System.Text;
using Whimbrel.Conformance;
using Whimbrel.Http.Tests.Serving;

namespace Whimbrel.Http.Tests.WebSockets;

// Messages and the close frame have one order, from whichever threads they are sent.
public sealed class WsOrderTests
{
    public static TheoryData<Scheduling, bool> Kinds() => new()
    {
        { Scheduling.Inline, false },
        { Scheduling.Inline, true },
        { Scheduling.ThreadPool, false },
        { Scheduling.ThreadPool, true }
    };

    /// <summary>Stops a sending thread in the middle of a send: the message is accepted but not queued yet.</summary>
    private sealed class Stoppable(TaskCompletionSource<Stoppable> connected) : WebSocketSession
    {
        [ThreadStatic]
        private static bool t_stops;

        internal ManualResetEventSlim IsStopped { get; } = new();

        internal ManualResetEventSlim MayGoOn { get; } = new();

        internal TaskCompletionSource Failed { get; } = new(TaskCreationOptions.RunContinuationsAsynchronously);

        internal SendResult SendStopping(byte[] text)
        {
            t_stops = true;
            try
            {
                return SendText(text);
            }
            finally
            {
                t_stops = false;
            }
        }

        protected override bool OnSending(long bytes)
        {
            if (!t_stops) return true;
            IsStopped.Set();
            return MayGoOn.Wait(WsSite.Patience);
        }

        protected override void OnConnected() => connected.SetResult(this);

        protected override void OnText(ReadOnlySpan<byte> utf8) => throw new InvalidOperationException("mine");

        protected override void OnError(Exception exception) => Failed.TrySetResult();
    }

    private static async Task<(WsSite Site, ClientWebSocket Client, Stoppable Session)> OpenAsync(Scheduling scheduling,
        bool deflates)
    {
        WsSite site = new(EngineKind.Portable, scheduling: scheduling);
        TaskCompletionSource<Stoppable> connected = new(TaskCreationOptions.RunContinuationsAsynchronously);
        site.Server.WebSocket("/ws", () => new Stoppable(connected),
            new WebSocketOptions { Deflate = deflates ? new WebSocketDeflate() : null });
        await site.Server.StartAsync();
        ClientWebSocket client = new();
        if (deflates) client.Options.DangerousDeflateOptions = new WebSocketDeflateOptions();
        using CancellationTokenSource limit = new(WsSite.Patience);
        await client.ConnectAsync(site.Address, limit.Token);
        return (site, client, await connected.Task.WaitAsync(limit.Token));
    }

    [Theory, MemberData(nameof(Kinds))]
    public async Task A_message_accepted_before_another_thread_closes_precedes_the_close_frame(Scheduling scheduling,
        bool deflates)
    {
        foreach (string end in (string[])["close", "finish", "exception"])
        {
            (WsSite site, ClientWebSocket client, Stoppable session) = await OpenAsync(scheduling, deflates);
            await using WsSite owned = site;
            using ClientWebSocket used = client;
            using CancellationTokenSource limit = new(WsSite.Patience);
            byte[] text = Encoding.ASCII.GetBytes(new string('a', 200));
            Task<SendResult> sending = Task.Factory.StartNew(() => session.SendStopping(text), limit.Token,
                TaskCreationOptions.LongRunning, TaskScheduler.Default);
            Assert.True(session.IsStopped.Wait(WsSite.Patience, limit.Token));
            if (end == "close") session.Close((WebSocketStatus)4000);
            if (end == "finish") session.ShutdownSend((WebSocketStatus)4000);
            if (end == "exception")
            {
                await client.SendAsync("x"u8.ToArray(), WebSocketMessageType.Text, true, limit.Token);
                await session.Failed.Task.WaitAsync(limit.Token);
            }

            // The post of the close has run by then.
            for (int i = 0; i < 3; i++) await session.PostAsync(static _ => { }, null);
            Assert.Equal(SendResult.Closed, session.SendText("late"));
            session.MayGoOn.Set();
            Assert.Equal(SendResult.Queued, await sending);
            byte[] got = new byte[1000];
            WebSocketReceiveResult first = await client.ReceiveAsync(got, limit.Token);
            Assert.Equal((WebSocketMessageType.Text, 200), (first.MessageType, first.Count));
            WebSocketReceiveResult second = await client.ReceiveAsync(got, limit.Token);
            Assert.Equal(WebSocketMessageType.Close, second.MessageType);
            Assert.Equal(end == "exception" ? 1011 : 4000, (int)second.CloseStatus!);
        }
    }

    [Theory, MemberData(nameof(Kinds))]
    public async Task Every_message_that_was_taken_comes_before_the_close_whatever_threads_send_and_close(
        Scheduling scheduling, bool deflates)
    {
        const int Connections = 40, Senders = 3;
        await using WsSite site = new(EngineKind.Portable, scheduling: scheduling);
        using SemaphoreSlim joined = new(0);
        List<WsSession> sessions = [];
        WebSocketOptions options = new() { Deflate = deflates ? new WebSocketDeflate() : null };
        site.Server.WebSocket("/ws", () => new WsSession((s, what) =>
        {
            if (what != "connected") return;
            lock (sessions) sessions.Add(s);
            joined.Release();
        }), options);
        await site.Server.StartAsync();
        using CancellationTokenSource limit = new(WsSite.Patience);
        byte[] text = Encoding.ASCII.GetBytes(new string('b', 100));
        for (int i = 0; i < Connections; i++)
        {
            WebSocketSession client = await site.ConnectAsync(options, limit.Token);
            await joined.WaitAsync(limit.Token);
            WsSession session = sessions[^1];
            using Barrier start = new(Senders + 1);
            Task<int>[] senders = [.. Enumerable.Range(0, Senders).Select(_ => Task.Factory.StartNew(() =>
            {
                start.SignalAndWait();
                int taken = 0;
                for (int n = 0; n < 2000; n++)
                {
                    SendResult result = session.SendText(text);
                    if (result == SendResult.Closed) break;
                    if (result == SendResult.Queued) taken++;
                }

                return taken;
            }, limit.Token, TaskCreationOptions.LongRunning, TaskScheduler.Default))];
            start.SignalAndWait();
            Thread.SpinWait(i * 500);
            session.Close();
            int got = 0;
            while (await client.ReceiveMessageAsync(limit.Token) is not null) got++;
            Assert.Equal((await Task.WhenAll(senders)).Sum(), got);
            client.Close();
        }
    }

    [Fact]
    public void A_broadcast_does_not_follow_a_close_frame_also_where_a_message_in_pieces_was_begun()
    {
        foreach (bool inPieces in (bool[])[false, true])
        {
            using Web web = new();
            SessionGroup room = new("room");
            WsSession? session = null;
            web.Server.WebSocket("/ws", () => session = new WsSession((s, what) =>
            {
                if (what == "connected") room.Join(s);
                if (what == "text bye") s.Close();
            }));
            WsPeer peer = new(web);
            if (inPieces)
            {
                ValueTask<SendResult> piece = session!.SendPieceAsync("begun"u8.ToArray(), isText: true, isLast: false);
                web.Network.Run();
                Assert.True(piece.IsCompleted);
            }

            peer.Send("81 bye");
            room.BroadcastText("late"u8);
            web.Network.Run();
            room.BroadcastText("later"u8);
            web.Network.Run();
            string[] events = peer.Read();
            Assert.Equal("Close \x03\xE8", events[^1]);
            Assert.DoesNotContain("Text late", events);
        }
    }
}
