using System.Buffers;
using System.IO.Pipelines;
using System.Text;

namespace Whimbrel.Conformance;

/// <summary>A connection as a pair of pipes: the guarantees at the head of <see cref="ConnectionPipe"/>, on its loop
/// and from other threads.</summary>
public abstract class ConnectionPipeSuite(Transport transport) : TrafficSuite(transport)
{
    // ------------------------------------------------------------------ bytes both ways

    [Theory, Contract(3, 6)]
    [InlineData(true)]
    [InlineData(false)]
    public void Two_pipes_that_push_at_each_other_lose_nothing(bool onLoop) => Run(rig =>
    {
        int length = rig.IsVirtual ? 300_000 : Depth.IsDeep ? 1 << 30 : 4 * 1024 * 1024;
        using End here = Accept(rig,
            new ServerOptions
            {
                Engine = rig.Engine,
                EndPoint = rig.NewAddress(),
                Limits = new() { SendBytes = 100_000 }
            },
            connects: true);
        ConnectionPipe there = here.Peer!;
        Task<bool>[] all =
        [
            Start(rig, here.Pipe, onLoop, () => Push(here.Pipe, length, 1)),
            Start(rig, there, onLoop, () => Push(there, length, 2)),
            Start(rig, here.Pipe, onLoop, () => Check(here.Pipe, length, 2)),
            Start(rig, there, onLoop, () => Check(there, length, 1)),
        ];
        foreach (Task<bool> task in all) Assert.True(Await(rig, task));
        Assert.Equal(length, here.Pipe.BytesReceived);
        Assert.Equal(length, there.BytesReceived);
    });

    // Large amounts are received into memory that a reader gets: it must not be reused while the reader examines it.
    [Theory, Contract(3, 6)]
    [InlineData(true)]
    [InlineData(false)]
    public void Pipes_in_bulk_keep_their_bytes_apart_while_others_are_cut(bool onLoop) => Run(rig =>
    {
        int length = rig.IsVirtual ? 300_000 : 2 * 1024 * 1024;
        End[] all = [.. Enumerable.Range(0, 5).Select(_ => Accept(rig, connects: true))];
        Task<bool>[] checks = [.. all.Select((end, i) => Start(rig, end.Pipe, onLoop,
            () => i == 4 ? Leave(end.Pipe, length / 2) : Check(end.Pipe, length, i)))];
        Task<bool>[] pushes = [.. all.Select((end, i) => Start(rig, end.Peer!, onLoop,
            () => Push(end.Peer!, length, i)))];
        for (int i = 0; i < 4; i++)
        {
            Assert.True(Await(rig, pushes[i]));
            Assert.True(Await(rig, checks[i]));
        }

        Assert.True(Await(rig, checks[4]));
        foreach (End end in all) end.Dispose();
        rig.Until(() => pushes[4].IsCompleted, "the writer of the disconnected peer to end");
        _ = pushes[4].Exception; // it may have sent everything before

        // Examines half of it, and aborts with an unprocessed result.
        static async ValueTask<bool> Leave(ConnectionPipe pipe, int length)
        {
            while (pipe.BytesReceived < length)
            {
                ReadResult result = await pipe.Input.ReadAsync().ConfigureAwait(false);
                pipe.Input.AdvanceTo(result.Buffer.GetPosition(result.Buffer.Length / 3), result.Buffer.End);
            }

            pipe.Abort();
            return true;
        }
    });

    [Theory, Contract(3)]
    [InlineData(true)]
    [InlineData(false)]
    public void Examined_and_not_consumed_data_is_returned_with_more_after_it(bool onLoop) => Run(rig =>
    {
        using End end = Accept(rig);
        Task<string> reader = Start(rig, end.Pipe, onLoop, async () =>
        {
            StringBuilder seen = new();
            while (true)
            {
                ReadResult result = await end.Pipe.Input.ReadAsync().ConfigureAwait(false);
                string text = Encoding.ASCII.GetString(result.Buffer);
                if (text.Contains('\n', StringComparison.Ordinal)) return text;
                Assert.True(text.Length > seen.Length, "a read came back without news");
                Assert.StartsWith(seen.ToString(), text, StringComparison.Ordinal);
                seen.Clear().Append(text);
                end.Pipe.Input.AdvanceTo(result.Buffer.Start, result.Buffer.End);
            }
        });
        foreach (string piece in (string[])["a", "bc", "def", "\n"])
        {
            rig.Settle();
            end.Raw.Write(piece);
        }

        Assert.Equal("abcdef\n", Await(rig, reader));
    });

