using System.Diagnostics;

namespace Whimbrel.Conformance;

/// <summary>Timers of loops and sessions: never early, in order, cancelled permanently.</summary>
public abstract class TimerSuite(Transport transport) : TrafficSuite(transport)
{
    [Theory, Contract(14)]
    [InlineData(true)]
    [InlineData(false)]
    public void A_one_shot_fires_once_on_its_loop_and_never_early(bool onLoop) => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        Loop loop = rig.Engine.GetLoop(0);
        List<(long Due, long Fired, bool OnLoop)> fired = [];
        List<LoopTimer> timers = [];
        int[] dues = rig.IsVirtual ? [0, 1, 2, 5, 40, 1500, 2500, 60_000] : [0, 1, 2, 5, 17, 40];
        rig.OnLoop(loop, () => { });
        if (onLoop) rig.OnLoop(loop, StartAll);
        else StartAll();
        rig.Until(() => Count() == dues.Length, "all timers to fire");
        rig.Settle();
        Assert.Equal(dues.Length, Count());
        Assert.All(fired, static f => Assert.True(f.Fired >= f.Due && f.OnLoop, $"due {f.Due}, fired {f.Fired}"));
        rig.OnLoop(loop, () => Assert.All(timers, static t => Assert.False(t.IsActive)));
        Assert.NotNull(server.EndPoint);

        void StartAll()
        {
            foreach (int due in dues)
            {
                long at = rig.Engine.NowMs + due;
                timers.Add(loop.StartTimer(TimeSpan.FromMilliseconds(due), _ =>
                {
                    lock (fired) fired.Add((at, rig.Engine.NowMs, loop.IsCurrent));
                }));
            }
        }

