namespace Whimbrel.Conformance;

/// <summary>Contract 23: SentAsync completes once, when everything its caller sent was accepted by the kernel, or when
/// some of it never will be.</summary>
public abstract class SentAsyncSuite(Transport transport) : TrafficSuite(transport)
{
    [Theory, Contract(23)]
    [InlineData(true)]
    [InlineData(false)]
    public void SentAsync_with_nothing_pending_has_completed_when_it_returns(bool onLoop) => Run(rig =>
    {
        (RecordingSession session, Peer peer) = Pair(rig);
        session.Send("hello"u8);
        Assert.Equal("hello", peer.ReadText(5));
        rig.Until(() => session.BytesPending == 0, "it to leave");
        Task<bool>? task = null;
        At(rig, session, onLoop, () => task = session.SentAsync().AsTask());
        Assert.True(task!.IsCompletedSuccessfully && task.Result);
    });

    [Fact, Contract(23)]
    public void SentAsync_of_another_thread_waits_for_its_broadcast_that_the_loop_has_not_run() => Run(rig =>
    {
        (RecordingSession session, Peer peer) = Pair(rig);
        SessionGroup group = new();
        group.Join(session);
        rig.Until(() => group.Count == 1, "the join");
        long sent = session.BytesSent;
        Task<long>? sentThen = null;
        At(rig, session, onLoop: false, () =>
        {
            Assert.Equal(SendResult.Queued, group.Broadcast("news"u8));
            sentThen = SentThenAsync();
        });
        Assert.Equal(sent + 4, Await(rig, sentThen!));
        Assert.Equal("news", peer.ReadText(4));

        async Task<long> SentThenAsync()
        {
            Assert.True(await session.SentAsync().ConfigureAwait(false));
            return session.BytesSent;
        }
    });

    [Fact, Contract(23)]
    public void SentAsync_completes_when_earlier_data_was_sent_and_does_not_wait_for_later_data() => Run(rig =>
    {
        // So much data follows that the kernel, and a batch of records, hold only a part of it.
        const int Large = 4 * 1024 * 1024;
        (RecordingSession session, Peer peer) = Pair(rig, limit: Large);
        byte[] first = Clog(rig, session);
        Task<bool> here = Start(rig, session, onLoop: true, session.SentAsync);
        Task<bool> elsewhere = Start(rig, session, onLoop: false, session.SentAsync);
        rig.Settle();
        byte[] behind = FillTo(rig, session, room: 0, Large);
        Task<bool> last = Start(rig, session, onLoop: true, session.SentAsync);
        rig.Settle();
        Assert.False(here.IsCompleted || elsewhere.IsCompleted || last.IsCompleted);
        peer.Read(first.Length + (behind.Length / 4));
        Assert.True(Await(rig, here));
        Assert.True(Await(rig, elsewhere));
        Assert.False(last.IsCompleted);
        peer.Read(behind.Length - (behind.Length / 4));
        Assert.True(Await(rig, last));
        Assert.Equal(0, session.BytesPending);
    });

    [Fact, Contract(23)]
    public void Each_of_many_messages_is_reported_once_and_not_before_its_own_bytes_were_sent() => Run(rig =>
    {
        const int Messages = 200;
        (RecordingSession session, Peer peer) = Pair(rig, limit: 1024 * 1024);
        List<int> told = [];
        List<string> wrong = [];
        rig.OnLoop(session, () =>
        {
            long sent = session.BytesSent;
            for (int i = 0; i < Messages; i++)
            {
                byte[] message = Pattern(1 + (i * 97 % 5_000), i);
                Assert.Equal(SendResult.Queued, session.Send(message));
                _ = NoteAsync(i, sent += message.Length);
            }
        });
        peer.Read(Enumerable.Range(0, Messages).Sum(static i => 1 + (i * 97 % 5_000)));
        rig.Until(() => Volatile.Read(ref told).Count == Messages, "all to be told");
        // A call that need not wait may complete before earlier pending calls.
        Assert.Equal(Enumerable.Range(0, Messages), told.Order());
        Assert.Empty(wrong);

        async Task NoteAsync(int number, long end)
        {
            bool hasLeft = await session.SentAsync().ConfigureAwait(false);
            if (!hasLeft || session.BytesSent < end)
                wrong.Add($"{number}: {hasLeft}, {session.BytesSent} of {end} bytes");
            told.Add(number);
        }
    });