    [Fact, Contract(3, 10)]
    public void A_reader_that_examines_nothing_makes_the_peer_wait_and_loses_nothing() => Run(rig =>
    {
        using End end = Accept(rig, pipe: new ConnectionPipeOptions { HoldBytes = 20_000 });
        byte[] piece = Pattern(256 * 1024);
        int written = end.Raw.WriteUntilFull(piece);
        rig.Settle();
        Assert.InRange(end.Pipe.BytesReceived, 1, 20_000 + (320 * 1024));
        byte[] expected = new byte[written];
        for (int i = 0; i < written; i++) expected[i] = piece[i % piece.Length];
        Assert.Equal(expected, Await(rig, Start(rig, end.Pipe, onLoop: true, () => ReadExactly(end.Pipe, written))));
    });

    [Fact]
    public void A_reader_that_requests_more_than_the_buffer_limit_gets_it() => Run(rig =>
    {
        using End end = Accept(rig, pipe: new ConnectionPipeOptions { HoldBytes = 4096 });
        byte[] data = Pattern(200_000);
        Task<byte[]> reader = Start(rig, end.Pipe, onLoop: false, async () =>
        {
            ReadResult all = await end.Pipe.Input.ReadAtLeastAsync(data.Length).ConfigureAwait(false);
            byte[] got = all.Buffer.ToArray();
            end.Pipe.Input.AdvanceTo(all.Buffer.End);
            return got;
        });
        end.Raw.Write(data);
        Assert.Equal(data, Await(rig, reader));
    });

    [Theory, Contract(6, 7)]
    [InlineData(true)]
    [InlineData(false)]
    public void Written_data_is_sent_at_the_flush_in_order(bool onLoop) => Run(rig =>
    {
        using End end = Accept(rig);
        byte[] data = Pattern(90_000);
        Task<bool> writer = Start(rig, end.Pipe, onLoop, async () =>
        {
            PipeWriter output = end.Pipe.Output;
            for (int done = 0, step = 1; done < 50_000; step = (step * 7 % 5_003) + 1)
            {
                int count = Math.Min(step, 50_000 - done);
                data.AsSpan(done, count).CopyTo(output.GetSpan(count));
                output.Advance(count);
                done += count;
            }

            Assert.Equal(50_000, output.UnflushedBytes);
            Assert.Equal(0, end.Pipe.BytesPending);
            Assert.False((await output.FlushAsync().ConfigureAwait(false)).IsCompleted);
            Assert.Equal(0, output.UnflushedBytes);
            await output.WriteAsync(data.AsMemory(50_000)).ConfigureAwait(false);
            return true;
        });
        Assert.Equal(data, end.Raw.Read(data.Length));
        Assert.True(Await(rig, writer));
    });

    // ------------------------------------------------------------------ cancelling

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void A_cancelled_read_leaves_the_pipe_usable(bool onLoop) => Run(rig =>
    {
        using End end = Accept(rig);
        using CancellationTokenSource source = new();
        Task<ReadResult> waiting = Start(rig, end.Pipe, onLoop, () => end.Pipe.Input.ReadAsync(source.Token));
        rig.Settle();
        source.Cancel();
        Assert.ThrowsAny<OperationCanceledException>(() => Await(rig, waiting));

        waiting = Start(rig, end.Pipe, onLoop, () => end.Pipe.Input.ReadAsync());
        rig.Settle();
        end.Pipe.Input.CancelPendingRead();
        Assert.True(Await(rig, waiting).IsCanceled);

        // Without a pending read it applies to the next one, even if data is available, and consumes none.
        end.Raw.Write("hello");
        rig.Until(() => end.Pipe.BytesReceived == 5, "the bytes");
        end.Pipe.Input.CancelPendingRead();
        ReadResult cancelled = Await(rig, Start(rig, end.Pipe, onLoop, () => end.Pipe.Input.ReadAsync()));
        Assert.True(cancelled.IsCanceled);
        Assert.Equal(Bytes("hello"), Await(rig, Start(rig, end.Pipe, onLoop, () => ReadExactly(end.Pipe, 5))));
    });

