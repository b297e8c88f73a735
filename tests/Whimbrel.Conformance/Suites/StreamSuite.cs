using System.Net;
using System.Text;

namespace Whimbrel.Conformance;

/// <summary>A connection in pull mode: reads, writes and ends of one <see cref="ConnectionStream"/>, on its loop and
/// from other threads.</summary>
public abstract class StreamSuite(Transport transport) : TrafficSuite(transport)
{
    private const int Kept = 64 * 1024;

    // ------------------------------------------------------------------ reading and writing

    [Theory, Contract(3)]
    [InlineData(true)]
    [InlineData(false)]
    public void Data_is_read_from_the_peer_and_written_to_it(bool onLoop) => Run(rig =>
    {
        (ConnectionStream stream, Peer peer) = Accept(rig);
        Task<string> echo = Start(rig, stream, onLoop, async () =>
        {
            byte[] memory = new byte[100];
            int count = await stream.ReadAsync(memory).ConfigureAwait(false);
            await stream.WriteAsync(memory.AsMemory(0, count)).ConfigureAwait(false);
            return Encoding.ASCII.GetString(memory, 0, count);
        });
        rig.Settle();
        Assert.False(echo.IsCompleted);
        peer.Write("hello");
        string text = Await(rig, echo);
        Assert.StartsWith(text, "hello", StringComparison.Ordinal);
        Assert.Equal(text, peer.ReadText(text.Length));
    });

    [Theory, Contract(3)]
    [InlineData(true)]
    [InlineData(false)]
    public void A_short_read_leaves_the_rest_for_the_next_ones(bool onLoop) => Run(rig =>
    {
        (ConnectionStream stream, Peer peer) = Accept(rig);
        byte[] data = Pattern(10_000);
        Task<byte[]> reader = Start(rig, stream, onLoop, () => ReadExactly(stream, data.Length, 7, 333, 1));
        peer.Write(data);
        Assert.Equal(data, Await(rig, reader));
    });

    [Theory, Contract(3, 6)]
    [InlineData(true)]
    [InlineData(false)]
    public void Two_streams_that_push_at_each_other_lose_nothing(bool onLoop) => Run(rig =>
    {
        // 64 MiB in each direction on real engines, 1 GiB in deep runs; less where every byte may be a step of the
        // simulation.
        int length = rig.IsVirtual ? 512 * 1024 : Depth.IsDeep ? 1 << 30 : onLoop ? 64 * 1024 * 1024
            : 8 * 1024 * 1024;
        (ConnectionStream here, ConnectionStream there) = Pair(rig);
        Task<bool>[] all =
        [
            Start(rig, here, onLoop, () => Push(here, length, 1)),
            Start(rig, there, onLoop, () => Push(there, length, 2)),
            Start(rig, here, onLoop, () => Check(here, length, 2)),
            Start(rig, there, onLoop, () => Check(there, length, 1)),
        ];
        foreach (Task<bool> task in all) Assert.True(Await(rig, task));
        Assert.Equal(length, here.BytesReceived);
        Assert.Equal(length, there.BytesReceived);
    });

    [Fact, Contract(3, 10)]
    public void Without_a_read_a_bounded_number_of_bytes_is_kept_and_the_peer_has_to_wait() => Run(rig =>
    {
        (ConnectionStream stream, Peer peer) = Accept(rig);
        byte[] piece = Pattern(256 * 1024);
        int written = peer.WriteUntilFull(piece);
        rig.Settle();
        Assert.InRange(stream.BytesReceived, 1, Kept + (320 * 1024));
        byte[] expected = new byte[written];
        for (int i = 0; i < written; i++) expected[i] = piece[i % piece.Length];
        Task<byte[]> reader = Start(rig, stream, onLoop: true, () => ReadExactly(stream, written, 40_000));
        Assert.Equal(expected, Await(rig, reader));
    });

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void A_second_read_throws_and_the_first_continues(bool onLoop) => Run(rig =>
    {
        (ConnectionStream stream, Peer peer) = Accept(rig);
        byte[] first = new byte[10];
        Task<int> reader = Start(rig, stream, onLoop, () => stream.ReadAsync(first));
        At(rig, stream, onLoop,
            () => Assert.Throws<InvalidOperationException>(() => _ = stream.ReadAsync(new byte[10])));
        peer.Write("x");
        Assert.Equal(1, Await(rig, reader));
        Assert.Equal((byte)'x', first[0]);
        peer.Write("y");
        Assert.Equal(1, Await(rig, Start(rig, stream, onLoop, () => stream.ReadAsync(first))));
        Assert.Equal((byte)'y', first[0]);
    });

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void An_empty_read_waits_for_data_and_consumes_none(bool onLoop) => Run(rig =>
    {
        (ConnectionStream stream, Peer peer) = Accept(rig);
        Task<int> waiter = Start(rig, stream, onLoop, () => stream.ReadAsync(Memory<byte>.Empty));
        rig.Settle();
        Assert.False(waiter.IsCompleted);
        peer.Write("abc");
        Assert.Equal(0, Await(rig, waiter));
        Assert.Equal(0, Await(rig, Start(rig, stream, onLoop, () => stream.ReadAsync(Memory<byte>.Empty))));
        Assert.Equal(Bytes("abc"), Await(rig, Start(rig, stream, onLoop, () => ReadExactly(stream, 3, 3))));
        Task<int> atEnd = Start(rig, stream, onLoop, () => stream.ReadAsync(Memory<byte>.Empty));
        peer.ShutdownSend();
        Assert.Equal(0, Await(rig, atEnd));
    });

