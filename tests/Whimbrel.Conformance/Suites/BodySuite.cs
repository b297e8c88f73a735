namespace Whimbrel.Conformance;

/// <summary>Bodies: other code reads a part of a session's data as a stream, and the session keeps the
/// connection.</summary>
public abstract class BodySuite(Transport transport) : TrafficSuite(transport)
{
    // ------------------------------------------------------------------ reading

    [Theory, Contract(3)]
    [InlineData(false, true)]
    [InlineData(false, false)]
    [InlineData(true, true)]
    [InlineData(true, false)]
    public void Consecutive_bodies_are_read_whole_and_the_connection_stays(bool isChunked, bool onLoop) => Run(rig =>
    {
        int[] lengths = rig.IsVirtual ? [10, 0, 1, 3_000, 5] : [10, 0, 1, 300_000, 5, 70_000];
        byte[][] bodies = [.. lengths.Select(static (length, i) => Pattern(length, i + 1))];
        List<Task<byte[]>> read = [];
        RecordingServer server = rig.Serve(s => s.AtData = BodyReader.Hook(isChunked, (session, body) =>
        {
            lock (read) read.Add(onLoop ? ReadAll(body, 1_000) : FromElsewhere(rig, body));
            session.Send("."u8);
        }));
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        // Pipelined: the next request waits until the body before it is read.
        peer.Write([.. bodies.SelectMany(b => BodyReader.Request(b, isChunked))]);
        peer.ReadText(bodies.Length);
        for (int i = 0; i < bodies.Length; i++) Assert.Equal(bodies[i], Await(rig, read[i]));
        Assert.True(server.Session().IsConnected);
    });

    [Theory, Contract(3, 10)]
    [InlineData(false)]
    [InlineData(true)]
    public void Without_a_reader_the_peer_has_to_wait_and_nothing_is_lost(bool isChunked) => Run(rig =>
    {
        const int Length = 24 * 1024 * 1024;
        BodyStream? body = null;
        // The limit of unconsumed data does not apply to a body that has no reader yet.
        ServerOptions options = new()
        {
            Engine = rig.Engine,
            EndPoint = rig.NewAddress(),
            Limits = new() { UnreadBytes = 8 * 1024 },
            Socket = new() { ReceiveBufferBytes = 8192 }
        };
        RecordingServer server =
            rig.Serve(s => s.AtData = BodyReader.Hook(isChunked, (_, b) => Volatile.Write(ref body, b)), options);
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        byte[] data = Pattern(Length);
        byte[] request = BodyReader.Request(data, isChunked);
        int written = peer.WriteUntilFull(request, request.Length);
        RecordingSession session = server.Connected();
        rig.Until(() => session.BytesReceived > 0, "the first bytes");
        rig.Settle();
        Assert.True(written < request.Length, "everything was taken");
        Assert.InRange(session.BytesReceived, 1, 1024 * 1024);
        // As much of it as the peer could write; the rest stays there.
        Task<byte[]> reader = Start(rig, session, onLoop: true, () => ReadSome(body!, 100_000, 40_000));
        Assert.Equal(data[..100_000], Await(rig, reader));
        Assert.True(session.IsConnected);
        session.Abort();
    });

    [Fact, Contract(3)]
    public void One_read_gets_all_that_one_callback_offers() => Run(rig =>
    {
        if (rig.IsVirtual) return; // there each byte may arrive by itself
        BodyStream? body = null;
        RecordingServer server =
            rig.Serve(s => s.AtData = BodyReader.Hook(isChunked: true, (_, b) => Volatile.Write(ref body, b)));
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write([2, (byte)'a', (byte)'b']);
        rig.Until(() => Volatile.Read(ref body) is not null, "the body");
        byte[] memory = new byte[100];
        Assert.Equal(2, Await(rig, Start(rig, server.Session(), onLoop: true, () => body!.ReadAsync(memory))));
        Task<int> second = Start(rig, server.Session(), onLoop: true, () => body!.ReadAsync(memory));
        rig.Settle();
        peer.Write([1, (byte)'c', 3, (byte)'d', (byte)'e', (byte)'f', 1, (byte)'g']);
        Assert.Equal(5, Await(rig, second));
        Assert.Equal("cdefg", Text(memory.AsSpan(0, 5)));
    });