    [Fact]
    public void Reads_cancelled_at_any_moment_lose_no_byte() => Run(rig =>
    {
        using End end = Accept(rig);
        using Stream stream = end.Pipe.Input.AsStream(leaveOpen: true);
        ReadThroughCancels(rig, end.Raw, stream, 300, method => Start(rig, end.Pipe, onLoop: false, method));
    });

    [Theory, Contract(6)]
    [InlineData(true)]
    [InlineData(false)]
    public void A_cancelled_flush_stops_waiting_and_its_bytes_are_still_sent(bool byToken) => Run(rig =>
    {
        using End end = Accept(rig, Narrow(rig), receiveBufferBytes: SmallBuffer);
        byte[] data = Pattern(1_000_000);
        using CancellationTokenSource source = new();
        Task<FlushResult> flush = Start(rig, end.Pipe, onLoop: false,
            () => end.Pipe.Output.WriteAsync(data, source.Token));
        rig.Settle();
        Assert.False(flush.IsCompleted);
        if (byToken)
        {
            source.Cancel();
            Assert.ThrowsAny<OperationCanceledException>(() => Await(rig, flush));
        }
        else
        {
            end.Pipe.Output.CancelPendingFlush();
            Assert.True(Await(rig, flush).IsCanceled);
        }

        // More than the kernel buffers for a peer that has started to read.
        byte[] more = Pattern(data.Length, 9);
        Task<FlushResult> next = Start(rig, end.Pipe, onLoop: true, () => end.Pipe.Output.WriteAsync(more));
        rig.Settle();
        Assert.False(next.IsCompleted); // after pending data
        Assert.Equal(data, end.Raw.Read(data.Length));
        rig.Settle();
        Assert.False(next.IsCompleted, "it ended with the flush that was cancelled");
        Assert.Equal(more, end.Raw.Read(more.Length));
        FlushResult result = Await(rig, next);
        Assert.False(result.IsCanceled || result.IsCompleted);
    });

    // ------------------------------------------------------------------ ends

    [Theory, Contract(11, 12)]
    [InlineData(true)]
    [InlineData(false)]
    public void A_completed_writer_sends_the_rest_and_FIN_and_the_reader_continues(bool onLoop) => Run(rig =>
    {
        using End end = Accept(rig);
        At(rig, end.Pipe, onLoop, () =>
        {
            end.Pipe.Output.Write("last"u8);
            end.Pipe.Output.Complete();
            end.Pipe.Output.Complete();
        });
        Assert.Equal("last", end.Raw.ReadTextToEnd());
        end.Raw.Write("late");
        Assert.Equal(Bytes("late"), Await(rig, Start(rig, end.Pipe, onLoop, () => ReadExactly(end.Pipe, 4))));
        Task<ReadResult> atEnd = Start(rig, end.Pipe, onLoop, () => end.Pipe.Input.ReadAsync());
        CancellationToken ended = end.Pipe.InputEnded;
        Assert.False(ended.IsCancellationRequested);
        end.Raw.ShutdownSend();
        ReadResult last = Await(rig, atEnd);
        Assert.True(last is { IsCompleted: true, Buffer.IsEmpty: true });
        rig.Until(() => ended.IsCancellationRequested && end.Pipe.InputEnded.IsCancellationRequested,
            "the token of the end");
        At(rig, end.Pipe, onLoop, () => end.Pipe.Input.Complete());
        rig.Until(() => end.Pipe.CloseReason.Cause is CloseCause.LocalClose or CloseCause.PeerClosed,
            "the connection to end");
    });

    [Fact, Contract(11)]
    public void After_the_peers_finish_remaining_data_is_read_and_writing_continues() => Run(rig =>
    {
        using End end = Accept(rig);
        end.Raw.Write("all");
        end.Raw.ShutdownSend();
        rig.Until(() => end.Pipe.InputEnded.IsCancellationRequested, "the finish");
        ReadResult result = Await(rig, Start(rig, end.Pipe, onLoop: true, () => end.Pipe.Input.ReadAsync()));
        Assert.Equal((true, "all"), (result.IsCompleted, Encoding.ASCII.GetString(result.Buffer)));
        Assert.False(Await(rig, Start(rig, end.Pipe, onLoop: false, () => end.Pipe.Output.WriteAsync(Bytes("answer"))))
            .IsCompleted);
        Assert.Equal("answer", end.Raw.ReadText(6));
        end.Pipe.Dispose();
        Assert.Empty(end.Raw.ReadToEnd());
    });

