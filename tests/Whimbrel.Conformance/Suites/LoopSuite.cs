namespace Whimbrel.Conformance;

/// <summary>What a loop offers by itself: posting, dispatching, timers.</summary>
public abstract class LoopSuite(Transport transport) : Suite(transport)
{
    private static readonly int[] s_dues = [30, 10, 20, 0, 10];

    private static Loop Started(Rig rig)
    {
        rig.Serve();
        return rig.Engine.GetLoop(rig.Engine.LoopCount - 1);
    }

    [Fact]
    public void Posted_actions_run_on_the_loop_in_order() => Run(rig =>
    {
        Loop loop = Started(rig);
        List<int> seen = [];
        bool foreign = false;
        for (int i = 0; i < 1000; i++)
        {
            Assert.True(loop.Post(
                n =>
                {
                    foreign |= !loop.IsCurrent || Loop.Current != loop;
                    seen.Add((int)n!);
                },
                i));
        }

        rig.OnLoop(loop, static () => { });
        Assert.Equal(Enumerable.Range(0, 1000), seen);
        Assert.False(foreign);
        Assert.Null(Loop.Current);
        Assert.False(loop.IsCurrent);
    });

    [Fact]
    public void Post_never_runs_inside_the_callers_stack_and_Dispatch_does_on_the_loop() => Run(rig =>
    {
        Loop loop = Started(rig);
        string order = "";
        rig.OnLoop(loop, () =>
        {
            loop.Post(() => order += "posted ");
            loop.Dispatch(() => order += "dispatched ");
            order += "returned ";
        });
        rig.OnLoop(loop, static () => { });
        Assert.Equal("dispatched returned posted ", order);
        loop.Dispatch(() => order += "from elsewhere");
        rig.Until(() => order.EndsWith("elsewhere", StringComparison.Ordinal), "the dispatched action");
    });

    [Fact]
    public void Timers_fire_in_order_and_never_early() => Run(rig =>
    {
        Loop loop = Started(rig);
        List<string> fired = [];
        bool early = false;
        foreach (int due in s_dues)
        {
            long start = rig.Engine.NowMs;
            loop.StartTimer(
                TimeSpan.FromMilliseconds(due),
                state =>
                {
                    early |= rig.Engine.NowMs - start < due;
                    lock (fired) fired.Add((string)state!);
                },
                $"{due}");
        }

        rig.Pass(TimeSpan.FromMilliseconds(31));
        rig.Until(() => fired.Count == 5, "all timers");
        Assert.False(early);
        if (rig.IsVirtual) Assert.Equal(["0", "10", "10", "20", "30"], fired);
        else Assert.Equal(["0", "10", "10", "20", "30"], fired.Order());
    });

    [Fact]
    public void A_cancelled_timer_does_not_fire() => Run(rig =>
    {
        Loop loop = Started(rig);
        int fired = 0;
        LoopTimer cancelled = loop.StartTimer(TimeSpan.FromMilliseconds(5), _ => fired += 100);
        Assert.True(cancelled.IsActive);
        cancelled.Cancel();
        cancelled.Cancel();
        LoopTimer other = loop.StartTimer(TimeSpan.FromMilliseconds(10), _ => fired++);
        rig.Pass(TimeSpan.FromMilliseconds(15));
        rig.Until(() => fired > 0, "the other timer");
        Assert.Equal(1, fired);
        rig.OnLoop(loop, () => Assert.False(other.IsActive || cancelled.IsActive));
    });

    [Fact]
    public void A_periodic_timer_goes_on_until_it_cancels_itself() => Run(rig =>
    {
        Loop loop = Started(rig);
        int fired = 0;
        LoopTimer? timer = null;
        rig.OnLoop(loop, () => timer = loop.StartTimer(
            TimeSpan.FromMilliseconds(1),
            _ =>
            {
                if (++fired == 5) timer!.Cancel();
            },
            null,
            TimeSpan.FromMilliseconds(2)));
        Assert.Equal(TimeSpan.FromMilliseconds(2), timer!.Period);
        rig.Pass(TimeSpan.FromMilliseconds(30));
        rig.Until(() => fired == 5, "five firings");
        rig.Pass(TimeSpan.FromMilliseconds(10));
        rig.Settle();
        Assert.Equal(5, fired);
    });

    [Fact]
    public void A_timer_that_starts_itself_again_at_once_leaves_the_loop_to_others() => Run(rig =>
    {
        Loop loop = Started(rig);
        bool stop = false;
        void Again(object? state)
        {
            if (!Volatile.Read(ref stop)) loop.StartTimer(TimeSpan.Zero, Again);
        }

        loop.StartTimer(TimeSpan.Zero, Again);
        for (int i = 0; i < 5; i++) rig.OnLoop(loop, static () => { });
        Volatile.Write(ref stop, true);
    });

    [Fact]
    public void Mistakes_with_timers_are_thrown_at_the_call() => Run(rig =>
    {
        Loop loop = Started(rig);
        Assert.Throws<ArgumentOutOfRangeException>(() => loop.StartTimer(TimeSpan.FromMilliseconds(-1), static _ => { }));
        Assert.Throws<ArgumentOutOfRangeException>(() => loop.StartTimer(TimeSpan.Zero, static _ => { }, null, TimeSpan.FromMilliseconds(-1)));
        Assert.Throws<ArgumentNullException>(() => loop.StartTimer(TimeSpan.Zero, null!));
        Assert.Throws<ArgumentNullException>(() => loop.Post(null!));
        Assert.Throws<ArgumentNullException>(() => loop.Dispatch(null!));
    });

    [Fact, Contract(1)]
    public void Timers_of_a_session_end_with_it() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtConnected = static x =>
        {
            x.CallStartTimer(TimeSpan.FromMilliseconds(5));
            x.CallStartTimer(TimeSpan.FromMilliseconds(1), TimeSpan.FromMilliseconds(1));
        });
        Peer peer = rig.Dial(server.EndPoint!);
        RecordingSession session = server.Connected();
        rig.Pass(TimeSpan.FromMilliseconds(3));
        session.Until("timer");
        peer.FinishSending();
        session.End();
        rig.Pass(TimeSpan.FromMilliseconds(10));
        rig.Settle();
        Assert.StartsWith("disconnected", session.Events[^1], StringComparison.Ordinal);
        Assert.Throws<InvalidOperationException>(() => session.CallStartTimer(TimeSpan.Zero));
    });

    [Fact, Contract(14)]
    public void A_callback_that_blocks_its_loop_is_named_in_a_notice() => Run(
        rig =>
        {
            RecordingServer server = rig.Serve(s => s.AtReceived = (_, _) => rig.Block(TimeSpan.FromMilliseconds(60)));
            rig.Dial(server.EndPoint!).Write("x");
            rig.Until(() => rig.Notices.Any(static n => n.Kind == NoticeKind.BlockedLoop), "a notice");
            Notice notice = rig.Notices.First(static n => n.Kind == NoticeKind.BlockedLoop);
            Assert.Contains("loop 0", notice.Message, StringComparison.Ordinal);
            Assert.Equal("blocked-loop.md", notice.Page);
        },
        loops: 1);
}
