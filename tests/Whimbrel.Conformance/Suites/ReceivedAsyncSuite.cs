namespace Whimbrel.Conformance;

/// <summary>OnReceivedAsync: async receive methods, one call at a time, while the peer waits.</summary>
public abstract class ReceivedAsyncSuite(Transport transport) : TrafficSuite(transport)
{
    [Theory, Contract(2, 3, 13)]
    [InlineData("at once")]
    [InlineData("on the session's thread")]
    [InlineData("elsewhere")]
    public void OnReceivedAsync_calls_are_sequential_and_their_bytes_stay_unchanged(string how) => Run(rig =>
    {
        byte[] data = Pattern(rig.IsVirtual ? 5_000 : 400_000);
        List<byte> got = [];
        int running = 0;
        RecordingServer server = rig.Serve(s => s.AtReceivedAsync = Handle);
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write(data);
        RecordingSession session = server.Connected();
        rig.Until(() => Volatile.Read(ref running) == 0 && session.ReceivedCount == data.Length, "all to be received");
        rig.Until(() => got.Count == data.Length, "all to be handled");
        Assert.Equal(data, got.ToArray());
        peer.ShutdownSend();
        session.End();

        async ValueTask Handle(RecordingSession self, ReadOnlyMemory<byte> bytes)
        {
            if (Interlocked.Increment(ref running) != 1) rig.Violation("two run at once");
            byte[] before = bytes.ToArray();
            if (how == "elsewhere") await FromElsewhere(rig).ConfigureAwait(false);
            else if (how != "at once") await self.Loop.PostAsync(static () => { }).ConfigureAwait(false);
            if (!bytes.Span.SequenceEqual(before)) rig.Violation("the bytes have changed");
            got.AddRange(bytes.Span);
            Interlocked.Decrement(ref running);
        }
    });

