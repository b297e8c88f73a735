using System.Runtime.CompilerServices;
using System.Text;
using Whimbrel.Http.Tests.Serving;
using Whimbrel.Http.WebSockets;
using Whimbrel.Testing;

namespace Whimbrel.Http.Tests.WebSockets;

// State of a WebSocket that must be reset after its first use, and memory that must be returned.
public sealed class WsAgainTests
{
    private static (Web Web, WsPeer Peer) Open(Func<WebSocketSession> make, WebSocketOptions? options = null)
    {
        Web web = new();
        web.Server.WebSocket("/ws", make, options);
        return (web, new WsPeer(web));
    }

    private static T Get<T>(Web web, ValueTask<T> task)
    {
        Task<T> done = task.AsTask();
        web.Network.Run();
        Assert.True(done.IsCompleted, "It waits.");
        return done.GetAwaiter().GetResult();
    }

    [Theory]
    [InlineData(1000)]
    [InlineData(100_000)]
    public void Each_message_may_have_the_limit_and_none_one_byte_more(int limit)
    {
        (Web web, WsPeer peer) = Open(static () => new WsSession(), new WebSocketOptions { MessageLimitBytes = limit });
        using (web)
        {
            for (int i = 0; i < 3; i++)
            {
                peer.Send($"82 {limit}*x|02 {limit - 1}*x|80 x");
                Assert.Empty(peer.Read());
            }

            peer.Send($"02 {limit}*x|80 x");
            Assert.StartsWith("Close \x03\xF1", Assert.Single(peer.Read()), StringComparison.Ordinal);
        }
    }

    [Fact]
    public void A_broadcast_waits_for_the_end_of_each_message_in_pieces()
    {
        WsSession session = new();
        (Web web, WsPeer peer) = Open(() => session);
        using (web)
        {
            SessionGroup room = new();
            room.Join(session);
            web.Network.Run();
            for (int i = 0; i < 4; i++)
            {
                Get(web, session.SendPieceAsync("a"u8.ToArray(), isText: true, isLast: false));
                room.BroadcastText(Encoding.UTF8.GetBytes($"news {i}"));
                web.Network.Run();
                Assert.Empty(peer.Read());
                Get(web, session.SendPieceAsync("b"u8.ToArray(), isText: true, isLast: true));
                web.Network.Run();
                Assert.Equal(["Text ab", $"Text news {i}"], peer.Read());
                room.BroadcastText("between"u8);
                web.Network.Run();
                Assert.Equal(["Text between"], peer.Read());
            }
        }
    }

    [Fact]
    public void A_session_without_broadcasts_gets_none_after_each_message_in_pieces()
    {
        Gated session = new();
        (Web web, WsPeer peer) = Open(() => session);
        using (web)
        {
            SessionGroup room = new();
            room.Join(session);
            session.Post(() => session.Gate = BroadcastGate.Shut);
            for (int i = 0; i < 3; i++)
            {
                Get(web, session.SendPieceAsync("a"u8.ToArray(), isText: true, isLast: false));
                Get(web, session.SendPieceAsync("b"u8.ToArray(), isText: true, isLast: true));
                web.Network.Run();
                BroadcastGate? gate = null;
                session.Post(() => gate = session.Gate);
                web.Network.Run();
                Assert.Equal(BroadcastGate.Shut, gate);
            }

            room.BroadcastText("skipped"u8);
            session.Post(() => session.Gate = BroadcastGate.Open);
            room.BroadcastText("news"u8);
            web.Network.Run();
            Assert.Equal(["Text ab", "Text ab", "Text ab", "Text news"], peer.Read());
        }
    }

    private sealed class Gated : WebSocketSession
    {
        public BroadcastGate Gate
        {
            get => BroadcastGate;
            set => BroadcastGate = value;
        }
    }

    [Fact] // the context of both sides has the messages that were queued, and no others
    public void A_compressed_message_that_was_refused_is_sent_again_later_as_it_was()
    {
        MemoryEngine engine = new(1, faults: MemoryFaults.None);
        MemoryEndPoint here = new("here");
        WebSocketOptions options = new() { Deflate = new WebSocketDeflate { Forgets = false, PeerForgets = false } };
        List<string> waiting = [.. Enumerable.Range(0, 8).Select(static i => Noise(i, 1500))], sent = [];
        HttpServer server = new(new ServerOptions
        {
            Engine = engine,
            EndPoint = here,
            Limits = new() { SendBytes = 8 * 1024, SlowConsumer = SlowConsumer.DropNewest }
        });
        server.WebSocket("/ws", () => new WsSession((s, what) =>
        {
            if (what != "text go") return;
            foreach (string text in waiting.ToArray())
            {
                if (s.SendText(text) == SendResult.Queued && waiting.Remove(text)) sent.Add(text);
            }
        }), options);
        engine.Run(server.StartAsync());
        List<WsSession> sessions = [];
        WebSocketClient client = new("ws://here/ws", new ClientOptions { Engine = engine, EndPoint = here }, () =>
        {
            sessions.Add(new WsSession());
            return sessions[^1];
        }, options);
        Task connecting = client.ConnectAsync().AsTask();
        engine.RunUntil(() => connecting.IsCompleted);
        for (int left = 8; left > 0;)
        {
            sessions[0].SendText("go");
            engine.RunUntilIdle();
            Assert.Equal(["connected", .. sent.Select(static s => $"text {s}")], sessions[0].Events);
            Assert.InRange(waiting.Count, left == 8 ? 1 : 0, left - 1); // some are refused
            left = waiting.Count;
        }

        engine.Run(client.DisposeAsync());
        engine.Run(engine.DisposeAsync());
    }