    [Fact, Contract(5, 7)]
    public void Several_may_write_at_once_and_each_write_stays_whole() => Run(rig =>
    {
        (ConnectionStream stream, Peer peer) = Accept(rig, Narrow(rig));
        const int Writers = 4;
        const int Writes = 30;
        const int Length = 3_000;
        int done = 0;
        for (int w = 0; w < Writers; w++)
        {
            char letter = (char)('a' + w);
            rig.Elsewhere(() => _ = WriteAll(letter));
        }

        Dictionary<byte, int> seen = [];
        for (int i = 0; i < Writers * Writes; i++)
        {
            byte[] message = peer.Read(Length);
            Assert.True(message.AsSpan().IndexOfAnyExcept(message[0]) < 0, "a write was torn");
            seen[message[0]] = seen.GetValueOrDefault(message[0]) + 1;
        }

        rig.Until(() => Volatile.Read(ref done) == Writers, "all writers to end");
        Assert.All(seen.Values, static count => Assert.Equal(Writes, count));

        async Task WriteAll(char letter)
        {
            byte[] message = Filled(letter, Length);
            for (int i = 0; i < Writes; i++) await stream.WriteAsync(message).ConfigureAwait(false);
            Interlocked.Increment(ref done);
        }
    });

    [Theory, Contract(5, 6)]
    [InlineData(true)]
    [InlineData(false)]
    public void Two_pieces_are_one_write_also_among_others_and_past_the_limit(bool onLoop) => Run(rig =>
    {
        (ConnectionStream stream, Peer peer) = Accept(rig, Narrow(rig));
        const int Writes = 40;
        Task<bool>[] writers = [.. Enumerable.Range(0, 3)
            .Select(w => Start(rig, stream, onLoop, () => WriteAll((byte)('a' + w))))];
        for (int i = 0; i < 3 * Writes; i++)
        {
            byte[] head = peer.Read(4);
            byte[] body = peer.Read(System.Buffers.Binary.BinaryPrimitives.ReadUInt16BigEndian(head.AsSpan(2)));
            Assert.Equal(head[0], head[1]);
            Assert.True(body.AsSpan().IndexOfAnyExcept(head[0]) < 0, "a write was torn");
        }

        foreach (Task<bool> writer in writers) Assert.True(Await(rig, writer));
        Task<bool> large = Start(rig, stream, onLoop, () => WriteBoth(Bytes("x"), Filled('y', 3 * Limit)));
        Assert.Equal("x" + new string('y', 3 * Limit), peer.ReadText(1 + (3 * Limit)));
        Assert.True(Await(rig, large));
        Task<bool> refused = Start(rig, stream, onLoop, () =>
        {
            stream.ShutdownSend();
            return WriteBoth(Bytes("x"), Bytes("y"));
        });
        Assert.Throws<NetworkException>(() => Await(rig, refused));

        async ValueTask<bool> WriteAll(byte letter)
        {
            for (int i = 0; i < Writes; i++)
            {
                ushort length = (ushort)(i * 197 % 6_000);
                await WriteBoth([letter, letter, (byte)(length >> 8), (byte)length], Filled((char)letter, length))
                    .ConfigureAwait(false);
            }

            return true;
        }

        async ValueTask<bool> WriteBoth(byte[] head, byte[] body)
        {
            await stream.WriteAsync(head, body).ConfigureAwait(false);
            // Reused immediately, because the bytes were copied to the queue.
            head.AsSpan().Clear();
            body.AsSpan().Clear();
            return true;
        }
    });

    [Fact, Contract(6)]
    public void SendAsync_awaited_on_the_loop_resumes_there_and_never_inside_a_callback() => Run(rig =>
    {
        (ConnectionStream stream, Peer peer) = Accept(rig, Narrow(rig));
        bool inside = false;
        List<string> where = [];
        Task<bool> reader = Start(rig, stream, onLoop: true, async () =>
        {
            byte[] memory = new byte[100_000];
            for (int i = 0; i < 5; i++)
            {
                int count = await stream.ReadAsync(memory).ConfigureAwait(false);
                Report($"read {i}");
                await stream.WriteAsync(memory.AsMemory(0, 90_000)).ConfigureAwait(false);
                Report($"write {i}");
            }

            return true;
        });
        for (int i = 0; i < 5; i++)
        {
            peer.Write("x");
            peer.Read(90_000);
        }

        Await(rig, reader);
        Assert.All(where, static w => Assert.EndsWith("on loop", w, StringComparison.Ordinal));
        Assert.Equal(10, where.Count);

        void Report(string what)
        {
            Assert.False(inside);
            inside = true;
            where.Add(
                $"{what} {(stream.Loop.IsCurrent && stream.Loop.Active is null ? "on loop" : "astray")}");
            inside = false;
        }
    });

    [Fact, Contract(6)]
    public void An_await_on_another_thread_resumes_off_the_loop() => Run(rig =>
    {
        (ConnectionStream stream, Peer peer) = Accept(rig);
        Loop? where = stream.Loop;
        Task<bool> reader = Start(rig, stream, onLoop: false, async () =>
        {
            await stream.ReadAsync(new byte[1]).ConfigureAwait(false);
            where = Loop.Current;
            return true;
        });
        rig.Settle();
        peer.Write("x");
        Await(rig, reader);
        Assert.Null(where);
    });

