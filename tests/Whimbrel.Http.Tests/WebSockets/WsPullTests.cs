using System.Text;

namespace Whimbrel.Http.Tests.WebSockets;

// Messages that are awaited or blocked for, on each engine, plain and over TLS, with inline and thread-pool scheduling.
public sealed class WsPullTests
{
    private static readonly int[] _lengths = [0, 1, 125, 126, 5000, 65535, 65536, 1_000_000, 3];

    public static TheoryData<EngineKind, bool, Scheduling> Kinds() => Serving.EngineTests.Kinds();

    private static byte[] Bytes(int length)
    {
        byte[] bytes = new byte[length];
        new Random(length).NextBytes(bytes);
        bytes.AsSpan(0, length / 2).Fill((byte)'x');
        return bytes;
    }

    // Echoes whole messages that it receives in parts.
    private static async Task EchoInParts(WebSocketSession socket, CancellationToken stop)
    {
        byte[] part = new byte[10_000];
        while (true)
        {
            WebSocketReceived got = await socket.ReceiveAsync(part, CancellationToken.None);
            if (got.IsEnd) return;
            Assert.Equal(SendResult.Queued, await socket.SendPieceAsync(part.AsMemory(0, got.Count), got.IsText,
                got.IsLast, CancellationToken.None));
        }
    }

    // Messages with a context must reach the peer in the order in which they were compressed.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Compressed_messages_of_two_threads_with_a_context_are_what_they_were(bool awaits)
    {
        WebSocketOptions options =
            new() { Deflate = new WebSocketDeflate { Forgets = false, PeerForgets = false, LeastBytes = 0 } };
        await using WsSite site = new(EngineKind.Epoll);
        site.Server.WebSocket("/ws", () => new TwoThreads(awaits), options);
        await site.Server.StartAsync();
        using CancellationTokenSource limit = new(WsSite.Patience);
        WebSocketSession client = await site.ConnectAsync(options, limit.Token);
        for (int round = 0; round < 3; round++)
        {
            Assert.Equal(SendResult.Queued, client.SendText("go"));
            List<string> got = [];
            for (int i = 0; i < 3; i++) got.Add((await client.ReceiveMessageAsync(limit.Token))!.Value.Text);
            Assert.Equal(["loop: the same words", "other: the same words", "loop again: the same words"], got);
        }
    }

    private sealed class TwoThreads(bool awaits) : WebSocketSession
    {
        protected override void OnText(ReadOnlySpan<byte> utf8)
        {
            SendText("loop: the same words");
            Thread other = new(() =>
            {
                if (awaits) _ = SendTextAsync("other: the same words"u8.ToArray()).AsTask();
                else SendText("other: the same words");
            });
            other.Start();
            other.Join();
            SendText("loop again: the same words");
        }
    }

    [Theory, MemberData(nameof(Kinds))]
    public async Task Messages_are_taken_in_parts_and_sent_in_pieces_plain_and_compressed(EngineKind kind, bool isTls,
        Scheduling scheduling)
    {
        foreach (WebSocketDeflate? deflate in (WebSocketDeflate?[])[null, new WebSocketDeflate()])
        {
            await using WsSite site = new(kind, isTls, scheduling);
            await site.ServeAsync(EchoInParts, new WebSocketOptions { Deflate = deflate });
            using CancellationTokenSource limit = new(WsSite.Patience);
            WebSocketSession client = await site.ConnectAsync(new WebSocketOptions { Deflate = deflate }, limit.Token);
            foreach (int length in _lengths)
            {
                byte[] data = Bytes(length);
                Assert.Equal(SendResult.Queued, await client.SendBinaryAsync(data, limit.Token));
                Assert.Equal(SendResult.Queued, client.SendText("t\u00E9xt"));
                WebSocketMessage? first = await client.ReceiveMessageAsync(limit.Token);
                Assert.False(first!.Value.IsText);
                Assert.True(first.Value.Data.Span.SequenceEqual(data), $"{length} bytes");
                WebSocketMessage? second = await client.ReceiveMessageAsync(limit.Token);
                Assert.Equal((true, "t\u00E9xt"), (second!.Value.IsText, second.Value.Text));
            }

            client.ShutdownSend((WebSocketStatus)4001, "that was all");
            Assert.Null(await client.ReceiveMessageAsync(limit.Token));
            Assert.Null(await client.ReceiveMessageAsync(limit.Token)); // the end is reported again
            await client.CloseAsync(limit.Token);
            Assert.Equal((4001, "that was all"), ((int)client.CloseStatus, client.CloseText));
        }
    }

