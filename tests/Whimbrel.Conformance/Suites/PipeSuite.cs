namespace Whimbrel.Conformance;

/// <summary>Pipes: received data of one session is sent on another, with end-to-end back-pressure, and ends are
/// forwarded.</summary>
public abstract class PipeSuite(Transport transport) : TrafficSuite(transport)
{
    /// <summary>Two sessions of one server, on any loops, and their peers.</summary>
    private sealed record Ends(RecordingSession A, Peer PeerA, RecordingSession B, Peer PeerB);

    private static Ends Two(Rig rig, Action<RecordingSession>? setUp = null, ServerOptions? options = null)
    {
        RecordingServer server = rig.Serve(setUp, options);
        Peer a = rig.ConnectPeer(server.EndPoint!);
        RecordingSession first = server.Connected();
        Peer b = rig.ConnectPeer(server.EndPoint!);
        return new Ends(first, a, server.Connected(1), b);
    }

    private static Task<PipeResult> Join(Rig rig, RecordingSession source, RecordingSession target,
        CancellationToken token = default)
    {
        Task<PipeResult>? pipe = null;
        rig.OnLoop(source, () => pipe = source.CallPipeTo(target, token).AsTask());
        return pipe!;
    }

    private static PipeResult Await(Rig rig, Task<PipeResult> pipe)
    {
        rig.Until(() => pipe.IsCompleted, "the pipe to end");
        return pipe.GetAwaiter().GetResult();
    }

    [Theory, Contract(22)]
    [InlineData(2)]
    [InlineData(1)]
    public void In_both_directions_at_once_every_byte_arrives_and_then_the_FIN(int loops) => Run(
        rig =>
        {
            int length = rig.IsVirtual ? 300_000 : Depth.IsDeep ? 64 * 1024 * 1024 : 4 * 1024 * 1024;
            Ends ends = Two(rig);
            Task<PipeResult> there = Join(rig, ends.A, ends.B);
            Task<PipeResult> back = Join(rig, ends.B, ends.A);
            byte[] toB = Pattern(length, 1);
            byte[] toA = Pattern(length + 12_345, 2);
            (int writtenA, int writtenB, int readA, int readB) = (0, 0, 0, 0);
            (bool endA, bool endB) = (false, false);
            byte[] buffer = new byte[256 * 1024];
            rig.Until(
                () =>
                {
                    Step(ends.PeerA, toB, ref writtenA, toA, ref readA, ref endA, buffer, buffer.Length);
                    // The slow peer: it reads a little at a time.
                    Step(ends.PeerB, toA, ref writtenB, toB, ref readB, ref endB, buffer, 50_000);
                    return endA && endB;
                },
                $"both ends, after {writtenA} and {writtenB} written, {readA} and {readB} read");
            Assert.Equal((toA.Length, toB.Length), (readA, readB));
            Assert.Equal(new PipeResult(toB.Length, PipeEnd.Finished, default), Await(rig, there));
            Assert.Equal(new PipeResult(toA.Length, PipeEnd.Finished, default), Await(rig, back));
            // Each has received a FIN and sent one.
            Assert.Contains(ends.A.End(), (CloseCause[])[CloseCause.PeerClosed, CloseCause.LocalClose]);
            Assert.Contains(ends.B.End(), (CloseCause[])[CloseCause.PeerClosed, CloseCause.LocalClose]);
            Assert.False(ends.A.Saw("received") || ends.B.Saw("received") || ends.A.Saw("peer finished"), ends.A.Life);
        },
        loops);

    private static void Step(Peer peer, byte[] toWrite, ref int written, byte[] expected, ref int read, ref bool ended,
        byte[] buffer, int most)
    {
        if (written < toWrite.Length)
        {
            written += peer.TryWrite(toWrite.AsSpan(written));
            if (written == toWrite.Length) peer.ShutdownSend();
        }

        if (ended) return;
        int got = peer.TryRead(buffer.AsSpan(0, most));
        if (got > 0)
        {
            Assert.True(read + got <= expected.Length
                && buffer.AsSpan(0, got).SequenceEqual(expected.AsSpan(read, got)), $"other bytes after {read}");
            read += got;
        }

        ended = got == 0;
    }

    [Theory, Contract(8, 22)]
    [InlineData(SlowConsumer.Disconnect)]
    [InlineData(SlowConsumer.Wait)]
    public void While_the_target_does_not_read_the_source_waits_and_no_peer_is_considered_slow(SlowConsumer policy) =>
        Run(rig =>
        {
            Ends ends = Two(rig, options: Narrow(rig, policy));
            Task<PipeResult> pipe = Join(rig, ends.A, ends.B);
            byte[] piece = Pattern(1_000_000, 3);
            // On a busy machine the pipe may not have run when nothing more fits: then there is space again, and more
            // is written.
            (int written, long pending) = (0, 0);
            rig.Until(
                () =>
                {
                    written += ends.PeerA.WriteUntilFull(piece, 24 * 1024 * 1024);
                    Assert.True(written < 24 * 1024 * 1024, "everything was taken");
                    pending = ends.B.BytesPending;
                    return pending > 0;
                },
                "the target to hold what its peer does not take");
            Assert.InRange(pending, 1, Limit / 2);
            // Its own session has space for a message.
            rig.OnLoop(ends.B, () => Assert.Equal(SendResult.Queued, ends.B.Send(new byte[Limit / 4])));
            Assert.True(ends.A.IsConnected && ends.B.IsConnected);
            ends.A.Abort();
            Assert.Equal(PipeEnd.SourceEnded, Await(rig, pipe).End);
            ends.B.End();
        });