    // ------------------------------------------------------------------ the ends

    [Theory, Contract(11)]
    [InlineData(true)]
    [InlineData(false)]
    public void After_the_peers_end_reads_return_0_and_writes_continue_until_this_side_ends(bool onLoop) => Run(rig =>
    {
        (ConnectionStream stream, Peer peer) = Accept(rig);
        peer.Write("last");
        peer.ShutdownSend();
        Assert.Equal(Bytes("last"), Await(rig, Start(rig, stream, onLoop, () => ReadExactly(stream, 4, 100))));
        for (int i = 0; i < 3; i++)
            Assert.Equal(0, Await(rig, Start(rig, stream, onLoop, () => stream.ReadAsync(new byte[10]))));
        Await(rig, Start(rig, stream, onLoop, () => Write(stream, "answer")));
        Assert.Equal("answer", peer.ReadText(6));
        Assert.True(stream.IsConnected);
        stream.ShutdownSend();
        Assert.Empty(peer.ReadToEnd());
        rig.Until(() => stream.CloseReason.Cause == CloseCause.PeerClosed, "the connection to end");
        Assert.Equal(0, Await(rig, Start(rig, stream, onLoop, () => stream.ReadAsync(new byte[10]))));
    });

    [Theory, Contract(11)]
    [InlineData(true)]
    [InlineData(false)]
    public void ShutdownSend_sends_written_data_then_FIN_and_reading_continues(bool onLoop) => Run(rig =>
    {
        (ConnectionStream stream, Peer peer) = Accept(rig);
        byte[] data = Pattern(300_000);
        At(rig, stream, onLoop, () =>
        {
            _ = stream.WriteAsync(data).AsTask();
            stream.ShutdownSend();
        });
        Assert.Equal(data, peer.ReadToEnd());
        peer.Write("still");
        Assert.Equal(Bytes("still"), Await(rig, Start(rig, stream, onLoop, () => ReadExactly(stream, 5, 5))));
        NetworkException e =
            Assert.Throws<NetworkException>(() => Await(rig, Start(rig, stream, onLoop, () => Write(stream, "no"))));
        Assert.Contains("finished sending", e.Message, StringComparison.Ordinal);
        peer.ShutdownSend();
        Assert.Equal(0, Await(rig, Start(rig, stream, onLoop, () => stream.ReadAsync(new byte[10]))));
    });

    [Fact, Contract(3, 11)]
    public void Unread_bytes_outlive_the_connection() => Run(rig =>
    {
        (ConnectionStream stream, Peer peer) = Accept(rig);
        byte[] data = Pattern(50_000);
        peer.Write(data);
        rig.Until(() => stream.BytesReceived == data.Length, "all to arrive");
        peer.ShutdownSend();
        stream.ShutdownSend();
        rig.Until(() => stream.CloseReason.Cause != CloseCause.None, "the connection to end");
        Assert.Equal(data,
            Await(rig, Start(rig, stream, onLoop: false, () => ReadExactly(stream, data.Length, 1_000))));
        Assert.Equal(0, Await(rig, Start(rig, stream, onLoop: true, () => stream.ReadAsync(new byte[10]))));
    });

    [Theory, Contract(1)]
    [InlineData(true)]
    [InlineData(false)]
    public void After_a_reset_reads_return_buffered_data_and_then_throw_with_its_category(bool onLoop) => Run(rig =>
    {
        (ConnectionStream stream, Peer peer) = Accept(rig);
        peer.Write("before");
        rig.Until(() => stream.BytesReceived == 6, "the bytes to arrive");
        peer.Reset();
        if (!rig.HasResets)
        {
            Assert.Equal(Bytes("before"), Await(rig, Start(rig, stream, onLoop, () => ReadExactly(stream, 6, 6))));
            Assert.Equal(0, Await(rig, Start(rig, stream, onLoop, () => stream.ReadAsync(new byte[10]))));
            return;
        }

        rig.Until(() => stream.CloseReason.Cause == CloseCause.PeerReset, "the reset to be seen");
        Assert.Equal(Bytes("before"), Await(rig, Start(rig, stream, onLoop, () => ReadExactly(stream, 6, 6))));
        for (int i = 0; i < 2; i++)
        {
            NetworkException read = Assert.Throws<NetworkException>(
                () => Await(rig, Start(rig, stream, onLoop, () => stream.ReadAsync(new byte[10]))));
            Assert.Equal(ErrorCategory.System, read.Error.Category);
            NetworkException write =
                Assert.Throws<NetworkException>(() => Await(rig, Start(rig, stream, onLoop, () => Write(stream, "x"))));
            Assert.Equal(ErrorCategory.System, write.Error.Category);
        }
    });

    [Fact, Contract(1)]
    public void A_read_that_waits_ends_with_the_connection() => Run(rig =>
    {
        (ConnectionStream stream, _) = Accept(rig);
        Task<int> reader = Start(rig, stream, onLoop: false, () => stream.ReadAsync(new byte[10]));
        rig.Settle();
        Assert.False(reader.IsCompleted);
        stream.Abort();
        Assert.IsType<NetworkException>(Assert.ThrowsAny<IOException>(() => Await(rig, reader)));
        Assert.Equal(CloseCause.LocalAbort, stream.CloseReason.Cause);
    });