    [Theory, Contract(3)]
    [InlineData(true)]
    [InlineData(false)]
    public void A_read_of_no_bytes_waits_until_there_are_some_and_a_second_read_throws(bool onLoop) => Run(rig =>
    {
        (RecordingSession session, Peer peer, BodyStream body) = Begin(rig, 3);
        Task<int> waiter = Start(rig, session, onLoop, () => body.ReadAsync(Memory<byte>.Empty));
        rig.Settle();
        Assert.False(waiter.IsCompleted);
        At(rig, session, onLoop,
            () => Assert.Throws<InvalidOperationException>(() => _ = body.ReadAsync(new byte[10])));
        peer.Write("abc");
        Assert.Equal(0, Await(rig, waiter));
        Assert.Equal(Bytes("abc"), Await(rig, Start(rig, session, onLoop, () => ReadSome(body, 3, 2))));
        for (int i = 0; i < 2; i++)
            Assert.Equal(0, Await(rig, Start(rig, session, onLoop, () => body.ReadAsync(new byte[10]))));
        Assert.Equal(0, Await(rig, Start(rig, session, onLoop, () => body.ReadAsync(Memory<byte>.Empty))));
    });

    [Theory, Contract(3, 6)]
    [InlineData(true)]
    [InlineData(false)]
    public void Reads_cancelled_at_any_moment_lose_no_byte(bool onLoop) => Run(rig =>
    {
        const int Length = 400;
        (RecordingSession session, Peer peer, BodyStream body) = Begin(rig, Length);
        ReadThroughCancels(rig, peer, body, Length, method => Start(rig, session, onLoop, method));
    });

    [Fact]
    public void A_blocking_read_times_out_and_continues_and_throws_where_it_would_wait_for_itself() => Run(rig =>
    {
        Exception? inside = null;
        BodyStream? body = null;
        RecordingServer server = rig.Serve(s => s.AtData = BodyReader.Hook(isChunked: false, (_, b) =>
        {
            inside = Record.Exception(() => b.Read(new byte[1], 0, 1));
            Volatile.Write(ref body, b);
        }));
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write([0, 0, 0, 5]);
        rig.Until(() => Volatile.Read(ref body) is not null, "the body");
        Assert.IsType<InvalidOperationException>(inside);
        body!.ReadTimeout = 30;
        long before = rig.Engine.NowMs;
        NetworkException? thrown = null;
        rig.Elsewhere(() => thrown = Assert.Throws<NetworkException>(() => body.Read(new byte[10])));
        rig.Join();
        Assert.Equal(ErrorCategory.Timeout, thrown!.Error.Category);
        Assert.True(rig.Engine.NowMs - before >= 30, "it was early");
        body.ReadTimeout = Timeout.Infinite;
        peer.Write("abcde");
        byte[] got = new byte[5];
        int end = 1;
        rig.Elsewhere(() =>
        {
            body.ReadExactly(got);
            end = body.ReadByte();
        });
        rig.Join();
        Assert.Equal("abcde", Text(got));
        Assert.Equal(-1, end);
    });

    [Fact, Contract(3)]
    public void Memory_that_throws_fails_its_read_and_the_bytes_are_for_the_next() => Run(rig =>
    {
        (RecordingSession session, Peer peer, BodyStream body) = Begin(rig, 3);
        BadMemory bad = new(10);
        Memory<byte> memory = bad.Memory;
        bad.Place = BadPlace.Span;
        Task<int> reader = Start(rig, session, onLoop: true, () => body.ReadAsync(memory));
        peer.Write("abc");
        Assert.Same(bad.Thrown, Assert.ThrowsAny<Exception>(() => Await(rig, reader)));
        Assert.Equal(Bytes("abc"), Await(rig, Start(rig, session, onLoop: true, () => ReadSome(body, 3, 2))));
        Assert.True(session.IsConnected);
    });