    [Fact]
    public void A_completed_reader_discards_received_data_and_the_writer_continues() => Run(rig =>
    {
        using End end = Accept(rig, pipe: new ConnectionPipeOptions { HoldBytes = 4096 });
        byte[] data = Pattern(1_000_000);
        int written = end.Raw.WriteUntilFull(data, data.Length);
        At(rig, end.Pipe, onLoop: false, () => end.Pipe.Input.Complete());
        if (written < data.Length) end.Raw.Write(data[written..]);
        rig.Until(() => end.Pipe.BytesReceived == data.Length, "the peer to get rid of all");
        Assert.False(Await(rig, Start(rig, end.Pipe, onLoop: false, () => end.Pipe.Output.WriteAsync(Bytes("still"))))
            .IsCompleted);
        Assert.Equal("still", end.Raw.ReadText(5));
    });

    [Theory, Contract(12)]
    [InlineData(true)]
    [InlineData(false)]
    public void Completing_with_an_exception_aborts_and_the_reason_has_it(bool input) => Run(rig =>
    {
        using End end = Accept(rig);
        InvalidOperationException why = new("on purpose");
        At(rig, end.Pipe, onLoop: false, () =>
        {
            end.Pipe.Output.Write("dropped"u8);
            if (input) end.Pipe.Input.Complete(why);
            else end.Pipe.Output.Complete(why);
        });
        rig.Until(() => end.Pipe.CloseReason.Cause == CloseCause.LocalAbort, "the abort");
        Assert.Same(why, end.Pipe.CloseReason.Exception);
        if (rig.HasResets) Assert.True(end.Raw.EndsInReset());
    });

    [Theory, Contract(1)]
    [InlineData(true)]
    [InlineData(false)]
    public void After_a_reset_reads_return_buffered_data_then_throw_and_flushes_complete(bool onLoop) => Run(rig =>
    {
        if (!rig.HasResets) return;
        using End end = Accept(rig, Narrow(rig), new ConnectionPipeOptions
        {
            ReadFailure = static reason => new EndOfStreamException($"it was {reason.Cause}")
        });
        Task<FlushResult> flush = Start(rig, end.Pipe, onLoop,
            () => end.Pipe.Output.WriteAsync(Pattern(rig.IsVirtual ? 1_000_000 : 2_000_000)));
        end.Raw.Write("before");
        rig.Until(() => end.Pipe.BytesReceived == 6, "the bytes");
        end.Raw.Reset();
        Assert.True(Await(rig, flush).IsCompleted);
        Assert.Equal(Bytes("before"), Await(rig, Start(rig, end.Pipe, onLoop, () => ReadExactly(end.Pipe, 6))));
        for (int i = 0; i < 2; i++)
        {
            EndOfStreamException e = Assert.Throws<EndOfStreamException>(
                () => Await(rig, Start(rig, end.Pipe, onLoop, () => end.Pipe.Input.ReadAsync())));
            // The kernel reports a reset once: if .NET's Socket reported it to the pending send, the concurrent receive
            // sees an end of stream without close_notify.
            string[] causes = rig.Tls != TlsKind.None && rig.Engine.Kind == EngineKind.Portable
                ? ["it was PeerReset", "it was TlsTruncated"]
                : ["it was PeerReset"];
            Assert.Contains(e.Message, causes);
            Assert.True(
                Await(rig, Start(rig, end.Pipe, onLoop, () => end.Pipe.Output.WriteAsync(Bytes("x")))).IsCompleted);
        }
    });