    [Theory, Contract(12)]
    [InlineData(true)]
    [InlineData(false)]
    public void Dispose_sends_what_was_written_then_FIN(bool onLoop) => Run(rig =>
    {
        (ConnectionStream stream, Peer peer) = Accept(rig);
        byte[] data = Pattern(500_000);
        Task<int> reader = Start(rig, stream, onLoop, () => stream.ReadAsync(new byte[10]));
        At(rig, stream, onLoop, () =>
        {
            _ = stream.WriteAsync(data).AsTask();
            stream.Dispose();
            stream.Dispose();
        });
        Assert.Throws<ObjectDisposedException>(() => Await(rig, reader));
        Assert.Equal(data, peer.ReadToEnd());
        Assert.False(stream.CanRead || stream.CanWrite);
        Assert.Throws<ObjectDisposedException>(() => _ = stream.ReadAsync(new byte[1]));
        Assert.Throws<ObjectDisposedException>(() => _ = stream.WriteAsync(new byte[1]));
        peer.Close();
        rig.Until(() => stream.CloseReason.Cause == CloseCause.LocalClose, "the connection to end");
    });

    [Fact, Contract(12)]
    public void A_read_whose_result_was_not_taken_before_the_dispose_throws() => Run(rig =>
    {
        (ConnectionStream stream, Peer peer) = Accept(rig);
        ValueTask<int> reading = default;
        rig.OnLoop(stream.Loop, () => reading = stream.ReadAsync(new byte[10]));
        peer.Write("late");
        rig.Until(() => reading.IsCompleted, "the data");
        stream.Dispose();
        Assert.Throws<ObjectDisposedException>(() => reading.GetAwaiter().GetResult());
    });

    [Theory, Contract(12)]
    [InlineData(true)]
    [InlineData(false)]
    public void DisposeAsync_completes_when_the_connection_has_ended(bool onLoop) => Run(rig =>
    {
        (ConnectionStream stream, Peer peer) = Accept(rig);
        Task<bool> disposing = Start(rig, stream, onLoop, async () =>
        {
            await stream.WriteAsync(Bytes("bye")).ConfigureAwait(false);
            await stream.DisposeAsync().ConfigureAwait(false);
            return onLoop == stream.Loop.IsCurrent;
        });
        Assert.Equal("bye", peer.ReadTextToEnd());
        Assert.False(disposing.IsCompleted);
        peer.Close();
        Assert.True(Await(rig, disposing));
        Assert.Equal(CloseCause.LocalClose, stream.CloseReason.Cause);
        rig.Await(stream.DisposeAsync());
    });

    [Fact, Contract(12)]
    public void Abort_discards_and_resets() => Run(rig =>
    {
        (ConnectionStream stream, Peer peer) = Accept(rig);
        stream.Abort();
        Assert.Equal(rig.HasResets, peer.EndsInReset());
        rig.Until(() => stream.CloseReason.Cause == CloseCause.LocalAbort, "the connection to end");
    });

    // ------------------------------------------------------------------ cancelling

    [Theory, Contract(6)]
    [InlineData(true)]
    [InlineData(false)]
    public void A_cancelled_read_leaves_the_stream_usable(bool onLoop) => Run(rig =>
    {
        (ConnectionStream stream, Peer peer) = Accept(rig);
        using CancellationTokenSource source = new();
        byte[] memory = new byte[10];
        Task<int> reader = Start(rig, stream, onLoop, () => stream.ReadAsync(memory, source.Token));
        rig.Settle();
        At(rig, stream, onLoop, source.Cancel);
        OperationCanceledException e = Assert.ThrowsAny<OperationCanceledException>(() => Await(rig, reader));
        Assert.Equal(source.Token, e.CancellationToken);
        Assert.ThrowsAny<OperationCanceledException>(
            () => Await(rig, Start(rig, stream, onLoop, () => stream.ReadAsync(memory, source.Token))));
        peer.Write("abc");
        Assert.Equal(Bytes("abc"), Await(rig, Start(rig, stream, onLoop, () => ReadExactly(stream, 3, 10))));
    });

    [Theory, Contract(3, 6)]
    [InlineData(true)]
    [InlineData(false)]
    public void Reads_cancelled_at_any_moment_lose_no_byte(bool onLoop) => Run(rig =>
    {
        const int Length = 400;
        (ConnectionStream stream, Peer peer) = Accept(rig);
        ReadThroughCancels(rig, peer, stream, Length, method => Start(rig, stream, onLoop, method));
    });

    [Theory, Contract(6)]
    [InlineData(true)]
    [InlineData(false)]
    public void A_token_with_a_reset_source_cancels_again(bool onLoop) => Run(rig =>
    {
        (ConnectionStream stream, Peer peer) = Accept(rig);
        using CancellationTokenSource source = new();
        byte[] memory = new byte[10];
        for (int i = 0; i < 3; i++)
        {
            Task<int> served = Start(rig, stream, onLoop, () => stream.ReadAsync(memory, source.Token));
            rig.Settle();
            peer.Write("a");
            Assert.Equal(1, Await(rig, served));
            // The same token as before, and the source has dropped all registrations.
            Assert.True(source.TryReset());
        }

        Task<int> limited = Start(rig, stream, onLoop, () => stream.ReadAsync(memory, source.Token));
        rig.Settle();
        source.Cancel();
        Assert.ThrowsAny<OperationCanceledException>(() => Await(rig, limited));
    });