    [Theory]
    [InlineData(EngineKind.Epoll, false, Scheduling.ThreadPool)]
    [InlineData(EngineKind.Uring, false, Scheduling.Inline)]
    [InlineData(EngineKind.Portable, true, Scheduling.Inline)]
    public async Task A_peer_waits_when_messages_are_not_read_and_nothing_is_lost(EngineKind kind, bool isTls,
        Scheduling scheduling)
    {
        const int Count = 300, Length = 50_000;
        await using WsSite site = new(kind, isTls, scheduling);
        TaskCompletionSource reads = new(TaskCreationOptions.RunContinuationsAsynchronously);
        TaskCompletionSource<int> wrong = new(TaskCreationOptions.RunContinuationsAsynchronously);
        await site.ServeAsync(async (socket, _) =>
        {
            await reads.Task;
            for (int i = 0; i < Count; i++)
            {
                if (await socket.ReceiveMessageAsync(CancellationToken.None) is not { Data: { Length: Length } data }
                    || data.Span.IndexOfAnyExcept((byte)i) >= 0)
                    wrong.TrySetResult(i);
            }

            wrong.TrySetResult(-1);
        }, new WebSocketOptions
        {
            Heartbeat = TimeSpan.FromMilliseconds(100)
        }); // a peer that does not read must not be considered dead
        using CancellationTokenSource limit = new(WsSite.Patience);
        WebSocketSession client = await site.ConnectAsync(null, limit.Token);
        Task sending = Task.Run(async () =>
        {
            for (int i = 0; i < Count; i++)
            {
                byte[] data = new byte[Length];
                data.AsSpan().Fill((byte)i);
                Assert.Equal(SendResult.Queued, await client.SendBinaryAsync(data, limit.Token));
            }
        }, limit.Token);
        // tidy: waits because seven heartbeats must pass while the client does not read
        await Task.WhenAny(sending, Task.Delay(700, limit.Token));
        Assert.False(sending.IsCompleted, "15 MB were sent to a peer that does not read");
        reads.SetResult();
        await sending;
        Assert.Equal(-1, await wrong.Task.WaitAsync(limit.Token));
    }

    [Theory, MemberData(nameof(Kinds))]
    public async Task A_blocking_receive_gives_messages_a_time_limit_and_the_end(EngineKind kind, bool isTls,
        Scheduling scheduling)
    {
        await using WsSite site = new(kind, isTls, scheduling);
        await site.ServeAsync(static async (socket, stop) =>
        {
            while (await socket.ReceiveMessageAsync(CancellationToken.None) is { } message)
            {
                if (message.Text == "close") return;
                if (message.Text != "silence") socket.SendText("heard " + message.Text);
            }
        });
        using CancellationTokenSource limit = new(WsSite.Patience);
        WebSocketSession client = await site.ConnectAsync(null, limit.Token);
        client.SendText("a");
        Assert.Equal("heard a", client.ReceiveMessage(WsSite.Patience)!.Value.Text);
        client.SendText("silence");
        Assert.Throws<TimeoutException>(() => client.ReceiveMessage(TimeSpan.FromMilliseconds(20)));
        client.SendText("b");
        byte[] part = new byte[6];
        Assert.Equal(new WebSocketReceived(6, true, false, false), client.Receive(part, WsSite.Patience));
        Assert.Equal(new WebSocketReceived(1, true, true, false), client.Receive(part, WsSite.Patience));
        client.SendText("close");
        Assert.Null(client.ReceiveMessage(WsSite.Patience));
        Assert.Equal(WebSocketStatus.Normal, client.CloseStatus);
    }