    [Fact, Contract(12)]
    public void At_the_stop_of_the_server_the_handler_may_write_a_last_message_which_is_sent() => Run(rig =>
    {
        Server server =
            rig.Keep(new Server(rig.Scheduled(new ServerOptions { Engine = rig.Engine, EndPoint = rig.NewAddress() }),
                ConnectionPipe.Serve(async (pipe, stop) =>
                {
                    try
                    {
                        while (true)
                        {
                            ReadResult result = await pipe.Input.ReadAsync(stop).ConfigureAwait(false);
                            pipe.Input.AdvanceTo(result.Buffer.End);
                        }
                    }
                    catch (OperationCanceledException)
                    {
                        pipe.Output.Write("goodbye"u8);
                    }
                })));
        rig.Await(server.StartAsync());
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("hello");
        rig.Until(() => server.SessionCount == 1 && server.BytesReceived == 5, "the session");
        ValueTask<StopReport> stopping = server.StopAsync(TimeSpan.FromSeconds(15));
        Assert.Equal("goodbye", peer.ReadTextToEnd());
        peer.Close();
        Assert.Equal(new StopReport(1, 0), rig.Await(stopping));
    });

    // ------------------------------------------------------------------ schedulers, and misuse

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void A_pending_operation_resumes_on_the_configured_scheduler(bool inline) => Run(rig =>
    {
        PipeScheduler scheduler = inline ? PipeScheduler.Inline : PipeScheduler.ThreadPool;
        using End end = Accept(rig, pipe: new ConnectionPipeOptions { Scheduler = scheduler });
        // Started on the other thread.
        Task<bool> onLoop = Start(rig, end.Pipe, onLoop: !inline, async () =>
        {
            ReadResult result = await end.Pipe.Input.ReadAsync().ConfigureAwait(false);
            end.Pipe.Input.AdvanceTo(result.Buffer.End);
            return Loop.Current == end.Pipe.Loop;
        });
        rig.Settle();
        end.Raw.Write("x");
        Assert.Equal(inline, Await(rig, onLoop));
    });

    [Fact]
    public void Mistakes_throw_and_the_pipe_continues() => Run(rig =>
    {
        using End end = Accept(rig);
        PipeReader input = end.Pipe.Input;
        Assert.Throws<InvalidOperationException>(() => input.AdvanceTo(default));
        // At least three: the network may deliver them in pieces, and a late piece would be left for TryRead.
        Task<ReadResult> waiting = Start(rig, end.Pipe, onLoop: false, () => input.ReadAtLeastAsync(3));
        Assert.Throws<InvalidOperationException>(() => _ = input.ReadAsync());
        end.Raw.Write("abc");
        ReadResult result = Await(rig, waiting);
        Assert.Throws<InvalidOperationException>(() => input.TryRead(out _));
        Assert.Throws<ArgumentOutOfRangeException>(() => input.AdvanceTo(result.Buffer.End, result.Buffer.Start));
        input.AdvanceTo(result.Buffer.GetPosition(1), result.Buffer.End);
        Assert.False(input.TryRead(out _));
        Assert.Throws<ArgumentOutOfRangeException>(() => end.Pipe.Output.Advance(1));
        Assert.Throws<ArgumentOutOfRangeException>(() => end.Pipe.Output.GetMemory(-1));
        end.Raw.Write("d");
        Assert.Equal(Bytes("bcd"), Await(rig, Start(rig, end.Pipe, onLoop: false, () => ReadExactly(end.Pipe, 3))));
        input.Complete();
        end.Pipe.Output.Complete();
        Assert.Throws<InvalidOperationException>(() => input.TryRead(out _));
        Assert.Throws<InvalidOperationException>(() => end.Pipe.Output.GetSpan());
        Assert.Throws<ArgumentException>(() => ConnectionPipe.Serve((_, _) => Task.CompletedTask,
            new ConnectionPipeOptions { HoldBytes = 1 }));
    });

    // ------------------------------------------------------------------ what the tests stand on

    /// <summary>A pipe of a server, and the other end: a raw peer, or a pipe of a client. The handler leaves it to the
    /// test.</summary>
    private sealed class End(ConnectionPipe pipe, Peer? raw, ConnectionPipe? peer, TaskCompletionSource over)
        : IDisposable
    {
        public ConnectionPipe Pipe => pipe;

        public Peer Raw => raw!;

        public ConnectionPipe? Peer => peer;

        public void Dispose()
        {
            peer?.Abort();
            over.TrySetResult();
        }
    }