    [Fact]
    public void A_cancel_after_the_bytes_does_not_end_the_next_read() => Run(
        rig =>
        {
            Assert.SkipUnless(rig.IsVirtual,
                "Only the memory engine fixes the order within one loop iteration, by its seed.");
            (ConnectionStream stream, Peer peer) = Accept(rig);
            CancellationTokenSource? source = null;
            ValueTask<int> first = default;
            ValueTask<int> second = default;
            byte[] memory = new byte[100];
            bool began = false;
            // Both on the stream's loop, and in the phase in which bytes arrive: the post of the cancel is processed
            // after that.
            RecordingServer others = rig.Serve(s => s.AtReceived = (_, data) =>
            {
                if (data[0] == 'c') source!.Cancel();
                if (data[0] != 'r' || !first.IsCompletedSuccessfully) return;
                Assert.Equal(1, first.GetAwaiter().GetResult());
                second = stream.ReadAsync(memory);
                began = true;
            });
            Peer canceller = rig.ConnectPeer(others.EndPoint!);
            Peer reader = rig.ConnectPeer(others.EndPoint!);
            int inTime = 0;
            for (int round = 0; round < 60; round++)
            {
                source = new CancellationTokenSource();
                began = false;
                rig.OnLoop(stream.Loop, () => first = stream.ReadAsync(memory.AsMemory(0, 1), source.Token));
                canceller.Write("c");
                peer.Write("x");
                reader.Write("r");
                rig.Settle();
                if (began)
                {
                    inTime++;
                    Assert.False(second.IsCompleted, "a read without a token ended");
                    peer.Write("y");
                    Assert.Equal(1, rig.Await(second));
                }
                else if (first.IsCompletedSuccessfully)
                {
                    Assert.Equal(1, rig.Await(first));
                }
                else
                {
                    Assert.ThrowsAny<OperationCanceledException>(() => rig.Await(first));
                    int left = 0;
                    rig.OnLoop(stream.Loop, () => left = stream.ReadAsync(memory).Result);
                    Assert.Equal(1, left);
                }

                source.Dispose();
            }

            Assert.True(inTime > 0, "the order in question never came");
        },
        loops: 1);

    [Theory, Contract(6)]
    [InlineData(true)]
    [InlineData(false)]
    public void A_write_that_waits_for_room_fails_when_the_connection_ends(bool onLoop) => Run(rig =>
    {
        (ConnectionStream stream, Peer peer) = Accept(rig, Narrow(rig));
        Session session = SessionOf(rig, stream);
        Clog(rig, session);
        FillTo(rig, session, room: 10);
        Task<bool> writing = Start(rig, stream, onLoop, () => Write(stream, new string('a', 5_000)));
        rig.Settle();
        Assert.False(writing.IsCompleted);
        peer.Reset();
        // Data that was not accepted must not look written.
        NetworkException e = Assert.Throws<NetworkException>(() => Await(rig, writing));
        Assert.StartsWith("Cannot write: ", e.Message, StringComparison.Ordinal);
    });

    [Theory, Contract(6)]
    [InlineData(true)]
    [InlineData(false)]
    public void A_write_cancelled_before_its_first_piece_leaves_nothing_sent(bool onLoop) => Run(rig =>
    {
        (ConnectionStream stream, Peer peer) = Accept(rig, Narrow(rig));
        Session session = SessionOf(rig, stream);
        byte[] first = Clog(rig, session);
        byte[] fill = FillTo(rig, session, room: 10);
        using CancellationTokenSource source = new();
        Task<bool> writing = Start(rig, stream, onLoop, () => Write(stream, new string('a', 5_000), source.Token));
        rig.Settle();
        Assert.False(writing.IsCompleted);
        source.Cancel();
        Assert.ThrowsAny<OperationCanceledException>(() => Await(rig, writing));
        Task<bool> next = Start(rig, stream, onLoop, () => Write(stream, "next"));
        Assert.Equal([.. first, .. fill], peer.Read(first.Length + fill.Length));
        Assert.True(Await(rig, next));
        Assert.Equal("next", peer.ReadText(4));
    });

    [Fact, Contract(6)]
    public void A_write_cancelled_after_its_first_piece_aborts_the_connection() => Run(rig =>
    {
        (ConnectionStream stream, Peer peer) = Accept(rig, Narrow(rig));
        using CancellationTokenSource source = new();
        Task<bool> writing = Start(rig, stream, onLoop: true, async () =>
        {
            await stream.WriteAsync(Pattern(10 * 1024 * 1024), source.Token).ConfigureAwait(false);
            return true;
        });
        peer.Read(10_000);
        Assert.False(writing.IsCompleted);
        source.Cancel();
        Assert.ThrowsAny<OperationCanceledException>(() => Await(rig, writing));
        rig.Until(() => stream.CloseReason.Cause == CloseCause.Cancelled, "the connection to end");
    });

    // ------------------------------------------------------------------ blocking calls