    [Fact]
    public async Task A_cancelled_receive_loses_nothing_and_a_second_one_beside_it_throws()
    {
        await using WsSite site = new(EngineKind.Portable);
        await site.ServeAsync(EchoInParts);
        using CancellationTokenSource limit = new(WsSite.Patience);
        WebSocketSession client = await site.ConnectAsync(null, limit.Token);
        for (int i = 0; i < 200; i++)
        {
            using CancellationTokenSource stop = new();
            Task<WebSocketMessage?> receiving = client.ReceiveMessageAsync(stop.Token).AsTask();
            Assert.Throws<InvalidOperationException>(() => { _ = client.ReceiveAsync(new byte[1]); });
            client.SendText($"{i}");
            _ = Task.Run(stop.Cancel, limit.Token); // about when the message arrives
            WebSocketMessage? got = null;
            try
            {
                got = await receiving;
            }
            catch (OperationCanceledException)
            {
                got = await client.ReceiveMessageAsync(limit.Token);
            }

            Assert.Equal($"{i}", got!.Value.Text);
        }
    }

    [Fact]
    public async Task An_end_without_a_close_frame_throws_after_the_received_messages()
    {
        await using WsSite site = new(EngineKind.Portable);
        TaskCompletionSource stays = new(TaskCreationOptions.RunContinuationsAsynchronously);
        await site.ServeAsync(async (socket, _) =>
        {
            socket.SendText("last words");
            await socket.SentAsync();
            await stays.Task;
            socket.Abort();
        });
        using CancellationTokenSource limit = new(WsSite.Patience);
        WebSocketSession client = await site.ConnectAsync(null, limit.Token);
        Assert.Equal("last words", (await client.ReceiveMessageAsync(limit.Token))!.Value.Text);
        stays.SetResult();
        await Assert.ThrowsAsync<WebSocketException>(() => client.ReceiveMessageAsync(limit.Token).AsTask());
    }

    [Fact]
    public async Task A_message_above_the_limit_is_not_put_together_and_closes_with_1009()
    {
        await using WsSite site = new(EngineKind.Portable);
        TaskCompletionSource<string> failure = new(TaskCreationOptions.RunContinuationsAsynchronously);
        await site.ServeAsync(async (socket, _) =>
        {
            try
            {
                await socket.ReceiveMessageAsync(CancellationToken.None);
            }
            catch (WebSocketException e)
            {
                failure.SetResult(e.Message);
            }
        }, new WebSocketOptions { MessageLimitBytes = 1000 });
        using CancellationTokenSource limit = new(WsSite.Patience);
        WebSocketSession client = await site.ConnectAsync(null, limit.Token);
        client.SendBinary(new byte[1001]);
        Assert.Null(await client.ReceiveMessageAsync(limit.Token));
        Assert.Equal(WebSocketStatus.MessageTooBig, client.CloseStatus);
        Assert.StartsWith("A message has more than 1000 bytes", await failure.Task, StringComparison.Ordinal);
    }