    [Fact, Contract(3, 22)]
    public void Unread_data_is_piped_first_and_after_a_cancel_new_data_goes_to_the_session_again() => Run(rig =>
    {
        bool takes = false;
        Ends ends = Two(rig, s => s.AtData = (_, unread) => Volatile.Read(ref takes) ? unread.Length : 0);
        ends.PeerA.Write("one");
        rig.Until(() => ends.A.Offers.Sum() >= 3, "the bytes to be offered");
        using CancellationTokenSource cancel = new();
        Task<PipeResult> pipe = Join(rig, ends.A, ends.B, cancel.Token);
        Assert.Equal("one", ends.PeerB.ReadText(3));
        ends.PeerA.Write("two");
        Assert.Equal("two", ends.PeerB.ReadText(3));
        Volatile.Write(ref takes, true);
        cancel.Cancel();
        Assert.Equal(new PipeResult(6, PipeEnd.Cancelled, default), Await(rig, pipe));
        ends.PeerA.Write("three");
        ends.A.UntilReceived(5);
        Assert.Equal("three", ends.A.ReceivedText);
        // And it can be piped again.
        pipe = Join(rig, ends.A, ends.B);
        ends.PeerA.Write("four");
        Assert.Equal("four", ends.PeerB.ReadText(4));
        ends.PeerA.ShutdownSend();
        Assert.Equal(new PipeResult(4, PipeEnd.Finished, default), Await(rig, pipe));
        Assert.Equal("", ends.PeerB.ReadTextToEnd());
    });

    [Fact, Contract(22)]
    public void A_cancel_while_the_source_waits_returns_unread_data_to_its_session() => Run(rig =>
    {
        Ends ends = Two(rig, options: Narrow(rig));
        using CancellationTokenSource cancel = new();
        Task<PipeResult> pipe = Join(rig, ends.A, ends.B, cancel.Token);
        byte[] data = Pattern(24 * 1024 * 1024, 4);
        int written = ends.PeerA.WriteUntilFull(data, data.Length);
        cancel.Cancel();
        PipeResult result = Await(rig, pipe);
        Assert.Equal(PipeEnd.Cancelled, result.End);
        ends.A.UntilReceived(written - (int)result.Bytes);
        Assert.True(ends.A.Received.AsSpan()
            .SequenceEqual(data.AsSpan((int)result.Bytes, written - (int)result.Bytes)));
        Assert.True(ends.PeerB.Read((int)result.Bytes).AsSpan().SequenceEqual(data.AsSpan(0, (int)result.Bytes)));
    });

    [Fact, Contract(22)]
    public void A_source_that_is_reset_aborts_the_target_and_a_close_of_its_own_closes_it() => Run(rig =>
    {
        Ends ends = Two(rig);
        Task<PipeResult> pipe = Join(rig, ends.A, ends.B);
        ends.PeerA.Write("half");
        Assert.Equal("half", ends.PeerB.ReadText(4));
        if (rig.HasResets) ends.PeerA.Reset();
        else ends.A.Abort();
        PipeResult result = Await(rig, pipe);
        Assert.Equal((4L, PipeEnd.SourceEnded), (result.Bytes, result.End));
        Assert.Equal(ends.A.End(), result.Reason.Cause);
        Assert.Equal(CloseCause.LocalAbort, ends.B.End());

        ends = Two(rig);
        pipe = Join(rig, ends.A, ends.B);
        ends.PeerA.Write("all");
        Assert.Equal("all", ends.PeerB.ReadText(3));
        ends.A.Close();
        result = Await(rig, pipe);
        Assert.Equal((3L, PipeEnd.SourceEnded, CloseCause.LocalClose), (result.Bytes, result.End, result.Reason.Cause));
        Assert.Equal("", ends.PeerB.ReadTextToEnd());
        ends.PeerB.Close();
        Assert.Equal(CloseCause.LocalClose, ends.B.End());
    });

