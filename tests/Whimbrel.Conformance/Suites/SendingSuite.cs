using System.Buffers;
using System.Net;

namespace Whimbrel.Conformance;

/// <summary>Contract 5: a message is queued completely or not at all, from any thread, and a send never throws after
/// the end.</summary>
public abstract class SendingSuite(Transport transport) : Suite(transport)
{
    private static ServerOptions WithLimit(Rig rig, int limit, SlowConsumer policy) =>
        new()
        {
            Engine = rig.Engine,
            EndPoint = rig.NewAddress(),
            Limits = new() { SendBytes = limit, SlowConsumer = policy }
        };

    [Fact, Contract(5)]
    public void Sends_of_a_callback_arrive_in_order() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtConnected = static x =>
        {
            x.Send("one "u8);
            x.Send(Outgoing.Pieces("two "u8, "three "u8));
            x.Send("four "u8.ToArray().AsSpan());
            x.Send("five ");
            x.Send(Outgoing.Owned(new Memory("six "), 4));
            x.Send("seven"u8);
        });
        Assert.Equal("one two three four five six seven", rig.ConnectPeer(server.EndPoint!).ReadText(33));
    });

    [Theory, Contract(5)]
    [InlineData(1)]
    [InlineData(1023)]
    [InlineData(16 * 1024)]
    [InlineData((32 * 1024) - 1)]
    [InlineData(32 * 1024)]
    [InlineData((32 * 1024) + 1)]
    [InlineData(1024 * 1024)]
    public void A_send_of_any_size_arrives_whole(int size) => Run(rig =>
    {
        byte[] data = Pattern(size);
        RecordingServer server = rig.Serve(s => s.AtConnected = x => x.Send(data));
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        Assert.Equal(data, peer.Read(size));
        RecordingSession session = server.Connected();
        rig.Until(() => session.BytesPending == 0, "the queue to be empty");
        Assert.Equal(SendResult.Queued, session.Send(data));
        Assert.Equal(data, peer.Read(size));
        rig.Until(() => session.BytesSent == 2 * size, "the count to be right");
    });

    [Fact, Contract(5)]
    public void A_mixture_of_small_and_large_sends_keeps_its_order() => Run(rig =>
    {
        int[] sizes = [1, 40_000, 3, 16_384, 16_383, 100, 200_000, 5, 32_768, 1, 65_536, 9];
        byte[] data = Pattern(sizes.Sum());
        RecordingServer server = rig.Serve(s => s.AtConnected = x =>
        {
            int at = 0;
            foreach (int size in sizes)
            {
                x.Send(data.AsSpan(at, size));
                at += size;
            }
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        Assert.Equal(data, peer.Read(data.Length));
    });

    [Theory, Contract(5)]
    [InlineData(0, 5)]
    [InlineData(100, 0)]
    [InlineData(20, 100)]
    [InlineData(20, 16 * 1024)]
    [InlineData(16 * 1024, 1)]
    [InlineData(200_000, 300_000)]
    public void Two_pieces_of_any_size_are_one_message_also_from_elsewhere(int headBytes, int bodyBytes) => Run(rig =>
    {
        byte[] data = Pattern(headBytes + bodyBytes);
        RecordingServer server = rig.Serve(
            s => s.AtConnected = x => x.Send(Outgoing.Pieces(data.AsSpan(0, headBytes), data.AsSpan(headBytes))));
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        Assert.Equal(data, peer.Read(data.Length));
        RecordingSession session = server.Connected();
        rig.Until(() => session.BytesPending == 0, "the queue to be empty");
        Assert.Equal(SendResult.Queued,
            session.Send(Outgoing.Pieces(data.AsSpan(0, headBytes), data.AsSpan(headBytes))));
        Assert.Equal(data, peer.Read(data.Length));
        rig.Until(() => session.BytesSent == 2 * data.Length, "the count to be right");
    });

    [Fact, Contract(5)]
    public void A_large_message_of_pieces_leaves_at_once_when_nothing_is_queued() => Run(rig =>
    {
        // The pool's callback posts to its loop, a TLS layer encrypts at the flush, and the simulated network accepts
        // what its seed decides.
        byte[] data = Pattern(20_000);
        List<long> pending = [];
        bool applies = rig is not MemoryRig && !rig.IsPool;
        RecordingServer server = rig.Serve(s => s.AtReceived = (x, _) =>
        {
            applies &= x.Tls is null;
            x.Send(Outgoing.Pieces(data.AsSpan(0, 100), data.AsSpan(100)));
            pending.Add(x.BytesPending);
            x.Send(Outgoing.Pieces([data.AsMemory(0, 10), data.AsMemory(10, 19_000), data.AsMemory(19_010)]));
            pending.Add(x.BytesPending);
            x.Send(Outgoing.Pieces("small"u8, "ones"u8));
            pending.Add(x.BytesPending);
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("go");
        Assert.Equal([.. data, .. data, .. "smallones"u8], peer.Read((2 * data.Length) + 9));
        if (applies) Assert.Equal([0, 0, 9], pending);
    });

    public static TheoryData<int, int, bool> PieceCases =>
        [
            .. from count in (int[])[1, 2, 16, 17, 100] from bytes in (int[])[1, 300, 5000]
               from ofUser in (bool[])[false, true] select new TheoryDataRow<int, int, bool>(count, bytes, ofUser)
        ];

    [Theory, Contract(5)]
    [MemberData(nameof(PieceCases))]
    public void Any_number_of_pieces_is_one_message(int count, int bytes, bool isOfUser) => Run(rig =>
    {
        byte[] data = Pattern(count * bytes);
        ReadOnlyMemory<byte>[] pieces = new ReadOnlyMemory<byte>[count + 2];
        for (int i = 0; i < count; i++)
            pieces[i + (i > 0 ? 1 : 0)] =
                isOfUser && i % 3 == 1 ? OfUser(data.AsMemory(i * bytes, bytes)) : data.AsMemory(i * bytes, bytes);
        ReadOnlySequence<byte> sequence = PieceSegment.Join(pieces);
        List<SendResult> results = [];
        RecordingServer server = rig.Serve(s => s.AtConnected = x =>
        {
            results.Add(x.Send(Outgoing.Pieces(pieces)));
            results.Add(x.Send(Outgoing.Sequence(sequence)));
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        Assert.Equal([.. data, .. data], peer.Read(2 * data.Length));
        RecordingSession session = server.Connected();
        rig.Until(() => session.BytesPending == 0, "the queue to be empty");
        results.Add(session.Send(Outgoing.Sequence(sequence)));
        results.Add(session.Send(Outgoing.Pieces(pieces)));
        Assert.Equal([.. data, .. data], peer.Read(2 * data.Length));
        rig.OnLoop(session, () => results.Add(session.Send(Outgoing.Pieces(pieces))));
        Assert.Equal(data, peer.Read(data.Length));
        Assert.All(results, static r => Assert.Equal(SendResult.Queued, r));
        rig.Until(() => session.BytesSent == 5 * data.Length, "the count to be right");
    });

    [Theory, Contract(5)]
    [InlineData(true)]
    [InlineData(false)]
    public void Pieces_that_do_not_fit_together_are_not_taken_at_all(bool onLoop) => Run(rig =>
    {
        const int limit = 64 * 1024;
        RecordingServer server = rig.Serve(null, WithLimit(rig, limit, SlowConsumer.DropNewest));
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        ReadOnlyMemory<byte> half = Pattern((limit / 2) + 1);
        List<SendResult> results = [];
        void SendAll()
        {
            TooLarge(() => session.Send(Outgoing.Pieces([half, half])));
            TooLarge(() => session.Send(Outgoing.Sequence(PieceSegment.Join([half, half]))));
            results.Add(session.Send(Outgoing.Pieces([half[..3], default, half[3..5]])));
        }

        if (onLoop) rig.OnLoop(session, SendAll);
        else SendAll();
        Assert.Equal([SendResult.Queued], results);
        Assert.Equal(half[..5].ToArray(), peer.Read(5));
        session.ShutdownSend();
        Assert.Empty(peer.ReadToEnd());
    });

    [Theory, Contract(4, 5)]
    [InlineData(10, 2, true)]
    [InlineData(10_000, 2, true)]
    [InlineData(10, 20, true)]
    [InlineData(10, 2, false)]
    public void Pieces_with_throwing_memory_send_nothing(int bytes, int count, bool onLoop) => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        BadMemory bad = new(bytes);
        ReadOnlyMemory<byte>[] pieces = [.. Enumerable.Repeat((ReadOnlyMemory<byte>)Pattern(bytes), count - 1),
            bad.Memory];
        foreach (BadPlace place in (BadPlace[])[BadPlace.Span, BadPlace.Pin])
        {
            bad.Place = place;
            void SendAll()
            {
                // Either of them may be accessed.
                try
                {
                    Assert.Equal(SendResult.Queued, session.Send(Outgoing.Pieces(pieces)));
                    Assert.Equal(SendResult.Queued, session.Send("|"u8));
                }
                catch (InvalidDataException e)
                {
                    Assert.Same(bad.Thrown, e);
                    Assert.Equal(SendResult.Queued, session.Send("x"u8));
                }
            }

            if (onLoop) rig.OnLoop(session, SendAll);
            else SendAll();
        }

        session.ShutdownSend();
        byte[] got = peer.ReadToEnd();
        Assert.Contains((byte)'x', got);
        Assert.Equal(got.AsSpan().IndexOf((byte)'|') < 0 ? 2 : 2 + (count * bytes), got.Length);
    });

    [Fact, Contract(5)]
    public void A_piece_that_sends_while_it_is_asked_for_comes_before_its_message() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        TalkingMemory talking = new("bbb"u8.ToArray(), () => session.Send("-"u8));
        rig.OnLoop(session,
            () => session.Send(Outgoing.Pieces(["aaa"u8.ToArray(), talking.Memory, "ccc"u8.ToArray()])));
        session.ShutdownSend();
        Assert.Equal("aaabbbccc", System.Text.Encoding.ASCII.GetString(peer.ReadToEnd()).TrimStart('-'));
    });

    [Theory, Contract(5)]
    [InlineData(0, 0, 0)]
    [InlineData(5, 3, 0)]
    [InlineData(0, 3, 10)]
    [InlineData(5, 3, 10)]
    [InlineData(5, 1000, 16 * 1024)]
    [InlineData(20_000, 0, 100_000)]
    public void A_head_and_a_part_of_owned_memory_are_one_message(int headBytes, int offset, int length) => Run(rig =>
    {
        byte[] head = Pattern(headBytes);
        byte[] body = Pattern(offset + length + 7, seed: 8);
        byte[] expected = [.. head, .. body.AsSpan(offset, length), .. "|"u8];
        Memory first = new(body), second = new(body);
        List<SendResult> results = [];
        RecordingServer server = rig.Serve(s => s.AtConnected = x =>
        {
            results.Add(x.Send(Outgoing.Owned(first, offset, length).WithHead(head)));
            x.Send("|"u8);
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        Assert.Equal(expected, peer.Read(expected.Length));
        RecordingSession session = server.Connected();
        results.Add(session.Send(Outgoing.Owned(second, offset, length).WithHead(head)));
        session.Send("|"u8);
        Assert.Equal(expected, peer.Read(expected.Length));
        Assert.All(results, static r => Assert.Equal(SendResult.Queued, r));
        rig.Until(() => first.Disposals == 1 && second.Disposals == 1 && session.BytesPending == 0,
            "the memory to be given back");
        Assert.Equal(2 * expected.Length, session.BytesSent);
        Memory mine = new(body);
        Assert.Throws<ArgumentOutOfRangeException>(() => session.Send(Outgoing.Owned(mine, -1, 0).WithHead(head)));
        Assert.Throws<ArgumentOutOfRangeException>(
            () => session.Send(Outgoing.Owned(mine, body.Length + 1, 0).WithHead(head)));
        Assert.Throws<ArgumentOutOfRangeException>(
            () => session.Send(Outgoing.Owned(mine, 1, body.Length).WithHead(head)));
        Assert.Throws<ArgumentOutOfRangeException>(() => session.Send(Outgoing.Owned(mine, 0, -1).WithHead(head)));
        rig.OnLoop(session, session.Abort);
        rig.Until(() => !session.IsConnected, "the end");
        Assert.Equal(SendResult.Closed, session.Send(Outgoing.Owned(mine, offset, length).WithHead(head)));
        Assert.Equal(0, mine.Disposals);
    });

    [Theory, Contract(5)]
    [InlineData(true)]
    [InlineData(false)]
    public void Owned_memory_that_does_not_fit_together_with_its_head_stays_the_callers(bool onLoop) => Run(rig =>
    {
        const int limit = 64 * 1024;
        RecordingServer server = rig.Serve(null, WithLimit(rig, limit, SlowConsumer.DropNewest));
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        Memory memory = new(Pattern(limit));
        List<SendResult> results = [];
        void SendAll()
        {
            TooLarge(() => session.Send(Outgoing.Owned(memory, 0, limit).WithHead("x"u8)));
            results.Add(session.Send(Outgoing.Owned(memory, 1, 2).WithHead("abc"u8)));
        }

        if (onLoop) rig.OnLoop(session, SendAll);
        else SendAll();
        session.ShutdownSend();
        Assert.Equal([.. "abc"u8, .. Pattern(limit).AsSpan(1, 2)], peer.ReadToEnd());
        Assert.Equal([SendResult.Queued], results);
        rig.Until(() => memory.Disposals == 1, "the memory to be given back");
    });

    [Theory, Contract(4, 5)]
    [InlineData(BadPlace.Span, 100)]
    [InlineData(BadPlace.Pin, 20_000)]
    public void A_head_with_throwing_owned_memory_sends_nothing(BadPlace place, int length) => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        BadMemory bad = new(length) { Place = place };
        if (rig.IsPool)
        {
            // Accessed by the loop only, which has guaranteed to send it.
            rig.Expect("memory that a session sent");
            Assert.Equal(SendResult.Queued, session.Send(Outgoing.Owned(bad.Owner, 0, length).WithHead("head"u8)));
            rig.Until(() => session.Saw("disconnected UserException"), "the end");
            rig.Until(() => bad.Disposals == 1, "the memory to be given back");
            return;
        }

        rig.OnLoop(session, () =>
        {
            Assert.Same(bad.Thrown, Assert.Throws<InvalidDataException>(
                () => session.Send(Outgoing.Owned(bad.Owner, 0, length).WithHead("head"u8))));
            Assert.Equal(0, bad.Disposals);
            session.Send("whole"u8);
        });
        session.ShutdownSend();
        Assert.Equal("whole", Text(peer.ReadToEnd()));
    });

    // ------------------------------------------------------------------ shared

    [Theory, Contract(5)]
    [InlineData(100)]
    [InlineData(100_000)]
    public void Shared_bytes_are_sent_by_many_sessions_and_given_back_once(int length) => Run(rig =>
    {
        const int members = 6;
        byte[] bytes = Pattern(length + 10);
        Memory owner = new(bytes);
        SharedBytes owned = new(owner, length + 10);
        SharedBytes copied = new(bytes);
        Assert.Equal(length + 10, owned.Length);
        Assert.Equal(bytes, owned.Memory.ToArray());
        int connected = 0;
        RecordingServer server = rig.Serve(s => s.AtConnected = x =>
        {
            // On separate threads, all at once; then from this one.
            Assert.Equal(SendResult.Queued, x.Send(Outgoing.Shared(owned, 3, length).WithHead([(byte)length])));
            Assert.Equal(SendResult.Queued, x.Send(Outgoing.Shared(copied, 0, length)));
            if (Interlocked.Increment(ref connected) == members) owned.Dispose();
        });
        Peer[] peers = [.. Enumerable.Range(0, members).Select(_ => rig.ConnectPeer(server.EndPoint!))];
        byte[] expected = [(byte)length, .. bytes.AsSpan(3, length), .. bytes.AsSpan(0, length)];
        foreach (Peer peer in peers) Assert.Equal(expected, peer.Read(expected.Length));
        rig.Until(() => owner.Disposals == 1, "the memory to be given back, once");
        RecordingSession[] sessions = [.. Enumerable.Range(0, members).Select(server.Connected)];
        foreach (RecordingSession session in sessions)
            Assert.Equal(SendResult.Queued, session.Send(Outgoing.Shared(copied, 5, length).WithHead("!"u8)));
        copied.Dispose();
        foreach (Peer peer in peers) Assert.Equal([(byte)'!', .. bytes.AsSpan(5, length)], peer.Read(1 + length));
        Assert.Equal(1, owner.Disposals);
    });

    [Fact, Contract(5)]
    public void Shared_bytes_count_their_references_and_report_one_release_too_many() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        Memory owner = new(Pattern(50_000));
        SharedBytes shared = new(owner, 50_000);
        Assert.Same(shared, shared.AddReference());
        shared.Dispose();
        Assert.Equal(0, owner.Disposals);
        Assert.Throws<ArgumentOutOfRangeException>(() => session.Send(Outgoing.Shared(shared, 1, 50_000)));
        Assert.Throws<ArgumentOutOfRangeException>(() => session.Send(Outgoing.Shared(shared, 50_001, 0)));
        Assert.Equal(SendResult.Queued, session.Send(Outgoing.Shared(shared, 0, 50_000)));
        shared.Dispose();
        Assert.Throws<ObjectDisposedException>(shared.Dispose);
        Assert.Throws<ObjectDisposedException>(shared.AddReference);
        Assert.Throws<ObjectDisposedException>(() => shared.Memory);
        Assert.Throws<ObjectDisposedException>(() => session.Send(Outgoing.Shared(shared, 0, 1)));
        Assert.Equal(Pattern(50_000), peer.Read(50_000));
        rig.Until(() => owner.Disposals == 1, "the memory to be given back");
        session.Close();
        rig.Until(() => !session.IsConnected, "the end");
        Memory late = new(Pattern(10));
        SharedBytes refused = new(late, 10);
        Assert.Equal(SendResult.Closed, session.Send(Outgoing.Shared(refused, 0, 10)));
        Assert.Equal(0, late.Disposals);
        refused.Dispose();
        Assert.Equal(1, late.Disposals);
    });

    [Fact, Contract(5, 12)]
    public void An_abort_gives_back_what_is_queued_of_shared_bytes() => Run(rig =>
    {
        RecordingServer server = rig.Serve(null, WithLimit(rig, 64 * 1024 * 1024, SlowConsumer.DropNewest));
        rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        Memory owner = new(Pattern(200_000));
        using (SharedBytes shared = new(owner, 200_000))
        {
            for (int i = 0; i < 100; i++)
                Assert.Equal(SendResult.Queued, session.Send(Outgoing.Shared(shared, i, 100_000)));
        }

        session.Abort();
        rig.Until(() => owner.Disposals == 1, "the memory to be given back");
    });

    [Fact, Contract(5)]
    public void Pieces_that_are_changed_while_they_are_sent_are_refused_and_nothing_of_them_goes() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        PieceSegment? middle = null;
        TalkingMemory talking = new("aaa"u8.ToArray(), () => middle?.Cut(1));
        System.Buffers.ReadOnlySequence<byte> pieces = PieceSegment.Join(talking.Memory, Bytes("bbb"), Bytes("ccc"));
        middle = (PieceSegment)((PieceSegment)pieces.Start.GetObject()!).Next!;
        rig.OnLoop(session,
            () => Assert.Throws<InvalidOperationException>(() => session.Send(Outgoing.Sequence(pieces))));
        Assert.Equal(SendResult.Queued, session.Send("after"u8));
        Assert.Equal("after", peer.ReadText(5));
        rig.Settle();
        Assert.Equal(5, session.BytesSent);
    });

    [Fact, Contract(5, 8)]
    public void Pieces_are_pinned_during_the_call_only_whatever_comes_of_it() => Run(rig =>
    {
        RecordingServer server = rig.Serve(null, new ServerOptions
        {
            Engine = rig.Engine,
            EndPoint = rig.NewAddress(),
            Limits = new() { SendBytes = 100_000, SlowConsumer = SlowConsumer.Wait }
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        BadMemory[] memories = [new(20_000), new(30_000), new(90_000)];
        List<SendResult> results = [];
        rig.OnLoop(session, () =>
        {
            TooLarge(() => session.Send(Outgoing.Sequence(PieceSegment.Join(memories[1].Memory, memories[2].Memory))));
            results.Add(session.Send(Outgoing.Sequence(PieceSegment.Join(memories[0].Memory, memories[1].Memory))));
            session.Abort();
            results.Add(session.Send(Outgoing.Sequence(PieceSegment.Join(memories[0].Memory, memories[1].Memory))));
        });
        Assert.Equal([SendResult.Queued, SendResult.Closed], results);
        Assert.All(memories, static m => Assert.Equal(0, m.Pins));
        session.End();
        peer.Close();
    });

    /// <summary>More than the queue can ever hold.</summary>
    private static void TooLarge(Func<SendResult> send) => Assert.Contains("SendLimitBytes",
        Assert.Throws<ArgumentException>(() => send()).Message, StringComparison.Ordinal);

    private static ReadOnlyMemory<byte> OfUser(ReadOnlyMemory<byte> bytes) =>
        new TalkingMemory(bytes.ToArray(), static () => { }).Memory;

    [Fact, Contract(5)]
    public void Messages_of_many_threads_are_never_mixed() => Run(rig =>
    {
        RecordingServer server = rig.Serve(null, WithLimit(rig, 64 * 1024 * 1024, SlowConsumer.DropNewest));
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        const int threads = 4, each = 200;
        int refused = 0;
        for (int t = 0; t < threads; t++)
        {
            int thread = t;
            rig.Elsewhere(() =>
            {
                for (int n = 0; n < each; n++)
                {
                    int length = 1 + (n * 37 % 3000);
                    byte[] head = [(byte)thread, (byte)(length >> 8), (byte)length];
                    byte[] body = new byte[length];
                    Array.Fill(body, (byte)(thread + 100));
                    if (session.Send(Outgoing.Pieces(head, body)) != SendResult.Queued)
                        Interlocked.Increment(ref refused);
                }
            });
        }

        rig.OnLoop(session, () =>
        {
            for (int n = 0; n < each; n++) session.Send(Outgoing.Pieces([9, 0, 1], [109]));
        });
        rig.Join();
        session.ShutdownSend();
        byte[] got = peer.ReadToEnd();
        int messages = 0;
        for (int at = 0; at < got.Length; messages++)
        {
            int length = (got[at + 1] << 8) | got[at + 2];
            byte mark = (byte)(got[at] + 100);
            Assert.True(got.AsSpan(at + 3, length).IndexOfAnyExcept(mark) < 0,
                $"message {messages} at {at} is mixed with another");
            at += 3 + length;
        }

        Assert.Equal((threads + 1) * each, messages + refused);
    });

    [Fact, Contract(5)]
    public void Empty_sends_are_taken_and_send_nothing() => Run(rig =>
    {
        List<SendResult> results = [];
        Memory owner = new("");
        RecordingServer server = rig.Serve(s => s.AtConnected = x =>
        {
            results.Add(x.Send([]));
            results.Add(x.Send(Outgoing.Pieces([], [])));
            results.Add(x.Send(""));
            results.Add(x.Send(Outgoing.Text("")));
            results.Add(x.Send(Outgoing.Owned(owner, 0)));
            results.Add(x.Send(Outgoing.Pieces([], "end"u8)));
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        Assert.Equal("end", peer.ReadText(3));
        Assert.All(results, static r => Assert.Equal(SendResult.Queued, r));
        Assert.Equal(1, owner.Disposals);
        Assert.Equal(SendResult.Queued, server.Session().Send([]));
    });

    [Fact, Contract(5)]
    public void Text_is_sent_as_UTF8_short_and_long() => Run(rig =>
    {
        string text = string.Concat(Enumerable.Repeat("grüße €", 1000));
        RecordingServer server = rig.Serve(s => s.AtConnected = x =>
        {
            x.Send("ä€");
            x.Send(text);
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        byte[] expected = System.Text.Encoding.UTF8.GetBytes("ä€" + text);
        Assert.Equal(expected, peer.Read(expected.Length));
        Assert.Throws<ArgumentNullException>(() => server.Session().Send((string)null!));
    });

    // ------------------------------------------------------------------ closed

    [Fact, Contract(5)]
    public void Before_it_is_connected_nothing_can_be_sent() => Run(rig =>
    {
        List<SendResult> results = [];
        RecordingSession lonely = new(rig);
        Assert.Equal(SendResult.Closed, lonely.Send("x"u8));
        RecordingServer server = rig.Serve(s => s.AtConnecting = x =>
        {
            results.Add(x.Send("x"u8));
            results.Add(x.Send(Outgoing.Pieces("x"u8, "y"u8)));
            results.Add(x.CallReserve(1).IsEmpty ? SendResult.Closed : SendResult.Queued);
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        server.Connected().Send("first"u8);
        Assert.Equal("first", peer.ReadText(5));
        Assert.All(results, static r => Assert.Equal(SendResult.Closed, r));
    });

    [Theory, Contract(5)]
    [InlineData(false)]
    [InlineData(true)]
    public void After_the_end_every_form_of_sending_says_Closed(bool onLoop) => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        peer.ShutdownSend();
        session.End();
        Loop loop = session.Loop;
        // A connection object is reused: a late call must not reach its next session.
        Peer next = rig.ConnectPeer(server.EndPoint!);
        Peer afterNext = rig.ConnectPeer(server.EndPoint!);
        server.Connected(2);
        Memory owner = new("owned");
        if (onLoop) rig.OnLoop(loop, Send);
        else Send();
        void Send()
        {
            Assert.Equal(SendResult.Closed, session.Send("x"u8));
            Assert.Equal(SendResult.Closed, session.Send(Outgoing.Pieces("x"u8, "y"u8)));
            Assert.Equal(SendResult.Closed, session.Send("text"));
            Assert.Equal(SendResult.Closed, session.Send(new byte[100_000].AsSpan()));
            Assert.Equal(SendResult.Closed, session.Send(Outgoing.Owned(owner, 5)));
            Assert.Equal(SendResult.Closed, session.SendAsync(new byte[10]).Result);
            session.Close();
            session.Abort();
            session.ShutdownSend();
            session.PauseReceiving();
        }

        Assert.Equal(0, owner.Disposals);
        rig.Settle();
        Assert.Equal(-1, next.TryRead(new byte[10]));
        Assert.Equal(-1, afterNext.TryRead(new byte[10]));
        next.Write("x");
        afterNext.Write("x");
        server.Session(1).UntilReceived(1);
        server.Session(2).UntilReceived(1);
    });

    [Fact, Contract(5)]
    public void Sends_of_other_threads_across_the_end_never_throw_and_never_reach_the_next_session() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        for (int i = 0; i < 20; i++)
        {
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            RecordingSession session = server.Connected(2 * i);
            rig.Elsewhere(() =>
            {
                for (int n = 0; n < 200; n++) session.Send("stale"u8);
            });
            peer.Reset();
            Peer next = rig.ConnectPeer(server.EndPoint!);
            RecordingSession fresh = server.Connected((2 * i) + 1);
            rig.Join();
            fresh.Send("fresh"u8);
            Assert.Equal("fresh", next.ReadText(5));
            session.End();
            next.Reset();
            fresh.End();
        }
    });

    // ------------------------------------------------------------------ whole or not at all

    [Fact, Contract(5, 8)]
    public void A_send_that_does_not_fit_queues_nothing() => Run(rig =>
    {
        List<SendResult> results = [];
        RecordingServer server = rig.Serve(
            s => s.AtConnected = x =>
            {
                results.Add(x.Send(new byte[4000]));
                results.Add(x.Send(new byte[97]));
                results.Add(x.Send(Outgoing.Pieces(new byte[50], new byte[47])));
                results.Add(x.Send(Outgoing.Owned(new Memory(new byte[97]), 97)));
                results.Add(x.Send(new byte[96]));
                results.Add(x.Send([1]));
            },
            WithLimit(rig, 4096, SlowConsumer.DropNewest));
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        byte[] got = peer.Read(4096);
        Assert.Equal([SendResult.Queued, SendResult.Full, SendResult.Full, SendResult.Full, SendResult.Queued,
            SendResult.Full], results);
        Assert.True(got.AsSpan().IndexOfAnyExcept((byte)0) < 0);
        RecordingSession session = server.Session();
        rig.Until(() => session.BytesPending == 0, "room");
        TooLarge(() => session.Send(new byte[4097]));
        Assert.Equal(SendResult.Queued, session.Send("end"u8));
        Assert.Equal("end", peer.ReadText(3));
        Assert.True(session.IsConnected);
    });

    [Fact, Contract(5, 8)]
    public void Two_pieces_are_refused_together_from_another_thread_too() => Run(rig =>
    {
        RecordingServer server = rig.Serve(null, WithLimit(rig, 4096, SlowConsumer.DropNewest));
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        TooLarge(() => session.Send(Outgoing.Pieces(new byte[4096], new byte[1])));
        Assert.Equal(SendResult.Queued, session.Send(Outgoing.Pieces("a"u8, "b"u8)));
        Assert.Equal("ab", peer.ReadText(2));
    });

    // ------------------------------------------------------------------ Reserve and Commit

    [Fact, Contract(5)]
    public void Data_written_into_reserved_space_is_sent_at_its_place() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtConnected = static x =>
        {
            x.Send("a"u8);
            Span<byte> room = x.CallReserve(100);
            Assert.Equal(100, room.Length);
            "bcd"u8.CopyTo(room);
            x.CallCommit(3);
            x.CallReserve(32 * 1024).Fill((byte)'e');
            x.CallCommit(32 * 1024);
            x.Send("f"u8);
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        byte[] got = peer.Read(5 + (32 * 1024));
        Assert.Equal("abcde", Text(got.AsSpan(0, 5)));
        Assert.Equal((byte)'f', got[^1]);
        Assert.True(got.AsSpan(4..^1).IndexOfAnyExcept((byte)'e') < 0);
    });

    [Fact, Contract(5)]
    public void Reserved_room_that_is_given_back_sends_nothing() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtReceived = static (x, data) =>
        {
            x.CallReserve(1000).Fill(1);
            x.CallCommit(0);
            x.Send(data);
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        for (int i = 0; i < 5; i++)
        {
            peer.Write("x");
            Assert.Equal("x", peer.ReadText(1));
        }
    });

    [Fact, Contract(5)]
    public void Mistakes_with_reserved_room_are_thrown_at_the_call() => Run(rig =>
    {
        List<string> thrown = [];
        RecordingServer server = rig.Serve(s => s.AtConnected = x =>
        {
            Report(() => x.CallReserve(0));
            Report(() => x.CallReserve(-5));
            Report(() => x.CallReserve((32 * 1024) + 1));
            Report(() => x.CallCommit(1));
            x.CallReserve(10);
            Report(() => x.CallCommit(11));
            Report(() => x.CallCommit(-1));
            x.CallCommit(0);
            Report(() => x.CallCommit(5));
            x.Send("end"u8);
        });
        void Report(Action action)
        {
            try
            {
                action();
                thrown.Add("nothing");
            }
            catch (ArgumentOutOfRangeException)
            {
                thrown.Add("range");
            }
        }

        Peer peer = rig.ConnectPeer(server.EndPoint!);
        Assert.Equal("end", peer.ReadText(3));
        Assert.Equal(Enumerable.Repeat("range", 7), thrown);
        Assert.Throws<InvalidOperationException>(() => server.Session().CallReserve(10));
    });

    [Fact, Contract(5, 8)]
    public void Reserve_at_the_limit_gives_no_room() => Run(rig =>
    {
        int atLimit = -1, beyond = -1;
        RecordingServer server = rig.Serve(
            s => s.AtConnected = x =>
            {
                x.Send(new byte[4000]);
                beyond = x.CallReserve(97).Length;
                atLimit = x.CallReserve(96).Length;
                x.CallCommit(96);
            },
            WithLimit(rig, 4096, SlowConsumer.DropNewest));
        rig.ConnectPeer(server.EndPoint!).Read(4096);
        Assert.Equal(0, beyond);
        Assert.Equal(96, atLimit);
    });

    [Fact, Contract(5, 12)]
    public void Close_after_reserved_room_and_nothing_else_ends_without_a_wait() => Run(rig =>
    {
        RecordingServer server = rig.Serve(
            static s => s.AtConnected = static x =>
            {
                x.CallReserve(10);
                x.Close();
            },
            new ServerOptions
            {
                Engine = rig.Engine,
                EndPoint = rig.NewAddress(),
                Timeouts = new() { Drain = TimeSpan.FromHours(1) }
            });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        Assert.Empty(peer.ReadToEnd());
        peer.Close();
        Assert.Equal(CloseCause.LocalClose, server.Session().End());
    });

    [Theory, Contract(5)]
    [InlineData("throw")]
    [InlineData("close")]
    [InlineData("abort")]
    [InlineData("forget")]
    public void Reserved_room_that_is_never_committed_harms_neither_this_session_nor_the_next(string how) => Run(
        rig =>
        {
            RecordingServer server = rig.Serve(s => s.AtReceived = (x, data) =>
            {
                x.Send("before"u8);
                if (data[0] == 'r')
                {
                    x.CallReserve(100);
                    if (how == "throw") throw new InvalidDataException("thrown by the test");
                    if (how == "close") x.Close();
                    if (how == "abort") x.Abort();
                }
            });
            Peer first = rig.ConnectPeer(server.EndPoint!);
            first.Write("r");
            server.Session().UntilReceived(1);
            if (how is "close" or "forget") Assert.Equal("before", first.ReadText(6));
            first.Close();
            server.Session().End();
            for (int i = 1; i <= 2; i++)
            {
                // The same connection object, reused.
                Peer next = rig.ConnectPeer(server.EndPoint!);
                next.Write("x");
                Assert.Equal("before", next.ReadText(6));
            }
        },
        loops: 1);

    [Theory, Contract(5)]
    [InlineData("Send", 3)]
    [InlineData("Send", 20_000)]
    [InlineData("Send", 40_000)]
    [InlineData("two pieces", 9)]
    [InlineData("owned", 5)]
    [InlineData("owned", 40_000)]
    [InlineData("SendAsync", 7)]
    [InlineData("broadcast", 5_000)]
    [InlineData("broadcast", 70_000)]
    [InlineData("Reserve", 30_000)]
    public void A_Commit_after_another_send_is_queued_after_it(string what, int size) => Run(rig =>
    {
        byte[] between = Pattern(size);
        RecordingServer? server = null;
        List<bool> threw = [];
        bool isReplaced = what == "Reserve"; // the second reservation ends the first one
        int reserved = isReplaced ? 0 : size % 2 == 0 ? 3000 : 1000; // queued with its block, and copied
        RecordingServer made = server = rig.Serve(s => s.AtReceived = (x, _) =>
        {
            x.Send("a"u8);
            Span<byte> room = x.CallReserve(Math.Max(reserved, 1000));
            room.Fill((byte)'?');
            SendBetween(x, server!, what, between);
            if (!isReplaced) room.Fill((byte)'!');
            threw.Add(FindsNothing(x, room.Length));
            x.Send("b"u8);
            x.CallReserve(1)[0] = (byte)'c';
            x.CallCommit(1);
        });
        Peer peer = rig.ConnectPeer(made.EndPoint!);
        for (int i = 1; i <= 3; i++)
        {
            peer.Write("x");
            byte[] got = peer.Read(size + reserved + 3);
            Assert.Equal((byte)'a', got[0]);
            Assert.True(between.AsSpan().SequenceEqual(got.AsSpan(1, size)), "what was sent in between was changed");
            Assert.Equal(new string('!', reserved) + "bc", Text(got.AsSpan(size + 1)));
            rig.Until(() => threw.Count == i, "the callback to return");
        }

        Assert.Equal(Enumerable.Repeat(isReplaced, 3), threw);
        RecordingSession session = made.Session();
        rig.Until(() => session.BytesPending == 0, "nothing to be left of what was reserved");
        Assert.True(session.IsConnected);
    });

    [Fact, Contract(5, 6)]
    public void A_Commit_after_a_SendAsync_that_waits_for_space_throws() => Run(rig =>
    {
        byte[] much = Pattern(6_000_000); // more than the buffers of the system: the peer reads after the Commit
        bool threw = false;
        RecordingServer server = rig.Serve(
            s => s.AtReceived = (x, _) =>
            {
                x.CallReserve(100).Fill((byte)'!');
                Task<SendResult> waiting = x.SendAsync(much).AsTask();
                threw = !waiting.IsCompleted && FindsNothing(x, 100);
            },
            new ServerOptions
            {
                Engine = rig.Engine,
                EndPoint = rig.NewAddress(),
                Limits = new() { SendBytes = 100_000 }
            });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("x");
        rig.Until(() => Volatile.Read(ref threw), "the Commit to throw");
        Assert.True(peer.Read(much.Length).AsSpan().SequenceEqual(much));
        RecordingSession session = server.Session();
        rig.Until(() => session.BytesPending == 0, "nothing to be left of what was reserved");
    });

    private static void SendBetween(RecordingSession session, RecordingServer server, string what, byte[] data)
    {
        switch (what)
        {
            case "Send":
                session.Send(data);
                break;
            case "two pieces":
                session.Send(Outgoing.Pieces(data.AsSpan(0, 1), data.AsSpan(1)));
                break;
            case "owned":
                session.Send(Outgoing.Owned(new Memory(data), data.Length));
                break;
            case "SendAsync":
                _ = session.SendAsync(data);
                break;
            case "broadcast":
                server.Broadcast(data);
                break;
            default:
                session.Send(data.AsSpan(0, 1));
                data.AsSpan(1).CopyTo(session.CallReserve(data.Length - 1));
                session.CallCommit(data.Length - 1);
                session.CallReserve(1000);
                session.Send([]);
                session.Send(Outgoing.Pieces([], []));
                session.CallCommit(0);
                session.CallReserve(1000);
                session.Send([]);
                session.CallCommit(0);
                break;
        }
    }

    private static bool FindsNothing(RecordingSession session, int count)
    {
        try
        {
            session.CallCommit(count);
            return false;
        }
        catch (ArgumentOutOfRangeException e) when (e.Message.Contains("the 0 reserved", StringComparison.Ordinal))
        {
            return true;
        }
    }

    [Theory, Contract(5)]
    [InlineData("next callback")]
    [InlineData("continuation")]
    [InlineData("post")]
    public void Room_of_one_callback_cannot_be_committed_in_another(string where) => Run(rig =>
    {
        List<bool> threw = [];
        RecordingServer server = rig.Serve(s => s.AtReceived = (x, data) =>
        {
            if (where == "next callback" && data[0] == '2')
            {
                threw.Add(FindsNothing(x, 100));
                x.Send("end"u8);
                return;
            }

            x.CallReserve(100);
            if (where == "continuation") _ = Later(x);
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("1");
        RecordingSession session = server.Session();
        session.UntilReceived(1);
        if (where == "post")
        {
            rig.OnLoop(session, () =>
            {
                threw.Add(FindsNothing(session, 100));
                session.Send("end"u8);
            });
        }

        if (where == "next callback") peer.Write("2");
        Assert.Equal("end", peer.ReadText(3));
        Assert.Equal([true], threw);

        async Task Later(RecordingSession x)
        {
            // Must not end before it is awaited, because then there would be no other callback.
            await x.Loop.DelayAsync(TimeSpan.FromMilliseconds(100));
            threw.Add(FindsNothing(x, 100));
            x.Send("end"u8);
        }
    });

    [Theory, Contract(5, 12)]
    [InlineData("close")]
    [InlineData("abort")]
    [InlineData("finish")]
    public void A_Commit_after_the_end_says_nothing_and_sends_nothing(string how) => Run(rig =>
    {
        string outcome = "";
        RecordingServer server = rig.Serve(s => s.AtReceived = (x, _) =>
        {
            x.Send("a"u8);
            x.CallReserve(100).Fill((byte)'!');
            if (how == "close") x.Close();
            else if (how == "abort") x.Abort();
            else x.ShutdownSend();
            try
            {
                x.CallCommit(100);
                outcome = "quiet";
            }
            catch (ArgumentOutOfRangeException e)
            {
                outcome = e.Message;
            }
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("x");
        if (how == "abort") peer.EndsInReset();
        else Assert.Equal("a", Text(peer.ReadToEnd()));
        peer.Close();
        server.Session().End();
        Assert.Equal("quiet", outcome);
    });

    [Fact, Contract(5)]
    public void Room_that_another_session_of_the_loop_reserves_ends_the_reservation() => Run(rig =>
    {
        Assert.SkipWhen(rig.IsPool, "A callback on the pool has memory of its own.");
        bool threw = false;
        RecordingServer server = rig.Serve(static _ => { });
        Peer[] peers = [rig.ConnectPeer(server.EndPoint!), rig.ConnectPeer(server.EndPoint!)];
        RecordingSession one = server.Connected(0);
        RecordingSession other = server.Connected(1);
        rig.OnLoop(one, () =>
        {
            one.CallReserve(2).Fill((byte)'!');
            other.CallReserve(2).Fill((byte)'b');
            threw = FindsNothing(one, 2);
            other.CallCommit(2);
            one.Send("aa"u8);
        });
        Assert.Equal(["aa", "bb"], peers.Select(static p => p.ReadText(2)).Order());
        Assert.True(threw);
    }, loops: 1);

    // ------------------------------------------------------------------ memory that is passed on

    [Theory, Contract(5)]
    [InlineData("loop", 5)]
    [InlineData("loop", 500_000)]
    [InlineData("elsewhere", 5)]
    [InlineData("elsewhere", 500_000)]
    public void Owned_memory_is_sent_and_given_back_once(string from, int size) => Run(rig =>
    {
        byte[] data = Pattern(size + 10);
        Memory owner = new(data);
        RecordingServer server = rig.Serve();
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        SendResult result = SendResult.Closed;
        if (from == "loop") rig.OnLoop(session, () => result = session.Send(Outgoing.Owned(owner, size)));
        else result = session.Send(Outgoing.Owned(owner, size));
        Assert.Equal(SendResult.Queued, result);
        Assert.Equal(data[..size], peer.Read(size));
        rig.Until(() => owner.Disposals > 0, "the memory to be given back");
        session.Send("end"u8);
        peer.Read(3);
        Assert.Equal(1, owner.Disposals);
    });

    [Theory, Contract(5)]
    [InlineData("loop")]
    [InlineData("elsewhere")]
    public void Owned_memory_that_is_queued_when_the_connection_ends_is_given_back_once(string from) => Run(rig =>
    {
        RecordingServer server = rig.Serve(null, WithLimit(rig, 64 * 1024 * 1024, SlowConsumer.DropNewest));
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        // More than the socket buffers hold, so that some of it is still queued at the end.
        Memory[] owners = [.. Enumerable.Range(0, 48).Select(static _ => new Memory(new byte[1024 * 1024]))];
        void Send()
        {
            foreach (Memory owner in owners)
                Assert.Equal(SendResult.Queued, session.Send(Outgoing.Owned(owner, 1024 * 1024)));
        }

        if (from == "loop") rig.OnLoop(session, Send);
        else Send();
        session.Abort();
        session.End();
        rig.Until(() => owners.All(static o => o.Disposals > 0), "all memory to be given back");
        rig.Settle();
        Assert.All(owners, static o => Assert.Equal(1, o.Disposals));
        peer.EndsInReset();
    });

    [Theory, Contract(5, 8)]
    [InlineData("loop")]
    [InlineData("elsewhere")]
    public void Owned_memory_that_is_refused_stays_the_callers(string from) => Run(rig =>
    {
        RecordingServer server = rig.Serve(null, WithLimit(rig, 4096, SlowConsumer.DropNewest));
        rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        Memory owner = new(new byte[5000]);
        void Send() => TooLarge(() => session.Send(Outgoing.Owned(owner, 5000)));
        if (from == "loop") rig.OnLoop(session, Send);
        else Send();
        rig.Settle();
        Assert.Equal(0, owner.Disposals);
    });

    [Theory, Contract(4, 5)]
    [InlineData(BadPlace.Dispose, "loop", 5)]
    [InlineData(BadPlace.Dispose, "loop", 0)]
    [InlineData(BadPlace.Dispose, "loop", 200_000)]
    [InlineData(BadPlace.Dispose, "elsewhere", 5)]
    [InlineData(BadPlace.Dispose, "elsewhere", 0)]
    [InlineData(BadPlace.Dispose, "elsewhere", 200_000)]
    [InlineData(BadPlace.Unpin, "loop", 200_000)]
    [InlineData(BadPlace.Unpin, "elsewhere", 200_000)]
    [InlineData(BadPlace.Pin, "elsewhere", 200_000)]
    [InlineData(BadPlace.Span, "elsewhere", 5)]
    [InlineData(BadPlace.Memory, "elsewhere", 5)]
    [InlineData(BadPlace.Memory, "elsewhere", 200_000)]
    [InlineData(BadPlace.Shorter, "elsewhere", 5)]
    [InlineData(BadPlace.Shorter, "elsewhere", 200_000)]
    public void Memory_that_throws_when_it_is_sent_or_given_back_ends_that_connection_only(BadPlace place, string from,
        int size) => Run(
            rig =>
            {
                rig.Expect("memory that a session sent");
                RecordingServer server = rig.Serve(static s => s.AtReceived = static (x, data) => x.Send(data),
                    WithLimit(rig, 4 * 1024 * 1024, SlowConsumer.Wait));
                Peer bystander = rig.ConnectPeer(server.EndPoint!);
                server.Connected();
                Peer peer = rig.ConnectPeer(server.EndPoint!);
                RecordingSession session = server.Connected(1);
                BadMemory memory = new(Math.Max(size, 1)) { Place = place };
                SendResult result = SendResult.Closed;
                if (from == "loop")
                    rig.OnLoop(session, () => result = session.Send(Outgoing.Owned(memory.Owner, size)));
                else result = session.Send(Outgoing.Owned(memory.Owner, size));
                Assert.Equal(SendResult.Queued, result);
                if (place is BadPlace.Dispose or BadPlace.Unpin && size > 5) ReadUntilEnd(rig, peer);
                Assert.Equal(CloseCause.UserException, session.End());
                if (place != BadPlace.Shorter) Assert.Same(memory.Thrown, session.Reason.Exception);
                rig.Until(() => memory.Disposals == 1, "the memory to be given back");
                bystander.Write("b");
                Assert.Equal("b", bystander.ReadText(1));
                Assert.Contains(rig.Notices, static n => n.Kind == DiagnosticEventKind.UserException
                    && n.Message.Contains("memory that a session sent", StringComparison.Ordinal));
            },
            loops: 1);

    [Theory, Contract(4, 5)]
    [InlineData(BadPlace.Dispose)]
    [InlineData(BadPlace.Unpin)]
    public void Memory_that_throws_after_the_end_has_no_effect(BadPlace place) => Run(
        rig =>
        {
            rig.Expect("memory that a session sent");
            RecordingServer server = rig.Serve(static s => s.AtReceived = static (x, data) => x.Send(data),
                WithLimit(rig, 64 * 1024 * 1024, SlowConsumer.DropNewest));
            Peer bystander = rig.ConnectPeer(server.EndPoint!);
            server.Connected();
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            RecordingSession session = server.Connected(1);
            // More than the socket buffers hold, so that some of it is still queued at the end.
            BadMemory[] memory = [.. Enumerable.Range(0, 48).Select(_ => new BadMemory(1024 * 1024))];
            foreach (BadMemory one in memory)
                Assert.Equal(SendResult.Queued, session.Send(Outgoing.Owned(one.Owner, 1024 * 1024)));
            rig.OnLoop(session, () =>
            {
                // On the loop it is discarded after this; on the pool perhaps meanwhile.
                session.Abort();
                foreach (BadMemory one in memory) one.Place = place;
            });
            // With thread-pool scheduling memory may throw before the abort reaches the loop: then that cause was
            // first.
            if (session.End() != CloseCause.LocalAbort)
                Assert.True(rig.IsPool && session.Reason.Cause == CloseCause.UserException, rig.Story());
            rig.Until(() => memory.All(static one => one.Disposals == 1), "all memory to be given back");
            peer.EndsInReset();
            bystander.Write("b");
            Assert.Equal("b", bystander.ReadText(1));
        },
        loops: 1);

    private static void ReadUntilEnd(Rig rig, Peer peer)
    {
        byte[] buffer = new byte[64 * 1024];
        rig.Until(
            () =>
            {
                try
                {
                    int got;
                    do got = peer.TryRead(buffer);
                    while (got > 0);
                    return got == 0;
                }
                catch (IOException)
                {
                    return true;
                }
            },
            "the connection to end");
    }

    [Fact, Contract(5)]
    public void Owned_memory_sent_across_the_end_has_one_owner_in_every_outcome() => Run(rig =>
    {
        RecordingServer server = rig.Serve(null, WithLimit(rig, 1024 * 1024, SlowConsumer.DropNewest));
        for (int i = 0; i < 10; i++)
        {
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            RecordingSession session = server.Connected(i);
            Memory[] owners = [.. Enumerable.Range(0, 100).Select(static _ => new Memory(new byte[1000]))];
            SendResult[] results = new SendResult[owners.Length];
            rig.Elsewhere(() =>
            {
                for (int n = 0; n < owners.Length; n++) results[n] = session.Send(Outgoing.Owned(owners[n], 1000));
            });
            if (i % 2 == 0) session.Close();
            else peer.Reset();
            rig.Join();
            peer.Close();
            session.End();
            rig.Settle();
            for (int n = 0; n < owners.Length; n++)
            {
                int expected = results[n] == SendResult.Queued ? 1 : 0;
                int at = n;
                rig.Until(() => owners[at].Disposals >= expected, "the memory to be given back");
                Assert.Equal(expected, owners[n].Disposals);
            }
        }
    });

    [Theory, Contract(5)]
    [InlineData(-1)]
    [InlineData(6)]
    public void A_wrong_length_of_owned_memory_is_thrown_at_the_call(int length) => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        rig.ConnectPeer(server.EndPoint!);
        Memory owner = new("owned");
        Assert.Throws<ArgumentOutOfRangeException>(() => server.Connected().Send(Outgoing.Owned(owner, length)));
        Assert.Throws<ArgumentNullException>(() => server.Session().Send(Outgoing.Owned(null!, 0)));
        Assert.Equal(0, owner.Disposals);
    });
}