    private static string Noise(int seed, int bytes)
    {
        byte[] noise = new byte[bytes];
        new Random(seed).NextBytes(noise);
        return Convert.ToBase64String(noise);
    }

    [Fact] // 64 KiB are held, and reading continues at the half of it
    public void A_session_that_is_read_by_awaiting_pauses_and_resumes_each_time()
    {
        const int Length = 16_000;
        Web web = new();
        WebSocketSession? session = null;
        TaskCompletionSource mayEnd = new(TaskCreationOptions.RunContinuationsAsynchronously);
        web.Server.WebSocket("/ws", (socket, _) =>
        {
            session = socket;
            return mayEnd.Task;
        });
        WsPeer peer = new(web);
        using (web)
        {
            byte[] got = new byte[2 * Length];
            for (int time = 0; time < 3; time++)
            {
                for (int i = 1; i <= 5; i++)
                {
                    Assert.False(session!.IsReceivingPaused, $"{i}");
                    peer.Send($"82 {Length}*{i}");
                }

                web.Network.Run();
                Assert.True(session!.IsReceivingPaused);
                for (int i = 1; i <= 5; i++)
                {
                    Assert.Equal(i <= 3, session.IsReceivingPaused);
                    WebSocketReceived one = Get(web, session.ReceiveAsync(got));
                    Assert.Equal((Length, true), (one.Count, one.IsLast));
                    Assert.Equal(-1, got.AsSpan(0, Length).IndexOfAnyExcept((byte)('0' + i)));
                    web.Network.Run();
                }
            }

            mayEnd.SetResult();
            web.Network.Run();
        }
    }

    [Theory]
    [InlineData(20, -1)]
    [InlineData(-1, 20)]
    public async Task Reads_and_writes_of_a_stream_have_a_time_limit_each(int readTimeoutMs, int writeTimeoutMs)
    {
        await using WsSite site = new(EngineKind.Portable);
        TaskCompletionSource mayEnd = new(TaskCreationOptions.RunContinuationsAsynchronously);
        await site.ServeAsync((_, _) => mayEnd.Task);
        using CancellationTokenSource limit = new(WsSite.Patience);
        WebSocketStream stream = new(await site.ConnectAsync(null, limit.Token))
        {
            ReadTimeout = readTimeoutMs,
            WriteTimeout = writeTimeoutMs
        };
        // The server reads nothing, and sends nothing.
        Task call = Task.Run(() =>
        {
            if (readTimeoutMs > 0) _ = stream.ReadByte();
            else stream.Write(new byte[64 * 1024 * 1024]);
        }, limit.Token);
        NetworkException e = await Assert.ThrowsAsync<NetworkException>(() => call.WaitAsync(limit.Token));
        Assert.Equal(ErrorCategory.Timeout, e.Error.Category);
        stream.Abort();
        mayEnd.SetResult();
    }

    [Fact]
    public async Task A_compressed_message_and_the_end_of_its_WebSocket_leave_no_memory()
    {
        await using WsSite site = new(EngineKind.Portable);
        TaskCompletionSource<WebSocketSession> connected = new(TaskCreationOptions.RunContinuationsAsynchronously);
        SemaphoreSlim arrived = new(0), ended = new(0);
        WebSocketOptions options = new() { Deflate = new WebSocketDeflate() };
        site.Server.WebSocket("/ws", () => new WsSession((session, what) =>
        {
            if (what == "connected") connected.SetResult(session);
            if (what.StartsWith("binary ", StringComparison.Ordinal)) arrived.Release();
            if (what.StartsWith("disconnected ", StringComparison.Ordinal)) ended.Release();
        }), options);
        await site.Server.StartAsync();
        using CancellationTokenSource limit = new(WsSite.Patience);
        WebSocketSession client = await site.ConnectAsync(options, limit.Token);
        WebSocketSession server = await connected.Task.WaitAsync(limit.Token);
        DeflateContext context = ContextOf(server)!;
        for (int i = 0; i < 3; i++)
        {
            foreach (int length in (int[])[1_000, 100_000, 500_000])
            {
                Assert.Equal(SendResult.Queued, await client.SendBinaryAsync(new byte[length], limit.Token));
                await arrived.WaitAsync(limit.Token);
                await server.PostAsync(() => Assert.True(IsEmpty(context.Inflated), $"{length}"));
            }
        }

        await server.PostAsync(() => Assert.Equal(SendResult.Queued, server.SendBinary(new byte[10_000])));
        client.Abort();
        await ended.WaitAsync(limit.Token);
        Assert.Null(context.Inflater);
        Assert.True(context.History.Span.IsEmpty && IsEmpty(context.Inflated));

        static bool IsEmpty(MessageBuffer buffer) => buffer.Length == 0 && buffer.FreeMemory.IsEmpty;
    }

    [UnsafeAccessor(UnsafeAccessorKind.Field, Name = "_deflate")]
    private static extern ref DeflateContext? ContextOf(WebSocketSession session);
}