    [Fact, Contract(10)]
    public void A_pause_of_the_session_holds_the_body_too() => Run(rig =>
    {
        (RecordingSession session, Peer peer, BodyStream body) = Begin(rig, 6);
        peer.Write("abc");
        rig.Until(() => session.BytesReceived > 4, "a byte of it");
        rig.OnLoop(session, session.PauseReceiving);
        Task<byte[]> reader = Start(rig, session, onLoop: false, () => ReadSome(body, 6, 4));
        peer.Write("def");
        rig.Settle();
        Assert.False(reader.IsCompleted);
        rig.OnLoop(session, session.ResumeReceiving);
        Assert.Equal(Bytes("abcdef"), Await(rig, reader));
    });

    // ------------------------------------------------------------------ ends

    [Theory, Contract(3)]
    [InlineData(true)]
    [InlineData(false)]
    public void An_unread_body_is_skipped_and_the_next_request_is_served(bool onLoop) => Run(rig =>
    {
        byte[] first = Pattern(rig.IsVirtual ? 5_000 : 200_000);
        BodyStream? body = null;
        RecordingServer server = rig.Serve(s => s.AtData = BodyReader.Hook(isChunked: true, (session, b) =>
        {
            if (Interlocked.CompareExchange(ref body, b, null) is null) return;
            session.Send("second"u8);
        }));
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write([.. BodyReader.Request(first, isChunked: true)[..1_000]]);
        rig.Until(() => Volatile.Read(ref body) is not null, "the body");
        RecordingSession session = server.Session();
        Assert.Equal(first[..10], Await(rig, Start(rig, session, onLoop, () => ReadSome(body!, 10, 10))));
        At(rig, session, onLoop, body!.Dispose);
        peer.Write([.. BodyReader.Request(first, isChunked: true)[1_000..],
            .. BodyReader.Request("x"u8, isChunked: true)]);
        Assert.Equal("second", peer.ReadText(6));
        Assert.False(body.CanRead);
        Assert.Throws<ObjectDisposedException>(() => _ = body.ReadAsync(new byte[1]));
    });

    [Theory]
    [InlineData(0)]
    [InlineData(10_000)]
    public void More_to_skip_than_the_limit_closes(int limit) => Run(rig =>
    {
        RecordingServer server =
            rig.Serve(s => s.AtData = BodyReader.Hook(isChunked: false, static (_, b) => b.Dispose(), limit));
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write(BodyReader.Request(Pattern(limit), isChunked: false));
        rig.Until(() => server.Session().BytesReceived == limit + 4, "all to arrive");
        rig.Settle();
        Assert.True(server.Session().IsConnected);
        peer.Write(BodyReader.Request(Pattern(limit + 1), isChunked: false));
        Assert.Empty(peer.ReadToEnd());
        peer.Close();
        Assert.Equal(CloseCause.LocalClose, server.Session().End());
    });

    [Fact, Contract(1)]
    public void A_read_that_waits_fails_when_the_stream_is_disposed() => Run(rig =>
    {
        (RecordingSession session, _, BodyStream body) = Begin(rig, 10);
        Task<int> reader = Start(rig, session, onLoop: false, () => body.ReadAsync(new byte[10]));
        rig.Settle();
        At(rig, session, onLoop: false, body.Dispose);
        Assert.Throws<ObjectDisposedException>(() => Await(rig, reader));
    });

    [Theory, Contract(1)]
    [InlineData(true)]
    [InlineData(false)]
    public void When_the_connection_ends_before_the_body_reads_throw_with_the_reason(bool onLoop) => Run(rig =>
    {
        (RecordingSession session, Peer peer, BodyStream body) = Begin(rig, 1_000);
        peer.Write("abc");
        Assert.Equal(Bytes("abc"), Await(rig, Start(rig, session, onLoop, () => ReadSome(body, 3, 2))));
        Task<int> reader = Start(rig, session, onLoop, () => body.ReadAsync(new byte[10]));
        peer.Reset();
        NetworkException e = Assert.IsType<NetworkException>(Assert.ThrowsAny<IOException>(() => Await(rig, reader)));
        session.End();
        Assert.Contains(session.Reason.ToString(), e.Message, StringComparison.Ordinal);
        Assert.ThrowsAny<IOException>(() => Await(rig, StartElsewhere(rig, () => body.ReadAsync(new byte[10]))));
    });