    [Fact]
    public void Blocking_reads_and_writes_work_off_the_loops() => Run(rig =>
    {
        (ConnectionStream here, ConnectionStream there) = Pair(rig);
        byte[] data = Pattern(200_000);
        byte[] got = new byte[data.Length];
        int last = 0;
        int end = 0;
        Task<bool> echo = Start(rig, here, onLoop: true, async () =>
        {
            await here.CopyToAsync(here).ConfigureAwait(false);
            here.ShutdownSend();
            return true;
        });
        rig.Elsewhere(() =>
        {
            there.Write(data);
            there.WriteByte(7);
            there.Flush();
            there.ShutdownSend();
            there.ReadExactly(got, 0, 100_000);
            there.ReadExactly(got.AsSpan(100_000));
            last = there.ReadByte();
            end = there.ReadByte();
        });
        rig.Join();
        Assert.Equal(data, got);
        Assert.Equal(7, last);
        Assert.Equal(-1, end);
        Assert.True(Await(rig, echo));
    });

    [Fact]
    public void A_blocking_read_times_out_and_the_stream_continues() => Run(rig =>
    {
        (ConnectionStream stream, Peer peer) = Accept(rig);
        stream.ReadTimeout = 30;
        long before = rig.Engine.NowMs;
        NetworkException? thrown = null;
        rig.Elsewhere(() => thrown = Assert.Throws<NetworkException>(() => stream.Read(new byte[10])));
        rig.Join();
        Assert.Equal(ErrorCategory.Timeout, thrown!.Error.Category);
        Assert.True(rig.Engine.NowMs - before >= 30, "it was early");
        peer.Write("x");
        int got = 0;
        stream.ReadTimeout = Timeout.Infinite;
        rig.Elsewhere(() => got = stream.Read(new byte[10]));
        rig.Join();
        Assert.Equal(1, got);
    });

    [Fact, Contract(6)]
    public void A_blocking_write_times_out_and_leaves_nothing_sent() => Run(rig =>
    {
        (ConnectionStream stream, Peer peer) = Accept(rig, Narrow(rig));
        Session session = SessionOf(rig, stream);
        byte[] first = Clog(rig, session);
        byte[] fill = FillTo(rig, session, room: 10);
        stream.WriteTimeout = 30;
        NetworkException? thrown = null;
        rig.Elsewhere(() => thrown = Assert.Throws<NetworkException>(() => stream.Write(Filled('a', 5_000))));
        rig.Join();
        Assert.Equal(ErrorCategory.Timeout, thrown!.Error.Category);
        stream.WriteTimeout = Timeout.Infinite;
        if (!rig.IsVirtual) rig.Elsewhere(() => stream.Write(Bytes("next")));
        Assert.Equal([.. first, .. fill], peer.Read(first.Length + fill.Length));
        if (rig.IsVirtual) rig.Elsewhere(() => stream.Write(Bytes("next")));
        Assert.Equal("next", peer.ReadText(4));
    });

    [Theory, Contract(6, 14)]
    [InlineData("read", false, false)]
    [InlineData("read", false, true)]
    [InlineData("read", true, false)]
    [InlineData("write", false, false)]
    public void A_limit_holds_while_a_callback_blocks_the_loop(string what, bool waitsBefore, bool nextIsOnLoop) => Run(
        rig =>
        {
            if (rig.IsVirtual) return; // one thread runs everything there, so blocking is impossible
            (ConnectionStream stream, Peer peer) = Accept(rig, Narrow(rig));
            byte[] before = what == "write" ? Clog(rig, SessionOf(rig, stream)) : [];
            if (what == "write") before = [.. before, .. FillTo(rig, SessionOf(rig, stream), room: 10)];
            stream.ReadTimeout = stream.WriteTimeout = 200;
            using ManualResetEventSlim release = new();
            using ManualResetEventSlim isBlocked = new();
            int isOver = 0;
            byte[] got = new byte[4];
            Task<int>? next = null;
            if (!waitsBefore) Block();
            NetworkException? thrown = null;
            bool wasInTime = false;
            rig.Elsewhere(() =>
            {
                thrown = Assert.Throws<NetworkException>(() =>
                {
                    if (what == "read") stream.ReadExactly(new byte[10]);
                    else stream.Write(Filled('a', 5_000));
                });
                wasInTime = Volatile.Read(ref isOver) == 0;
            });
            if (waitsBefore) Block();
            if (what == "read" && !nextIsOnLoop) peer.Write("late");
            rig.Join();
            release.Set();
            Assert.Equal(ErrorCategory.Timeout, thrown!.Error.Category);
            Assert.True(wasInTime, "it waited for the callback");
            stream.ReadTimeout = stream.WriteTimeout = Timeout.Infinite;
            // Nothing is lost, and nothing of the abandoned write is sent.
            if (nextIsOnLoop)
            {
                // After the loop has learned of the abandoned read.
                rig.OnLoop(stream.Loop, static () => { });
                peer.Write("late");
                rig.Until(() => Volatile.Read(ref next) is { IsCompleted: true },
                    "the read that began before the loop processed the previous one");
            }
            else if (what == "read") rig.Elsewhere(() => stream.ReadExactly(got));
            else rig.Elsewhere(() => stream.Write(Bytes("next")));
            if (what == "write") Assert.Equal([.. before, .. "next"u8], peer.Read(before.Length + 4));
            rig.Join();
            if (what == "read") Assert.Equal("late", Text(got));

            // A user's callback: blocks only until a broken build would be detected.
            void Block()
            {
                Assert.True(stream.Loop.Post(() =>
                {
                    isBlocked.Set();
                    release.Wait(TimeSpan.FromSeconds(15));
                    Volatile.Write(ref isOver, 1);
                    if (nextIsOnLoop) Volatile.Write(ref next, stream.ReadAsync(got).AsTask());
                }));
                isBlocked.Wait();
            }
        },
        loops: 1);