    [Fact, Contract(6, 23)]
    public void SentAsync_after_a_waiting_SendAsync_waits_as_well_and_after_a_cancelled_one_for_earlier_data() =>
        Run(rig =>
        {
            (RecordingSession session, Peer peer) = Pair(rig);
            byte[] first = Clog(rig, session);
            byte[] fill = FillTo(rig, session, room: 0);
            using CancellationTokenSource source = new();
            List<Task<SendResult>> sends = [];
            List<Task<long>> marks = [];
            for (int i = 0; i < 5; i++)
            {
                // The first, the third and the last are cancelled.
                byte[] message = Filled((char)('a' + i), i == 1 ? 2 * Limit : 5);
                sends.Add(Start(rig, session, onLoop: i < 3,
                    () => session.SendAsync(message, i % 2 == 0 ? source.Token : default)));
                marks.Add(Start(rig, session, onLoop: i < 3,
                    async () => await session.SentAsync().ConfigureAwait(false) ? session.BytesSent : -1));
                rig.Settle();
            }

            rig.OnLoop(session, source.Cancel);
            rig.Settle();
            Assert.All(marks, static m => Assert.False(m.IsCompleted));
            peer.Read(first.Length + fill.Length);
            Assert.Equal(Filled('b', 2 * Limit), peer.Read(2 * Limit));
            Assert.Equal("ddddd", peer.ReadText(5));
            int before = first.Length + fill.Length, behind = before + (2 * Limit);
            int[] atLeast = [before, behind, behind, behind + 5, behind + 5];
            for (int i = 0; i < 5; i++)
            {
                Assert.InRange(Await(rig, marks[i]), atLeast[i], behind + 5);
                rig.Until(() => sends[i].IsCompleted, "the send to end");
                Assert.Equal(i % 2 == 0, sends[i].IsCanceled);
            }
        });