    [Fact, Contract(1, 12)]
    public void A_read_that_begins_while_the_session_ends_does_not_wait_forever() => Run(rig =>
    {
        (RecordingSession session, _, BodyStream body) = Begin(rig, 1_000);
        int failed = 0;
        Repeat(rig, () =>
        {
            using CancellationTokenSource soon = new();
            ValueTask<int> reading = body.ReadAsync(new byte[10], soon.Token);
            soon.Cancel();
            // Cancelled or ended: the first of the two completes it.
            Assert.True(SpinWait.SpinUntil(() => reading.IsCompleted, TimeSpan.FromSeconds(20)), "the read waits");
            if (Record.Exception(() => reading.GetAwaiter().GetResult()) is not IOException) return false;
            Interlocked.Increment(ref failed);
            return true;
        });
        session.Abort();
        rig.Until(() => Volatile.Read(ref failed) == 1, "the read to fail with the end");
        rig.Join();
    });

    [Fact, Contract(11)]
    public void The_peers_end_follows_the_body_that_it_has_sent() => Run(rig =>
    {
        (RecordingSession session, Peer peer, BodyStream body) = Begin(rig, 50_000);
        byte[] data = Pattern(50_000);
        peer.Write(data);
        peer.ShutdownSend();
        rig.Settle();
        Assert.False(session.Saw("peer finished"));
        Assert.Equal(data, Await(rig, Start(rig, session, onLoop: false, () => ReadSome(body, data.Length, 20_000))));
        session.Until("peer finished");
    });

    [Fact, Contract(11)]
    public void The_session_decides_the_meaning_of_a_body_that_is_too_short() => Run(rig =>
    {
        IOException tooShort = new("5 bytes of the body are missing");
        (RecordingSession session, Peer peer, BodyStream body) = Begin(rig, 8, s => s.AtEndOfStream = x =>
        {
            x.CallEndBody(tooShort);
            x.Close();
        });
        peer.Write("abc");
        peer.ShutdownSend();
        Assert.Equal(Bytes("abc"), Await(rig, Start(rig, session, onLoop: true, () => ReadSome(body, 3, 3))));
        Assert.Same(tooShort, Assert.ThrowsAny<IOException>(
            () => Await(rig, Start(rig, session, onLoop: true, () => body.ReadAsync(new byte[10])))));
    });