        int Count()
        {
            lock (fired) return fired.Count;
        }
    });

    [Fact]
    public void An_async_callback_of_a_timer_runs_one_at_a_time_and_what_it_throws_later_is_a_diagnostic_event() =>
        Run(rig =>
        {
            rig.Expect("a timer threw InvalidDataException");
            rig.Serve();
            Loop loop = rig.Engine.GetLoop(0);
            TaskCompletionSource release = new(TaskCreationOptions.RunContinuationsAsynchronously);
            int began = 0, ticks = 0;
            TimeSpan often = TimeSpan.FromMilliseconds(1);
            LoopTimer slow = loop.StartTimer(
                often,
                async _ =>
                {
                    if (Interlocked.Increment(ref began) > 1) return;
                    await release.Task;
                    throw new InvalidDataException("late");
                },
                null,
                often);
            LoopTimer other = loop.StartTimer(often, _ => ticks++, null, often);
            rig.Until(() => Volatile.Read(ref ticks) >= 20, "the other timer to fire");
            Assert.Equal(1, Volatile.Read(ref began));
            release.SetResult();
            rig.Until(() => Volatile.Read(ref began) > 1
                && rig.Notices.Any(static n => n.Exception is InvalidDataException), "the next firing and the notice");
            slow.Cancel();
            other.Cancel();
        });

    [Fact, Contract(14)]
    public void Timers_fire_in_the_order_of_their_due_times() => Run(rig =>
    {
        rig.Serve();
        Loop loop = rig.Engine.GetLoop(0);
        Random random = new(7);
        int[] dues = [.. Enumerable.Range(0, 500).Select(_ => random.Next(rig.IsVirtual ? 5000 : 60))];
        List<int> fired = [];
        int count = 0;
        double startMs = 0; // time in which the timers were started; a busy machine may pause it
        rig.OnLoop(loop, () =>
        {
            long begin = Stopwatch.GetTimestamp();
            foreach (int due in dues)
            {
                loop.StartTimer(TimeSpan.FromMilliseconds(due), state =>
                {
                    fired.Add((int)state!);
                    Volatile.Write(ref count, fired.Count);
                }, due);
            }

            startMs = Stopwatch.GetElapsedTime(begin).TotalMilliseconds;
        });
        rig.Until(() => Volatile.Read(ref count) == dues.Length, "all timers to fire");
        // A later timer begins at a later time of the clock, which has a resolution of some milliseconds.
        double tolerance = rig.IsVirtual ? 0 : 20 + startMs;
        for (int i = 1; i < fired.Count; i++)
            Assert.True(fired[i] >= fired[i - 1] - tolerance, $"{fired[i]} after {fired[i - 1]}");
    });

    [Fact, Contract(14)]
    public void A_periodic_timer_continues_until_it_is_cancelled_also_from_its_own_callback() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtTimer = static (self, timer) =>
        {
            if (self.Count("timer") == 5) timer.Cancel();
        });
        rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        LoopTimer? timer = null;
        rig.OnLoop(session,
            () => timer = session.CallStartTimer(TimeSpan.FromMilliseconds(1), TimeSpan.FromMilliseconds(2)));
        Assert.Equal(TimeSpan.FromMilliseconds(2), timer!.Period);
        rig.Until(() => session.Count("timer") == 5, "five firings");
        rig.Pass(TimeSpan.FromMilliseconds(15));
        rig.Settle();
        Assert.Equal(5, session.Count("timer"));
        rig.OnLoop(session, () => Assert.False(timer.IsActive));
    });

    [Fact, Contract(14)]
    public void A_periodic_timer_that_was_held_up_does_not_catch_up() => Run(rig =>
    {
        rig.Serve();
        Loop loop = rig.Engine.GetLoop(0);
        int fired = 0;
        int duringBlock = 0;
        LoopTimer? timer = null;
        rig.OnLoop(loop, () => timer = loop.StartTimer(TimeSpan.FromMilliseconds(10), _ => fired++, null,
            TimeSpan.FromMilliseconds(10)));
        rig.OnLoop(loop, () =>
        {
            duringBlock = fired;
            rig.Block(TimeSpan.FromMilliseconds(100));
        });
        rig.OnLoop(loop, () =>
        {
            timer!.Cancel();
            Assert.InRange(fired - duringBlock, 0, 3);
        });
    });

    [Theory, Contract(14)]
    [InlineData(true)]
    [InlineData(false)]
    public void A_cancelled_timer_never_fires(bool onLoop) => Run(rig =>
    {
        rig.Serve();
        Loop loop = rig.Engine.GetLoop(0);
        int fired = 0;
        List<LoopTimer> timers = [];
        Action act = () =>
        {
            for (int i = 0; i < 20; i++)
                timers.Add(loop.StartTimer(TimeSpan.FromMilliseconds(30), _ => Interlocked.Increment(ref fired)));
            foreach (LoopTimer timer in timers) timer.Cancel();
            foreach (LoopTimer timer in timers) timer.Cancel();
        };
        if (onLoop) rig.OnLoop(loop, act);
        else
        {
            rig.Elsewhere(act);
            rig.Join();
        }

        rig.Pass(TimeSpan.FromMilliseconds(60));
        rig.Settle();
        Assert.Equal(0, fired);
        rig.OnLoop(loop, () => Assert.All(timers, static t => Assert.False(t.IsActive)));
        rig.OnLoop(loop, () => Assert.Equal(0, loop.Timers.Count));
    });

    [Fact, Contract(14)]
    public void A_timer_that_starts_another_with_zero_leaves_the_others_their_turn() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtReceived = static (self, data) => self.Send(data));
        Loop loop = rig.Engine.GetLoop(0);
        Peer[] peers = [rig.ConnectPeer(server.EndPoint!), rig.ConnectPeer(server.EndPoint!)];
        int fired = 0;
        bool stop = false;
        Action<object?>? again = null;
        again = _ =>
        {
            fired++;
            if (!Volatile.Read(ref stop)) loop.StartTimer(TimeSpan.Zero, again!);
        };
        loop.StartTimer(TimeSpan.Zero, again);
        foreach (Peer peer in peers)
        {
            peer.Write("still served");
            Assert.Equal("still served", peer.ReadText(12));
        }

        Volatile.Write(ref stop, true);
        rig.OnLoop(loop, () => Assert.True(fired > 0));
    });

    [Theory, Contract(14, 1)]
    [InlineData("abort")]
    [InlineData("close")]
    [InlineData("peer")]
    public void The_timers_of_a_session_end_with_it(string how) => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        LoopTimer? timer = null;
        rig.OnLoop(session, () =>
        {
            timer = session.CallStartTimer(TimeSpan.FromMilliseconds(5), TimeSpan.FromMilliseconds(5));
            for (int i = 0; i < 10; i++) session.CallStartTimer(TimeSpan.FromMilliseconds(30));
        });
        session.Until("timer");
        if (how == "abort") session.Abort();
        if (how == "close") session.Close();
        if (how != "abort") peer.Close();
        session.End();
        int fired = session.Count("timer");
        rig.Pass(TimeSpan.FromMilliseconds(40));
        rig.Settle();
        Assert.Equal(fired, session.Count("timer"));
        rig.OnLoop(session.Loop, () => Assert.False(timer!.IsActive));
        Assert.Throws<InvalidOperationException>(() => session.CallStartTimer(TimeSpan.Zero));
    });

    [Fact, Contract(14)]
    public void Ten_thousand_timers_of_which_a_half_is_cancelled_fire_exactly_once() => Run(rig =>
    {
        rig.Serve();
        Loop loop = rig.Engine.GetLoop(0);
        int[] fired = new int[10_000];
        Random random = new(3);
        int done = 0;
        rig.OnLoop(loop, () =>
        {
            LoopTimer[] timers = new LoopTimer[fired.Length];
            for (int i = 0; i < fired.Length; i++)
            {
                timers[i] = loop.StartTimer(TimeSpan.FromMilliseconds(random.Next(20, 80)), state =>
                {
                    fired[(int)state!]++;
                    done++;
                }, i);
            }

            int[] order = [.. Enumerable.Range(0, fired.Length)];
            random.Shuffle(order);
            foreach (int i in order)
            {
                if (i % 2 == 1) timers[i].Cancel();
            }

            Assert.Equal(fired.Length / 2, loop.Timers.Count);
        });
        rig.Until(() => Volatile.Read(ref done) >= fired.Length / 2, "the other half to fire");
        rig.Settle();
        rig.OnLoop(loop, () =>
        {
            for (int i = 0; i < fired.Length; i++) Assert.Equal(i % 2 == 0 ? 1 : 0, fired[i]);
            Assert.Equal(0, loop.Timers.Count);
        });
    });

    [Fact, Contract(4, 14)]
    public void An_exception_of_a_loops_timer_is_a_diagnostic_event_and_of_a_sessions_timer_ends_the_session() =>
        Run(rig =>
        {
            rig.Expect("a timer threw");
            RecordingServer server =
                rig.Serve(static s => s.AtTimer = static (_, _) => throw new InvalidOperationException("on purpose"));
            rig.ConnectPeer(server.EndPoint!);
            RecordingSession session = server.Connected();
            bool after = false;
            session.Loop.StartTimer(TimeSpan.Zero, static _ => throw new InvalidOperationException("on purpose"));
            session.Loop.StartTimer(TimeSpan.FromMilliseconds(1), _ => Volatile.Write(ref after, true));
            rig.Until(() => Volatile.Read(ref after), "the next timer");
            Assert.Single(rig.Notices, static n => n.Kind == DiagnosticEventKind.UserException
                && n.Message.Contains("on purpose", StringComparison.Ordinal));
            Assert.True(session.IsConnected);
            rig.OnLoop(session, () => session.CallStartTimer(TimeSpan.Zero));
            Assert.Equal(CloseCause.UserException, session.End());
            Assert.Equal("connecting, connected, timer, error InvalidOperationException, disconnected UserException",
                session.Life);
        });

    [Fact, Contract(14)]
    public void A_timer_for_the_far_future_waits_and_a_negative_one_throws() => Run(rig =>
    {
        rig.Serve();
        Loop loop = rig.Engine.GetLoop(0);
        int far = 0;
        LoopTimer[] timers =
        [
            loop.StartTimer(TimeSpan.MaxValue, _ => Interlocked.Increment(ref far)),
            loop.StartTimer(TimeSpan.FromDays(25), _ => Interlocked.Increment(ref far)), // above 2^31 ms
            loop.StartTimer(TimeSpan.FromDays(50), _ => Interlocked.Increment(ref far)), // above 2^32 ms
        ];
        bool near = false;
        loop.StartTimer(TimeSpan.FromMilliseconds(5), _ => Volatile.Write(ref near, true));
        rig.Until(() => Volatile.Read(ref near), "the near timer");
        Assert.Equal(0, far);
        foreach (LoopTimer timer in timers) timer.Cancel();
        Assert.Throws<ArgumentOutOfRangeException>(() => loop.StartTimer(TimeSpan.FromTicks(-1), static _ => { }));
        Assert.Throws<ArgumentOutOfRangeException>(() => loop.StartTimer(TimeSpan.Zero, static _ => { }, null,
            TimeSpan.FromTicks(-1)));
        Assert.Throws<ArgumentNullException>(() => loop.StartTimer(TimeSpan.Zero, (Action<object?>)null!));
    });
}