    [Fact]
    public void Blocking_calls_on_a_loop_throw_and_say_what_to_do() => Run(rig =>
    {
        (ConnectionStream stream, Peer peer) = Accept(rig);
        peer.Write("x");
        rig.Until(() => stream.BytesReceived == 1, "the byte");
        rig.OnLoop(stream.Loop, () =>
        {
            Assert.Contains("ReadAsync",
                Assert.Throws<InvalidOperationException>(() => stream.Read(new byte[1])).Message,
                StringComparison.Ordinal);
            Assert.Throws<InvalidOperationException>(() => stream.Read(new byte[1], 0, 1));
            Assert.Contains("WriteAsync",
                Assert.Throws<InvalidOperationException>(() => stream.Write(new byte[1])).Message,
                StringComparison.Ordinal);
            stream.Flush();
        });
        Assert.Equal(Bytes("x"), Await(rig, Start(rig, stream, onLoop: true, () => ReadExactly(stream, 1, 1))));
    });

    // ------------------------------------------------------------------ what else a stream is

    [Fact]
    public void A_stream_exposes_its_connection_and_reports_unsupported_operations() => Run(rig =>
    {
        (ConnectionStream here, ConnectionStream there) = Pair(rig);
        Assert.True(here.CanRead && here.CanWrite && here.CanTimeout && !here.CanSeek);
        Assert.NotNull(here.Server);
        Assert.Null(there.Server);
        Assert.NotEqual(here.Id, there.Id);
        if (!rig.IsUnix) Assert.Equal(here.RemoteEndPoint, there.LocalEndPoint);
        Assert.NotNull(there.RemoteEndPoint);
        here.Tag = "mine";
        Assert.Equal("mine", here.Tag);
        Assert.True(here.IsConnected);
        Assert.Equal(0, here.BytesPending);
        Assert.Throws<NotSupportedException>(() => here.Length);
        Assert.Throws<NotSupportedException>(() => here.Position);
        Assert.Throws<NotSupportedException>(() => here.Position = 1);
        Assert.Throws<NotSupportedException>(() => here.Seek(0, SeekOrigin.Begin));
        Assert.Throws<NotSupportedException>(() => here.SetLength(1));
        Assert.Throws<ArgumentOutOfRangeException>(() => here.ReadTimeout = 0);
        Assert.Throws<ArgumentOutOfRangeException>(() => here.WriteTimeout = -2);
        Assert.Throws<ArgumentOutOfRangeException>(() => here.Read(new byte[1], 1, 1));
        here.Abort();
        rig.Await(there.DisposeAsync());
    });

    [Fact]
    public void Readers_and_writers_of_text_work_on_it() => Run(rig =>
    {
        (ConnectionStream here, ConnectionStream there) = Pair(rig);
        Task<bool> server = Start(rig, here, onLoop: true, async () =>
        {
            using StreamReader reader = new(here, Encoding.UTF8, leaveOpen: true);
            await using StreamWriter writer = new(here, new UTF8Encoding(false), leaveOpen: true);
            while (await reader.ReadLineAsync().ConfigureAwait(false) is { } line)
                await writer.WriteLineAsync($"{line}, sagte er").ConfigureAwait(false);
            await writer.FlushAsync().ConfigureAwait(false);
            here.ShutdownSend();
            return true;
        });
        Task<string> client = Start(rig, there, onLoop: true, async () =>
        {
            await using StreamWriter writer = new(there, new UTF8Encoding(false), leaveOpen: true);
            for (int i = 0; i < 1_000; i++) await writer.WriteAsync($"Grüße {i} 🐦\n").ConfigureAwait(false);
            await writer.FlushAsync().ConfigureAwait(false);
            there.ShutdownSend();
            using StreamReader reader = new(there, Encoding.UTF8, leaveOpen: true);
            return await reader.ReadToEndAsync().ConfigureAwait(false);
        });
        string expected = string.Concat(Enumerable.Range(0, 1_000).Select(static i => $"Grüße {i} 🐦, sagte er\n"));
        Assert.Equal(expected, Await(rig, client).ReplaceLineEndings("\n"));
        Assert.True(Await(rig, server));
    });

    [Fact]
    public void CopyToAsync_of_a_stream_to_itself_is_an_echo() => Run(rig =>
    {
        (ConnectionStream stream, Peer peer) = Accept(rig);
        Task<bool> copy = Start(rig, stream, onLoop: true, async () =>
        {
            await stream.CopyToAsync(stream).ConfigureAwait(false);
            stream.ShutdownSend();
            return true;
        });
        byte[] data = Pattern(rig.IsVirtual ? 100_000 : 400_000);
        for (int at = 0; at < data.Length; at += 20_000)
        {
            peer.Write(data.AsSpan(at, 20_000).ToArray());
            Assert.Equal(data.AsSpan(at, 20_000).ToArray(), peer.Read(20_000));
        }

        peer.ShutdownSend();
        Assert.Empty(peer.ReadToEnd());
        Assert.True(Await(rig, copy));
    });