    [Fact, Contract(3)]
    public void An_abandoned_body_blocks_no_caller() => Run(rig =>
    {
        BodyStream? body = null;
        RecordingServer server = rig.Serve(s =>
        {
            s.AtConnected = x => Volatile.Write(ref body, x.CallStartBody());
            s.AtData = (x, unread) => Volatile.Read(ref body) is null ? unread.Length : x.CallDeliverBody(unread);
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("abc");
        RecordingSession session = server.Connected();
        rig.Until(() => session.BytesReceived > 0, "the bytes");
        rig.Settle();
        BodyStream first = body!;
        rig.OnLoop(session, () =>
        {
            session.CallEndBody(new IOException("given up"));
            body = null;
        });
        session.UntilReceived(3);
        Assert.Equal("abc", session.ReceivedText);
        Assert.ThrowsAny<IOException>(() => Await(rig, StartElsewhere(rig, () => first.ReadAsync(new byte[10]))));
    });

    [Fact, Contract(15)]
    public void A_hand_over_ends_the_body_and_the_next_session_gets_the_rest() => Run(rig =>
    {
        RecordingSession next = new(rig) { IsSuccessor = true };
        (RecordingSession session, Peer peer, BodyStream body) = Begin(rig, 6);
        peer.Write("abcdef");
        Assert.Equal(Bytes("ab"), Await(rig, Start(rig, session, onLoop: true, () => ReadSome(body, 2, 2))));
        rig.Settle();
        rig.OnLoop(session, () => session.CallHandOver(next));
        next.UntilReceived(4);
        Assert.Equal("cdef", next.ReceivedText);
        Assert.ThrowsAny<IOException>(() => Await(rig, StartElsewhere(rig, () => body.ReadAsync(new byte[10]))));
    });

    [Fact, Contract(4)]
    public void A_callback_that_throws_after_a_delivery_gives_the_read_its_bytes() => Run(rig =>
    {
        BodyStream? body = null;
        RecordingServer server = rig.Serve(s =>
        {
            s.AtConnected = x => Volatile.Write(ref body, x.CallStartBody());
            s.AtData = static (x, unread) =>
            {
                x.CallDeliverBody(unread);
                throw new InvalidDataException("thrown by the test");
            };
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        Task<int> reader = Start(rig, session, onLoop: false, () => body!.ReadAsync(new byte[10]));
        rig.Settle();
        peer.Write("x");
        Assert.Equal(1, Await(rig, reader));
        Assert.Equal(CloseCause.UserException, session.End());
        Assert.ThrowsAny<IOException>(() => Await(rig, StartElsewhere(rig, () => body!.ReadAsync(new byte[10]))));
    });

    [Fact]
    public void Only_the_session_begins_bodies_and_one_at_a_time() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        At(rig, session, onLoop: false, () => Assert.Throws<InvalidOperationException>(() => session.CallStartBody()));
        rig.OnLoop(session, () =>
        {
            Assert.Throws<InvalidOperationException>(() => session.CallDeliverBody("x"u8));
            Assert.Throws<InvalidOperationException>(() => session.CallEndBody());
            Assert.Throws<ArgumentOutOfRangeException>(() => session.CallStartBody(-1));
            session.CallStartBody();
            Assert.Throws<InvalidOperationException>(() => session.CallStartBody());
            session.CallEndBody();
            session.CallStartBody();
        });
        peer.Close();
        session.End();
        Assert.Throws<InvalidOperationException>(() => session.CallStartBody());
    });

    // ------------------------------------------------------------------ detaching the connection permanently

    [Theory, Contract(15, 3)]
    [InlineData(false)]
    [InlineData(true)]
    public void A_stream_takes_the_connection_over_with_what_is_unread(bool inConnected) => Run(rig =>
    {
        Task<string>? talk = null;
        bool goesOnOnLoop = false;
        RecordingServer server = rig.Serve(s =>
        {
            if (inConnected) s.AtConnected = x => TakeOver(x);
            s.AtData = (x, unread) =>
            {
                int head = unread.IndexOf((byte)'|') + 1;
                if (head > 0) TakeOver(x);
                return head;
            };
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write(inConnected ? "hello!" : "login|hello!");
        Assert.Equal("welcome, hello!", peer.ReadText(15));
        Assert.Equal("hello!", Await(rig, talk!));
        Assert.Equal(CloseCause.HandedOver, server.Session().End());
        Assert.Empty(peer.ReadToEnd());
        Assert.Equal(!rig.IsPool, goesOnOnLoop);

        void TakeOver(RecordingSession session)
        {
            talk = Talk(ConnectionStream.TakeOverAsync(session));
            session.Send("welcome, "u8);
        }

        async Task<string> Talk(ValueTask<ConnectionStream> taking)
        {
            ConnectionStream stream = await taking.ConfigureAwait(false);
            goesOnOnLoop = Loop.Current is not null;
            byte[] memory = new byte[6];
            await stream.ReadExactlyAsync(memory).ConfigureAwait(false);
            await stream.WriteAsync(memory).ConfigureAwait(false);
            stream.Dispose();
            return Text(memory);
        }
    });

    [Theory, Contract(15, 1)]
    [InlineData("close")]
    [InlineData("refuse")]
    [InlineData("throw")]
    public void Taking_over_fails_when_the_session_ends_by_something_else(string how) => Run(rig =>
    {
        if (rig.Tls != TlsKind.None && how == "refuse") return; // no peer to speak TLS with
        Task<ConnectionStream>? taking = null;
        RecordingServer server = rig.Serve(s =>
        {
            if (how == "refuse") s.AtConnecting = x =>
            {
                taking = ConnectionStream.TakeOverAsync(x).AsTask();
                x.Close();
            };
            else s.AtConnected = x =>
            {
                taking = ConnectionStream.TakeOverAsync(x).AsTask();
                Assert.Throws<InvalidOperationException>(() => _ = ConnectionStream.TakeOverAsync(x));
                if (how == "throw") throw new InvalidDataException("thrown by the test");
                x.Close();
            };
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        rig.Until(() => Volatile.Read(ref taking) is not null, "the callback");
        if (how == "close")
        {
            Assert.Empty(peer.ReadToEnd());
            peer.Close();
        }

        Assert.ThrowsAny<IOException>(() => Await(rig, taking!));
        server.Session().End();
    });

    [Theory, Contract(15, 3, 11)]
    [InlineData("stream", "connecting")]
    [InlineData("stream", "connected")]
    [InlineData("stream", "received")]
    [InlineData("stream", "paused")]
    [InlineData("pipe", "received")]
    [InlineData("pipe", "paused")]
    public void A_stream_taken_over_while_the_peer_sends_gets_every_byte_and_then_the_end(string what, string when) =>
        Run(rig =>
        {
            byte[] data = Pattern(rig.IsVirtual ? 300_000 : 2_000_000);
            Task<byte[]>? reading = null;
            RecordingServer server = rig.Serve(s =>
            {
                if (when == "connecting") s.AtConnecting = TakeOver;
                else if (when == "connected") s.AtConnected = TakeOver;
                else s.AtData = (x, unread) =>
                {
                    if (reading is not null || unread.Length < 100) return 0;
                    if (when == "paused") x.PauseReceiving();
                    TakeOver(x);
                    return 100;
                };
            });
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            rig.Elsewhere(() =>
            {
                peer.Write(data);
                peer.ShutdownSend();
            });
            rig.Until(() => Volatile.Read(ref reading) is not null, "the callback that gives the connection away");
            byte[] all = Await(rig, reading!);
            Assert.Equal(data.AsSpan(data.Length - all.Length).ToArray(), all);
            Assert.Equal(when is "received" or "paused" ? data.Length - 100 : data.Length, all.Length);
            Assert.Equal(CloseCause.HandedOver, server.Session().End());
            Assert.Equal("done", peer.ReadTextToEnd());

            void TakeOver(RecordingSession session)
            {
                Volatile.Write(ref reading, what == "pipe"
                    ? ReadPipe(ConnectionPipe.TakeOverAsync(session))
                    : ReadStream(ConnectionStream.TakeOverAsync(session)));
            }

            async Task<byte[]> ReadStream(ValueTask<ConnectionStream> taking)
            {
                await using ConnectionStream stream = await taking.ConfigureAwait(false);
                using MemoryStream all = new();
                await stream.CopyToAsync(all).ConfigureAwait(false);
                await stream.WriteAsync(Bytes("done")).ConfigureAwait(false);
                return all.ToArray();
            }

            async Task<byte[]> ReadPipe(ValueTask<ConnectionPipe> taking)
            {
                ConnectionPipe pipe = await taking.ConfigureAwait(false);
                using MemoryStream all = new();
                await pipe.Input.CopyToAsync(all).ConfigureAwait(false);
                await pipe.Output.WriteAsync(Bytes("done")).ConfigureAwait(false);
                await pipe.Output.CompleteAsync().ConfigureAwait(false);
                await pipe.Input.CompleteAsync().ConfigureAwait(false);
                return all.ToArray();
            }
        });

    [Fact, Contract(14, 15)]
    public void Code_that_awaited_a_take_over_on_the_pool_may_block_on_the_stream_and_resumes_in_its_order() =>
        Run(rig =>
        {
            if (!rig.IsPool || rig.IsVirtual) return; // blocking is not permitted there
            int inside = 0, most = 0, done = 0;
            string? got = null;
            RecordingServer server = rig.Serve(s => s.AtConnected = x =>
            {
                Task<ConnectionStream> taking = ConnectionStream.TakeOverAsync(x).AsTask();
                ValueTask<bool>[] sends = [x.SentAsync(), x.SentAsync(), x.SentAsync()];
                x.Send("hello");
                foreach (ValueTask<bool> sent in sends) _ = Continue(sent);
                _ = Talk(taking);
            });
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            Assert.Equal("hello", peer.ReadText(5));
            peer.Write("answer");
            rig.Until(() => Volatile.Read(ref got) is not null && Volatile.Read(ref done) == 3, "all to continue");
            Assert.Equal("answer", got);
            Assert.Equal(1, most);
            Assert.Equal(CloseCause.HandedOver, server.Session().End());
            Assert.Equal("done", peer.ReadTextToEnd());

            async Task Continue(ValueTask<bool> sent)
            {
                await sent.ConfigureAwait(false);
                most = Math.Max(most, Interlocked.Increment(ref inside));
                Thread.SpinWait(100_000);
                Interlocked.Decrement(ref inside);
                Interlocked.Increment(ref done);
            }

            async Task Talk(Task<ConnectionStream> taking)
            {
                ConnectionStream stream = await taking.ConfigureAwait(false);
                byte[] memory = new byte[6];
                stream.ReadExactly(memory);
                stream.Write("done"u8);
                stream.Dispose();
                Volatile.Write(ref got, Text(memory));
            }
        });

    [Theory, Contract(15, 1)]
    [InlineData(false)]
    [InlineData(true)]
    public void A_connection_that_ends_while_it_is_given_away_ends_with_the_stream(bool byPeer) => Run(rig =>
    {
        Task<Exception?>? reading = null;
        Peer? peer = null;
        RecordingServer server = rig.Serve(s =>
        {
            s.AtData = (x, unread) =>
            {
                reading = Read(ConnectionStream.TakeOverAsync(x));
                if (byPeer) peer!.Reset();
                return unread.Length;
            };
            s.AtDisconnected = (x, _) =>
            {
                if (!byPeer) Assert.Equal(0, x.BytesPending);
            };
        });
        peer = rig.ConnectPeer(server.EndPoint!);
        server.Connected();
        peer.Write("x");
        rig.Until(() => Volatile.Read(ref reading) is not null, "the callback");
        if (!byPeer) rig.Await(server.StopAsync(TimeSpan.Zero));
        Exception? end = Await(rig, reading!);
        Assert.True(end is null or IOException, $"{end}");
        server.Session().End();

        static async Task<Exception?> Read(ValueTask<ConnectionStream> taking)
        {
            try
            {
                using ConnectionStream stream = await taking.ConfigureAwait(false);
                while (await stream.ReadAsync(new byte[100]).ConfigureAwait(false) > 0)
                {
                }

                return null;
            }
            catch (Exception e)
            {
                return e;
            }
        }
    });

    // ------------------------------------------------------------------ what the tests stand on

    /// <summary>A session that has begun a body of known length, of which nothing has arrived.</summary>
    private static (RecordingSession Session, Peer Peer, BodyStream Body) Begin(Rig rig, int length,
        Action<RecordingSession>? setUp = null)
    {
        BodyStream? body = null;
        RecordingServer server = rig.Serve(s =>
        {
            s.AtData = BodyReader.Hook(isChunked: false, (_, b) => Volatile.Write(ref body, b));
            setUp?.Invoke(s);
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write(BodyReader.Request(new byte[length], isChunked: false)[..4]);
        rig.Until(() => Volatile.Read(ref body) is not null, "the body to begin");
        return (server.Session(), peer, body!);
    }

    private static Task<byte[]> FromElsewhere(Rig rig, BodyStream body)
    {
        TaskCompletionSource<byte[]> done = new();
        rig.Elsewhere(() => _ = ReadTo());
        return done.Task;

        async Task ReadTo()
        {
            try
            {
                done.SetResult(await ReadAll(body, 1_000).ConfigureAwait(false));
            }
            catch (Exception e)
            {
                done.SetException(e);
            }
        }
    }

    private static async Task<byte[]> ReadAll(BodyStream body, int piece)
    {
        using MemoryStream all = new();
        await body.CopyToAsync(all, piece).ConfigureAwait(false);
        return all.ToArray();
    }

    private static async ValueTask<byte[]> ReadSome(BodyStream body, int length, int piece)
    {
        byte[] data = new byte[length];
        for (int done = 0; done < length;)
        {
            int count = await body.ReadAsync(data.AsMemory(done, Math.Min(piece, length - done))).ConfigureAwait(false);
            Assert.True(count > 0, $"the end came after {done} of {length} bytes");
            done += count;
        }

        return data;
    }
}