    private static End Accept(Rig rig, ServerOptions? options = null, ConnectionPipeOptions? pipe = null,
        bool connects = false, int receiveBufferBytes = 0)
    {
        ConnectionPipe? made = null;
        TaskCompletionSource over = new();
        Server server = rig.Keep(
            new Server(rig.Scheduled(options ?? new ServerOptions { Engine = rig.Engine, EndPoint = rig.NewAddress() }),
                ConnectionPipe.Serve(UntilOver, pipe)));
        rig.Await(server.StartAsync());
        Peer? raw = connects ? null : rig.ConnectPeer(server.EndPoint!, receiveBufferBytes);
        ConnectionPipe? peer = connects ? rig.Await(ConnectionPipe.ConnectAsync(
            rig.Scheduled(new ClientOptions { Engine = rig.Engine, EndPoint = server.EndPoint }))) : null;
        rig.Until(() => Volatile.Read(ref made) is not null, "the handler to start");
        return new End(made!, raw, peer, over);

        Task UntilOver(ConnectionPipe accepted, CancellationToken stop)
        {
            Volatile.Write(ref made, accepted);
            return over.Task;
        }
    }

    private static Task<T> Start<T>(Rig rig, ConnectionPipe pipe, bool onLoop, Func<ValueTask<T>> method) =>
        Start(rig, pipe.Loop, onLoop, method);

    private static void At(Rig rig, ConnectionPipe pipe, bool onLoop, Action action) =>
        At(rig, pipe.Loop, onLoop, action);

    private static async ValueTask<byte[]> ReadExactly(ConnectionPipe pipe, int length)
    {
        byte[] data = new byte[length];
        int done = 0;
        while (done < length)
        {
            ReadResult result = await pipe.Input.ReadAsync().ConfigureAwait(false);
            Assert.False(result.Buffer.IsEmpty, $"the end came after {done} of {length} bytes");
            ReadOnlySequence<byte> part = result.Buffer.Slice(0, Math.Min(length - done, result.Buffer.Length));
            part.CopyTo(data.AsSpan(done));
            done += (int)part.Length;
            pipe.Input.AdvanceTo(part.End);
        }

        return data;
    }

    /// <summary>Writes this many bytes, with values that depend on their offset, in various ways and lengths, and
    /// completes.</summary>
    private static async ValueTask<bool> Push(ConnectionPipe pipe, int length, int seed)
    {
        byte[] table = Pattern(262_139, seed);
        for (int done = 0, step = 1, round = 0; done < length; step = (step * 7 % 200_003) + 1, round++)
        {
            int at = done % table.Length;
            int count = Math.Min(Math.Min(step, length - done), table.Length - at);
            if (round % 3 == 0)
            {
                await pipe.Output.WriteAsync(table.AsMemory(at, count)).ConfigureAwait(false);
            }
            else
            {
                pipe.Output.Write(table.AsSpan(at, count));
                if (round % 3 == 1) await pipe.Output.FlushAsync().ConfigureAwait(false);
            }

            done += count;
        }

        await pipe.Output.CompleteAsync().ConfigureAwait(false);
        return true;
    }

    /// <summary>Reads to the end; some reads leave bytes, examined or not.</summary>
    private static async ValueTask<bool> Check(ConnectionPipe pipe, int length, int seed)
    {
        byte[] table = Pattern(262_139, seed);
        long done = 0;
        for (int round = 0; ; round++)
        {
            ReadResult result = await pipe.Input.ReadAsync().ConfigureAwait(false);
            ReadOnlySequence<byte> part =
                result.IsCompleted || round % 3 != 0 ? result.Buffer : result.Buffer.Slice(0, result.Buffer.Length / 2);
            foreach (ReadOnlyMemory<byte> memory in part)
            {
                for (int i = 0; i < memory.Length;)
                {
                    int at = (int)(done % table.Length);
                    int count = Math.Min(memory.Length - i, table.Length - at);
                    Assert.True(memory.Span.Slice(i, count).SequenceEqual(table.AsSpan(at, count)),
                        $"a byte is wrong after {done}");
                    done += count;
                    i += count;
                }
            }

            pipe.Input.AdvanceTo(part.End, round % 2 == 0 ? part.End : result.Buffer.End);
            if (result.IsCompleted) break;
        }

        Assert.Equal(length, done);
        return true;
    }
}