    [Fact]
    public void The_older_forms_of_reading_and_writing_do_the_same() => Run(rig =>
    {
        (ConnectionStream stream, Peer peer) = Accept(rig);
        byte[] memory = new byte[10];
        Task<int> reading = Task.Factory.FromAsync(stream.BeginRead, stream.EndRead, memory, 2, 5, null);
        peer.Write("abcdefgh");
        int count = Await(rig, reading);
        Assert.InRange(count, 1, 5);
        Assert.Equal(Bytes("abcdefgh")[..count], memory[2..(2 + count)]);
        Task writing = Task.Factory.FromAsync(stream.BeginWrite, stream.EndWrite, Bytes("xyz"), 1, 2, null);
        rig.Until(() => writing.IsCompleted, "the write");
        Assert.Equal("yz", peer.ReadText(2));
    });

    // ------------------------------------------------------------------ what the tests stand on

    /// <summary>A stream of a server and its raw peer. The handler leaves it to the test, until the server
    /// stops.</summary>
    private static (ConnectionStream Stream, Peer Peer) Accept(Rig rig, ServerOptions? options = null)
    {
        (Server server, Func<ConnectionStream> stream) = Serve(rig, options);
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        return (stream(), peer);
    }

    /// <summary>Two streams, of a server and of a client.</summary>
    private static (ConnectionStream Here, ConnectionStream There) Pair(Rig rig)
    {
        (Server server, Func<ConnectionStream> stream) = Serve(rig, null);
        ConnectionStream there = rig.Await(ConnectionStream.ConnectAsync(
            rig.Scheduled(new ClientOptions { Engine = rig.Engine, EndPoint = server.EndPoint })));
        return (stream(), there);
    }

    private static (Server Server, Func<ConnectionStream> Stream) Serve(Rig rig, ServerOptions? options)
    {
        ConnectionStream? made = null;
        TaskCompletionSource stops = new();
        Server server = rig.Keep(new ToldServer(stops,
            rig.Scheduled(options ?? new ServerOptions { Engine = rig.Engine, EndPoint = rig.NewAddress() }),
            ConnectionStream.Serve(UntilStop)));
        rig.Await(server.StartAsync());
        return (server, () =>
        {
            rig.Until(() => Volatile.Read(ref made) is not null, "the handler to start");
            return made!;
        }
        );

        Task UntilStop(ConnectionStream stream, CancellationToken stop)
        {
            Volatile.Write(ref made, stream);
            return stops.Task;
        }
    }

    private sealed class ToldServer(TaskCompletionSource stops, ServerOptions options,
        Func<SessionContext, Session> factory) : Server(options, factory)
    {
        protected override void OnStopping() => stops.TrySetResult();
    }

    private static Session SessionOf(Rig rig, ConnectionStream stream)
    {
        // The handler starts inside OnConnected, a moment before the server counts the session.
        Session? session = null;
        rig.Until(() => (session = stream.Server!.FindSession(stream.Id)) is not null,
            "the server to know the session");
        return session!;
    }

    private static Task<T> Start<T>(Rig rig, ConnectionStream stream, bool onLoop, Func<ValueTask<T>> method) =>
        Start(rig, stream.Loop, onLoop, method);

    private static void At(Rig rig, ConnectionStream stream, bool onLoop, Action action) =>
        At(rig, stream.Loop, onLoop, action);

    private static async ValueTask<byte[]> ReadExactly(ConnectionStream stream, int length, params int[] pieces)
    {
        byte[] data = new byte[length];
        for (int done = 0, round = 0; done < length; round++)
        {
            int count = await stream.ReadAsync(data.AsMemory(done,
                Math.Min(pieces[round % pieces.Length], length - done))).ConfigureAwait(false);
            Assert.True(count > 0, $"the end came after {done} of {length} bytes");
            done += count;
        }

        return data;
    }

    private static async ValueTask<bool> Write(ConnectionStream stream, string text,
        CancellationToken cancellation = default)
    {
        await stream.WriteAsync(Bytes(text), cancellation).ConfigureAwait(false);
        return true;
    }

    /// <summary>Writes this many bytes, with values that depend on their offset, in pieces of various lengths, and
    /// shuts down sending.</summary>
    private static async ValueTask<bool> Push(ConnectionStream stream, int length, int seed)
    {
        byte[] table = Pattern(262_139, seed);
        for (int done = 0, step = 1; done < length; step = (step * 7 % 200_003) + 1)
        {
            int at = done % table.Length;
            int count = Math.Min(Math.Min(step, length - done), table.Length - at);
            await stream.WriteAsync(table.AsMemory(at, count)).ConfigureAwait(false);
            done += count;
        }

        stream.ShutdownSend();
        return true;
    }

    private static async ValueTask<bool> Check(ConnectionStream stream, int length, int seed)
    {
        byte[] table = Pattern(262_139, seed);
        byte[] memory = new byte[100_000];
        int done = 0;
        for (int step = 1; ; step = (step * 5 % memory.Length) + 1)
        {
            int count = await stream.ReadAsync(memory.AsMemory(0, step)).ConfigureAwait(false);
            if (count == 0) break;
            for (int checkedBytes = 0; checkedBytes < count;)
            {
                int at = (done + checkedBytes) % table.Length;
                int part = Math.Min(count - checkedBytes, table.Length - at);
                Assert.True(memory.AsSpan(checkedBytes, part).SequenceEqual(table.AsSpan(at, part)),
                    $"a byte is wrong after {done + checkedBytes}");
                checkedBytes += part;
            }

            done += count;
        }

        Assert.Equal(length, done);
        return true;
    }
}