    [Fact, Contract(10)]
    public void While_OnReceivedAsync_runs_the_peer_waits_and_nothing_is_lost() => Run(rig =>
    {
        TaskCompletionSource ends = new();
        int calls = 0;
        RecordingServer server = rig.Serve(s => s.AtReceivedAsync = (_, _) =>
        {
            Interlocked.Increment(ref calls);
            return new ValueTask(ends.Task);
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        byte[] piece = Pattern(256 * 1024);
        int written = peer.WriteUntilFull(piece, 32 * 1024 * 1024);
        RecordingSession session = server.Connected();
        rig.Until(() => Volatile.Read(ref calls) == 1, "the first call");
        rig.Settle();
        Assert.True(written < 32 * 1024 * 1024, "everything was taken");
        Assert.Equal(1, Volatile.Read(ref calls));
        // Data already received by the engine, and data waiting for the pool, are additional.
        Assert.InRange(session.BytesReceived, 1, 2 * 1024 * 1024);
        At(rig, session, onLoop: false, ends.SetResult);
        session.UntilReceived(written);
        byte[] received = session.Received;
        for (int at = 0; at < written; at += piece.Length)
        {
            int count = Math.Min(piece.Length, written - at);
            Assert.True(received.AsSpan(at, count).SequenceEqual(piece.AsSpan(0, count)), $"a wrong byte after {at}");
        }
    });

    [Theory, Contract(4)]
    [InlineData("before it awaits")]
    [InlineData("at once")]
    [InlineData("on the session's thread")]
    [InlineData("elsewhere")]
    public void Its_exception_goes_to_OnError_and_ends_the_connection(string when) => Run(rig =>
    {
        RecordingServer server = rig.Serve(s => s.AtReceivedAsync = (self, bytes) =>
            when == "before it awaits" ? throw new InvalidDataException("thrown by the test") : Throw(self));
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("x");
        RecordingSession session = server.Session();
        Assert.Equal(CloseCause.UserException, session.End());
        Assert.IsType<InvalidDataException>(session.Error);
        Assert.Equal(1, session.Count("error"));
        rig.Until(() => server.ReadCounters().UserExceptions == 1, "it to be counted");

        async ValueTask Throw(RecordingSession self)
        {
            if (when == "elsewhere") await FromElsewhere(rig).ConfigureAwait(false);
            else if (when != "at once") await self.Loop.PostAsync(static () => { }).ConfigureAwait(false);
            throw new InvalidDataException("thrown by the test");
        }
    });

    [Fact, Contract(11)]
    public void The_peers_end_waits_until_it_has_run() => Run(rig =>
    {
        TaskCompletionSource ends = new();
        RecordingServer server = rig.Serve(s => s.AtReceivedAsync = async (self, _) =>
        {
            await ends.Task.ConfigureAwait(false);
            self.Send("answer"u8);
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("x");
        peer.ShutdownSend();
        server.Session().UntilReceived(1);
        rig.Settle();
        Assert.False(server.Session().Saw("peer finished"));
        At(rig, server.Session(), onLoop: false, ends.SetResult);
        Assert.Equal("answer", peer.ReadText(6));
        server.Session().Until("peer finished");
    });

    [Theory, Contract(1, 12)]
    [InlineData(false)]
    [InlineData(true)]
    public void The_end_of_a_session_does_not_wait_for_OnReceivedAsync_but_a_stop_does(bool throws) => Run(rig =>
    {
        TaskCompletionSource ends = new();
        SendResult? sent = null;
        string? seen = null;
        RecordingServer server = rig.Serve(s => s.AtReceivedAsync = async (self, bytes) =>
        {
            await ends.Task.ConfigureAwait(false);
            seen = Text(bytes.Span);
            sent = self.Send("late"u8);
            if (throws) throw new InvalidDataException("thrown by the test");
        });
        if (throws) rig.Expect("thrown by the test");
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("x");
        RecordingSession session = server.Session();
        session.UntilReceived(1);
        rig.OnLoop(session, session.Abort);
        Assert.Equal(CloseCause.LocalAbort, session.End());
        Task<StopReport> stopping = server.StopAsync(TimeSpan.FromSeconds(30)).AsTask();
        rig.Settle();
        Assert.False(stopping.IsCompleted);
        At(rig, session, onLoop: false, ends.SetResult);
        StopReport report = Await(rig, stopping);
        Assert.Empty(report.Unfinished);
        Assert.Equal(SendResult.Closed, sent);
        Assert.Equal("x", seen);
        Assert.Null(session.Error);
        Assert.Equal(throws ? 1 : 0, server.ReadCounters().UserExceptions);
    });

    [Fact, Contract(12)]
    public void A_stop_names_one_that_does_not_end() => Run(rig =>
    {
        TaskCompletionSource ends = new();
        RecordingServer server = rig.Serve(s => s.AtReceivedAsync = (_, _) => new ValueTask(ends.Task));
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("x");
        server.Session().UntilReceived(1);
        Task<StopReport> stopping = server.StopAsync(TimeSpan.FromMilliseconds(50)).AsTask();
        if (rig.IsVirtual)
        {
            // The deadline, at which it is aborted, and then the grace period.
            rig.Pass(TimeSpan.FromMilliseconds(60));
            rig.Pass(TimeSpan.FromSeconds(3));
        }

        StopReport report = Await(rig, stopping);
        Assert.Contains("OnReceivedAsync of RecordingSession", Assert.Single(report.Unfinished).ToString(),
            StringComparison.Ordinal);
        ends.SetResult();
    });

    [Theory, Contract(15, 13)]
    [InlineData(true)]
    [InlineData(false)]
    public void A_hand_over_delivers_new_data_to_the_next_session_at_once(bool inside) => Run(rig =>
    {
        TaskCompletionSource ends = new();
        RecordingSession next = new(rig) { IsSuccessor = true };
        RecordingServer server = rig.Serve(s => s.AtReceivedAsync = (self, _) =>
        {
            if (inside) self.CallHandOver(next);
            return new ValueTask(ends.Task);
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("x");
        RecordingSession session = server.Session();
        session.UntilReceived(1);
        if (!inside) rig.OnLoop(session, () => session.CallHandOver(next));
        Assert.Equal(CloseCause.HandedOver, session.End());
        peer.Write("for the next");
        next.UntilReceived(12);
        At(rig, session, onLoop: false, ends.SetResult);
        peer.Write("!");
        next.UntilReceived(13);
        Assert.Equal("for the next!", next.ReceivedText);
    });

    [Fact, Contract(10)]
    public void A_pause_while_it_runs_stays_when_it_has_run() => Run(rig =>
    {
        TaskCompletionSource ends = new();
        RecordingServer server = rig.Serve(s => s.AtReceivedAsync = (_, _) => new ValueTask(ends.Task));
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        peer.Write("a");
        RecordingSession session = server.Session();
        session.UntilReceived(1);
        rig.OnLoop(session, session.PauseReceiving);
        peer.Write("b");
        At(rig, session, onLoop: false, ends.SetResult);
        rig.Settle();
        Assert.Equal(1, session.ReceivedCount);
        rig.OnLoop(session, session.ResumeReceiving);
        session.UntilReceived(2);
    });

    private static Task FromElsewhere(Rig rig)
    {
        TaskCompletionSource done = new();
        rig.Elsewhere(done.SetResult);
        return done.Task;
    }
}