    // This is the peer's error: the peer is informed by a status, and cannot fill the log of this side.
    [Fact]
    public async Task A_handler_ended_by_a_message_above_the_limit_is_not_reported_as_one_that_threw()
    {
        await using WsSite site = new(EngineKind.Portable);
        int count = 0;
        await site.ServeAsync(async (socket, stop) =>
        {
            if (Interlocked.Increment(ref count) > 1) throw new WebSocketException("It is the handler's own.");
            await socket.ReceiveMessageAsync(stop);
        }, new WebSocketOptions { MessageLimitBytes = 1000 });
        using CancellationTokenSource limit = new(WsSite.Patience);
        WebSocketSession first = await site.ConnectAsync(null, limit.Token);
        first.SendBinary(new byte[1001]);
        Assert.Null(await first.ReceiveMessageAsync(limit.Token));
        Assert.Equal((WebSocketStatus.MessageTooBig, "The message is too large"), (first.CloseStatus, first.CloseText));
        WebSocketSession second = await site.ConnectAsync(null, limit.Token);
        Assert.Null(await second.ReceiveMessageAsync(limit.Token));
        Assert.Equal(WebSocketStatus.InternalError, second.CloseStatus);
        await first.CloseAsync(limit.Token);
        await second.CloseAsync(limit.Token);
        await site.Server.StopAsync();
        DiagnosticEvent[] notices = [.. site.Notices.Where(
            static notice => notice.Kind == DiagnosticEventKind.UserException)];
        Assert.Contains("handler's own", Assert.Single(notices).Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_handler_that_throws_closes_with_1011_and_a_handler_is_notified_of_a_stop()
    {
        await using WsSite site = new(EngineKind.Portable);
        TaskCompletionSource stays = new(TaskCreationOptions.RunContinuationsAsynchronously),
            told = new(TaskCreationOptions.RunContinuationsAsynchronously);
        await site.ServeAsync(async (socket, stop) =>
        {
            if ((await socket.ReceiveMessageAsync(stop))!.Value.Text == "throw") throw new InvalidDataException("mine");
            try
            {
                stays.SetResult();
                await socket.ReceiveMessageAsync(stop);
            }
            finally
            {
                told.SetResult();
            }
        });
        using CancellationTokenSource limit = new(WsSite.Patience);
        WebSocketSession first = await site.ConnectAsync(null, limit.Token),
            second = await site.ConnectAsync(null, limit.Token);
        first.SendText("throw");
        Assert.Null(await first.ReceiveMessageAsync(limit.Token));
        Assert.Equal(WebSocketStatus.InternalError, first.CloseStatus);
        first.Close(); // otherwise stopping waits CloseTimeout for it
        second.SendText("stay");
        await stays.Task.WaitAsync(limit.Token);
        Task stopping = site.Server.StopAsync(WsSite.Patience).AsTask();
        Assert.Null(await second.ReceiveMessageAsync(limit.Token));
        Assert.Equal(WebSocketStatus.GoingAway, second.CloseStatus);
        second.Close();
        await told.Task.WaitAsync(limit.Token);
        await stopping.WaitAsync(limit.Token);
    }

    [Fact]
    public async Task A_blocking_close_says_so_to_the_peer_and_waits_for_its_answer_or_aborts()
    {
        TaskCompletionSource<WebSocketSession> served = new(TaskCreationOptions.RunContinuationsAsynchronously);
        TaskCompletionSource answers = new();
        await using WsSite site = new(EngineKind.Epoll);
        await site.ServeAsync(async (socket, stop) =>
        {
            served.TrySetResult(socket);
            Assert.Null(await socket.ReceiveMessageAsync(CancellationToken.None));
            await answers.Task;
        });
        CancellationToken stop = TestContext.Current.CancellationToken;
        WebSocketSession client = await site.ConnectAsync(null, stop);
        Task<CloseReason> closing = Task.Run(() => client.CloseAndWait(WsSite.Patience), stop);
        WebSocketSession server = await served.Task.WaitAsync(WsSite.Patience, stop);
        answers.SetResult();
        Assert.Equal(CloseCause.LocalClose, (await closing.WaitAsync(WsSite.Patience, stop)).Cause);
        Assert.Equal((WebSocketStatus.Normal, WebSocketStatus.Normal), (client.CloseStatus, server.CloseStatus));

        // The peer of this session does not respond.
        WebSocketSession other =
            await site.ConnectAsync(new WebSocketOptions { CloseTimeout = TimeSpan.FromMinutes(5) }, stop);
        other.PauseReceiving();
        Assert.Equal(CloseCause.LocalAbort, (await Task.Run(() => other.CloseAndWait(TimeSpan.FromMilliseconds(50)),
            stop).WaitAsync(WsSite.Patience, stop)).Cause);
    }

    // An awaited receive in a post completes, whether or not a message is available. A blocking receive would block its
    // own completion and throws immediately, whether or not a message is available.
    [Theory]
    [InlineData(EngineKind.Epoll)]
    [InlineData(EngineKind.Portable)]
    [InlineData(EngineKind.Uring)]
    public async Task A_callback_of_its_own_on_the_pool_awaits_messages_and_is_refused_to_block_for_them(
        EngineKind kind)
    {
        await using WsSite site = new(kind, scheduling: Scheduling.ThreadPool);
        TaskCompletionSource<string> told = new(TaskCreationOptions.RunContinuationsAsynchronously);
        await site.ServeAsync(async (socket, stop) =>
        {
            try
            {
                await socket.PostAsync(() => RefusesToBlock(socket));
                Assert.Equal(SendResult.Queued, socket.SendText("go"));
                string got = "";
                await socket.PostAsync(async () =>
                {
                    got += (await socket.ReceiveMessageAsync(stop))!.Value.Text; // after this call has returned
                    got += (await socket.ReceiveMessageAsync(stop))!.Value.Text;
                });
                Assert.Equal(SendResult.Queued, socket.SendText("again"));
                // from now on, received data is buffered
                WebSocketReceived first = await socket.ReceiveAsync(Memory<byte>.Empty, stop);
                Assert.False(first.IsEnd);
                await socket.PostAsync(() => RefusesToBlock(socket));
                await socket.PostAsync(async () => got += (await socket.ReceiveMessageAsync(stop))!.Value.Text);
                told.SetResult(got);
            }
            catch (Exception e)
            {
                told.SetException(e);
            }
        });
        using CancellationTokenSource limit = new(WsSite.Patience);
        WebSocketSession client = await site.ConnectAsync(null, limit.Token);
        Assert.Equal("go", (await client.ReceiveMessageAsync(limit.Token))!.Value.Text);
        client.SendText("a");
        client.SendText("b");
        // elsewhere it blocks
        Assert.Equal("again", await Task.Run(() => client.ReceiveMessage(WsSite.Patience)!.Value.Text, limit.Token));
        client.SendText("c");
        Assert.Equal("abc", await told.Task.WaitAsync(limit.Token));

        static void RefusesToBlock(WebSocketSession socket)
        {
            Assert.Contains("await it",
                Assert.Throws<InvalidOperationException>(() => socket.ReceiveMessage(WsSite.Patience)).Message,
                StringComparison.Ordinal);
            Assert.Throws<InvalidOperationException>(() => socket.Receive(new byte[10], WsSite.Patience));
            Assert.Throws<InvalidOperationException>(() => new WebSocketStream(socket).Read(new byte[10], 0, 10));
            Assert.Throws<InvalidOperationException>(() => new WebSocketStream(socket).Read(new byte[10].AsSpan()));
        }
    }

    [Fact]
    public async Task A_session_with_overrides_is_not_pulled()
    {
        WsSession session = new();
        InvalidOperationException e =
            await Assert.ThrowsAsync<InvalidOperationException>(() => session.ReceiveMessageAsync().AsTask());
        Assert.Contains("WsSession", e.Message, StringComparison.Ordinal);
        Assert.Throws<InvalidOperationException>(() => new WebSocketStream(session));
        Assert.Throws<InvalidOperationException>(() => session.AsWebSocket());
    }

    [Fact]
    public async Task Text_that_is_no_UTF_8_ends_the_reads_and_closes_with_1007()
    {
        await using WsSite site = new(EngineKind.Portable);
        TaskCompletionSource<(int, string)> got = new(TaskCreationOptions.RunContinuationsAsynchronously);
        await site.ServeAsync(async (socket, _) =>
        {
            byte[] part = new byte[100];
            int count = (await socket.ReceiveAsync(part, CancellationToken.None)).Count;
            WebSocketException e = await Assert.ThrowsAsync<WebSocketException>(
                () => socket.ReceiveAsync(part, CancellationToken.None).AsTask());
            got.SetResult((count, e.Message));
        });
        using CancellationTokenSource limit = new(WsSite.Patience);
        WebSocketSession client = await site.ConnectAsync(null, limit.Token);
        await client.SendPieceAsync("good"u8.ToArray(), isText: true, isLast: false, limit.Token);
        await client.SendPieceAsync(new byte[] { 0xFF }, isText: true, isLast: true, limit.Token);
        Assert.Null(await client.ReceiveMessageAsync(limit.Token));
        Assert.Equal(WebSocketStatus.InvalidPayload, client.CloseStatus);
        (int count, string message) = await got.Task.WaitAsync(limit.Token);
        Assert.True(count is 4 or 0, Encoding.ASCII.GetString(new byte[count]));
        Assert.Contains("UTF-8", message, StringComparison.Ordinal);
    }
}