    [Fact, Contract(20, 23)]
    public void SentAsync_of_a_file_completes_when_all_of_it_was_sent() => Run(rig =>
    {
        byte[] data = Pattern(300_000);
        using TestFile file = new(data);
        FileSource source = new(file.Path);
        Task<bool>? task = null;
        long sent = 0;
        RecordingServer server = rig.Serve(s => s.AtConnected = x =>
        {
            x.Send(Outgoing.File(source, 0, data.Length).WithHead("head "u8));
            task = LeaveAsync(x);
            x.Send(" behind"u8);
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        Assert.Equal([.. "head "u8, .. data, .. " behind"u8], peer.Read(data.Length + 12));
        RecordingSession session = server.Connected();
        rig.Until(() => task is { IsCompleted: true }, "the file to leave");
        Assert.True(task!.Result);
        Assert.InRange(sent, data.Length + 5, data.Length + 12);
        session.Close();
        source.Dispose();

        async Task<bool> LeaveAsync(RecordingSession x)
        {
            bool hasLeft = await x.SentAsync().ConfigureAwait(false);
            sent = x.BytesSent;
            return hasLeft;
        }
    });

    [Theory, Contract(12, 23)]
    [InlineData("abort")]
    [InlineData("reset")]
    [InlineData("server")]
    public void However_the_connection_ends_with_pending_bytes_every_caller_is_notified_once_that_they_were_dropped(
        string how) => Run(rig =>
        {
            Task<bool>? last = null;
            (RecordingSession session, Peer peer) = Pair(rig,
                setUp: s => s.AtDisconnected = (x, _) => last = x.SentAsync().AsTask());
            Clog(rig, session);
            List<Task<bool>> tasks = [];
            for (int i = 0; i < 3; i++)
            {
                tasks.Add(Start(rig, session, onLoop: true, session.SentAsync));
                tasks.Add(Start(rig, session, onLoop: false, session.SentAsync));
            }

            Task<SendResult> waiting = Start(rig, session, onLoop: true,
                () => session.SendAsync(Filled('a', 2 * Limit)));
            tasks.Add(Start(rig, session, onLoop: true, session.SentAsync));
            rig.Settle();
            Assert.All(tasks, static t => Assert.False(t.IsCompleted));
            switch (how)
            {
                case "abort":
                    session.Abort();
                    break;
                case "reset":
                    peer.Reset();
                    break;
                default:
                    rig.Await(session.Server!.StopAsync(TimeSpan.Zero));
                    break;
            }

            foreach (Task<bool> task in tasks) Assert.False(Await(rig, task));
            Assert.Equal(SendResult.Closed, Await(rig, waiting));
            rig.Until(() => session.IsOver, "the end");
            Assert.False(Await(rig, last!));
            Assert.False(rig.Await(session.SentAsync()));
        });

    [Fact, Contract(12, 23)]
    public void SentAsync_after_a_Close_reports_that_everything_was_sent() => Run(rig =>
    {
        (RecordingSession session, Peer peer) = Pair(rig);
        byte[] first = Clog(rig, session);
        Task<bool> task = Start(rig, session, onLoop: true, () =>
        {
            session.Send("last"u8);
            session.Close();
            return session.SentAsync();
        });
        rig.Settle();
        Assert.False(task.IsCompleted);
        Assert.Equal([.. first, .. "last"u8], peer.ReadToEnd());
        Assert.True(Await(rig, task));
        peer.Close();
    });

    [Fact, Contract(15, 23)]
    public void After_a_hand_over_a_waiting_SentAsync_still_completes() => Run(rig =>
    {
        RecordingSession next = new(rig) { IsSuccessor = true };
        (RecordingSession session, Peer peer) = Pair(rig, setUp: s => s.AtTimer = (self, _) => self.CallHandOver(next));
        byte[] first = Clog(rig, session);
        Task<bool> task = Start(rig, session, onLoop: true, session.SentAsync);
        rig.OnLoop(session, () => session.CallStartTimer(TimeSpan.Zero));
        rig.Until(() => session.Reason.Cause == CloseCause.HandedOver, "the hand-over");
        Assert.False(task.IsCompleted);
        peer.Read(first.Length);
        Assert.True(Await(rig, task));
        next.Abort();
        rig.Until(() => next.IsOver, "the end");
    });

    [Fact, Contract(17, 23)]
    public void A_broadcast_that_the_gate_holds_back_is_not_waited_for() => Run(rig =>
    {
        (RecordingSession session, Peer peer) = Pair(rig);
        rig.OnLoop(session, () => session.Gate = BroadcastGate.Held);
        session.Server!.Sessions.Broadcast("later"u8);
        rig.Until(() => session.BytesPending == 5, "the broadcast to be held");
        Task<bool> task = Start(rig, session, onLoop: true, () =>
        {
            session.Send("now "u8);
            return session.SentAsync();
        });
        Assert.True(Await(rig, task));
        Assert.Equal("now ", peer.ReadText(4));
        Assert.Equal(5, session.BytesPending);
        rig.OnLoop(session, () => session.Gate = BroadcastGate.Open);
        Assert.Equal("later", peer.ReadText(5));
    });

    [Fact, Contract(7, 23)]
    public void SentAsync_on_a_thread_that_is_no_loop_waits_for_the_bytes_of_that_thread() => Run(rig =>
    {
        (RecordingSession session, Peer peer) = Pair(rig, limit: 1024 * 1024);
        const int Messages = 50;
        List<Task<bool>> tasks = [];
        for (int i = 0; i < Messages; i++)
        {
            tasks.Add(StartElsewhere(rig, async () =>
            {
                Assert.Equal(SendResult.Queued, session.Send(Filled('x', 1_000)));
                bool hasLeft = await session.SentAsync().ConfigureAwait(false);
                return hasLeft && session.BytesSent >= 1_000;
            }));
        }

        peer.Read(1_000 * Messages);
        foreach (Task<bool> task in tasks) Assert.True(Await(rig, task));
    });
}