    // A part of a stream must not look complete, even if the stream is not reset before.
    [Theory, Contract(12, 22)]
    [InlineData(true)]
    [InlineData(false)]
    public void A_stop_of_the_sources_server_cuts_the_targets_stream(bool atDeadline) => Run(rig =>
    {
        RecordingServer ours = rig.Serve(s =>
        {
            if (atDeadline) s.AtServerStopping = static _ => { };
        });
        RecordingServer other = rig.Serve();
        Peer peerA = rig.ConnectPeer(ours.EndPoint!);
        Peer peerB = rig.ConnectPeer(other.EndPoint!);
        RecordingSession a = ours.Connected();
        RecordingSession b = other.Connected();
        Task<PipeResult> pipe = Join(rig, a, b);
        peerA.Write("half");
        Assert.Equal("half", peerB.ReadText(4));
        rig.Await(ours.StopAsync(TimeSpan.FromMilliseconds(50)));
        PipeResult result = Await(rig, pipe);
        Assert.Equal((4L, PipeEnd.SourceEnded, CloseCause.ServerStopped),
            (result.Bytes, result.End, result.Reason.Cause));
        Assert.Equal(CloseCause.LocalAbort, b.End());
        Assert.Equal(rig.HasResets, peerB.EndsInReset());
    });

    [Theory, Contract(22)]
    [InlineData(false)]
    [InlineData(true)]
    public void A_target_that_ends_closes_the_source_which_still_gets_what_it_has_queued(bool isBusy) => Run(rig =>
    {
        Ends ends = Two(rig);
        Task<PipeResult> pipe = Join(rig, ends.A, ends.B);
        if (isBusy) Assert.NotEqual(0, ends.PeerA.WriteUntilFull(Pattern(100_000), 24 * 1024 * 1024));
        ends.A.Send("answer"u8);
        ends.B.Abort();
        PipeResult result = Await(rig, pipe);
        Assert.Equal((PipeEnd.TargetEnded, CloseCause.LocalAbort), (result.End, result.Reason.Cause));
        // A peer that keeps sending is finally reset by the limit of lingering.
        if (!isBusy) Assert.Equal("answer", ends.PeerA.ReadTextToEnd());
        ends.PeerA.Close();
        ends.A.End();
        Assert.Equal(CloseCause.LocalClose, ends.A.Reason.Cause);
    });

    [Theory, Contract(15, 22)]
    [InlineData(true)]
    [InlineData(false)]
    public void A_hand_over_of_either_ends_the_pipe_and_nothing_else(bool isTarget) => Run(rig =>
    {
        Ends ends = Two(rig);
        Task<PipeResult> pipe = Join(rig, ends.A, ends.B);
        ends.PeerA.Write("1");
        Assert.Equal("1", ends.PeerB.ReadText(1));
        RecordingSession next = new(rig) { IsSuccessor = true };
        RecordingSession giver = isTarget ? ends.B : ends.A;
        Assert.True(rig.Await(giver.PostAsync(() => giver.CallHandOver(next))));
        next.Until("connected");
        PipeResult result = Await(rig, pipe);
        Assert.Equal(new PipeResult(1, isTarget ? PipeEnd.TargetEnded : PipeEnd.SourceEnded,
            new CloseReason(CloseCause.HandedOver)), result);
        ends.PeerA.Write("2");
        (isTarget ? ends.A : next).UntilReceived(1);
        next.Send("3"u8);
        Assert.Equal("3", (isTarget ? ends.PeerB : ends.PeerA).ReadText(1));
    });

    [Fact, Contract(22)]
    public void A_session_has_one_pipe_at_a_time_and_never_to_a_session_without_a_connection() => Run(rig =>
    {
        Ends ends = Two(rig);
        Task<PipeResult> pipe = Join(rig, ends.A, ends.B);
        RecordingSession never = new(rig);
        rig.OnLoop(ends.A, () =>
        {
            Assert.Throws<InvalidOperationException>(() => ends.A.CallPipeTo(ends.B));
            Assert.Throws<InvalidOperationException>(() => ends.A.CallStartBody());
        });
        rig.OnLoop(ends.B, () => Assert.Throws<InvalidOperationException>(() => ends.B.CallPipeTo(never)));
        Assert.Throws<InvalidOperationException>(() => ends.B.CallPipeTo(ends.A));
        // A pipe to an ended session completes immediately, because any session may end.
        ends.B.Abort();
        ends.B.End();
        Assert.Equal(PipeEnd.TargetEnded, Await(rig, pipe).End);
        // With thread-pool scheduling this is a moment after the last callback, and the reason is set then.
        rig.Await(ends.B.EndedAsync());
        Ends more = Two(rig);
        PipeResult result = Await(rig, Join(rig, more.A, ends.B));
        Assert.Equal((0L, PipeEnd.TargetEnded, CloseCause.LocalAbort), (result.Bytes, result.End, result.Reason.Cause));
        more.A.Abort(); // its peer does not shut down, and a close would wait for it
        more.A.End();
    });

    [Fact, Contract(22)]
    public void A_session_that_is_piped_to_itself_echoes() => Run(rig =>
    {
        Ends ends = Two(rig);
        Task<PipeResult> pipe = Join(rig, ends.A, ends.A);
        byte[] data = Pattern(50_000, 6);
        ends.PeerA.Write(data);
        Assert.Equal(data, ends.PeerA.Read(50_000));
        ends.PeerA.ShutdownSend();
        Assert.Equal(PipeEnd.Finished, Await(rig, pipe).End);
        Assert.Equal("", ends.PeerA.ReadTextToEnd());
        Assert.Equal(CloseCause.PeerClosed, ends.A.End());
    });
}
