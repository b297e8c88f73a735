using System.Globalization;

namespace Whimbrel.Conformance;

/// <summary>Timers in every form: override, callback with a cancel argument, awaited, blocked on; absolute times;
/// restarts.</summary>
public abstract class TimerFormsSuite(Transport transport) : TrafficSuite(transport)
{
    private static readonly TimeSpan s_long = TimeSpan.FromHours(1);

    private static TimeSpan Ms(long milliseconds) => TimeSpan.FromMilliseconds(milliseconds);

    private static Loop Started(Rig rig)
    {
        rig.Await(rig.Engine.StartAsync());
        return rig.Engine.GetLoop(1);
    }

    /// <summary>The override form.</summary>
    private sealed class RecordingTimer(Loop loop) : LoopTimer(loop)
    {
        private string _story = "";
        private int _inside;

        internal string Story => Volatile.Read(ref _story);

        internal List<long> FiredAt { get; } = [];

        internal Action<RecordingTimer, bool>? At { get; set; }

        protected override void OnFired(bool isCancelled)
        {
            if (Interlocked.Exchange(ref _inside, 1) == 1) _story += "NESTED ";
            FiredAt.Add(Loop.Engine.NowMs);
            At?.Invoke(this, isCancelled);
            Volatile.Write(ref _inside, 0);
            Volatile.Write(ref _story, _story + (isCancelled ? "cancelled " : "fired "));
        }
    }

    // ------------------------------------------------------------------ forms

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void A_derived_timer_is_notified_of_firings_and_of_the_cancel_once(bool onLoop) => Run(rig =>
    {
        Loop loop = Started(rig);
        RecordingTimer once = new(loop);
        RecordingTimer cancelled = new(loop);
        RecordingTimer periodic = new(loop);
        RecordingTimer never = new(loop);
        Do(rig, loop, onLoop, () =>
        {
            once.Start(Ms(3));
            cancelled.Start(s_long);
            periodic.Start(Ms(1), Ms(2));
        });
        rig.Until(() => once.Story == "fired ", "the one-shot timer");
        rig.Until(() => periodic.Story.StartsWith("fired fired fired ", StringComparison.Ordinal), "three firings");
        Do(rig, loop, onLoop, () =>
        {
            foreach (RecordingTimer timer in new[] { once, cancelled, periodic, never })
            {
                timer.Cancel();
                timer.Cancel();
            }
        });
        rig.Until(() => cancelled.Story == "cancelled ", "the notice");
        rig.Until(() => periodic.Story.EndsWith("cancelled ", StringComparison.Ordinal),
            "the notice of the periodic timer");
        rig.Pass(Ms(10));
        rig.Settle();
        Assert.Equal(("fired ", "cancelled ", ""), (once.Story, cancelled.Story, never.Story));
        Assert.Equal(1, periodic.Story.Split("cancelled").Length - 1);
        Assert.DoesNotContain("NESTED", periodic.Story, StringComparison.Ordinal);
    });

    [Fact]
    public void A_callback_with_a_cancel_argument_is_notified_of_the_cancel_and_the_plain_one_is_not() => Run(rig =>
    {
        Loop loop = Started(rig);
        List<string> story = [];
        LoopTimer told = loop.StartTimer(s_long, (state, isCancelled) => story.Add($"{state} {isCancelled}"), "told");
        LoopTimer plain = loop.StartTimer(s_long, _ => story.Add("plain"));
        loop.StartTimer(Ms(1), (state, isCancelled) => story.Add($"{state} {isCancelled}"), "fires");
        rig.Until(() => story.Count == 1, "the firing");
        rig.OnLoop(loop, () =>
        {
            told.Cancel();
            plain.Cancel();
            // Never inside the call of Cancel.
            Assert.Single(story);
        });
        rig.Until(() => story.Count == 2, "the notice");
        rig.Settle();
        Assert.Equal(["fires False", "told True"], story);
        Assert.Equal(0, loop.Timers.Count);
    });

    [Fact]
    public void A_stop_of_the_engine_cancels_what_is_armed_and_a_start_after_it_counts_as_cancelled() => Run(rig =>
    {
        Loop loop = Started(rig);
        RecordingTimer timer = new(loop);
        timer.Start(s_long);
        Task<bool> wait = StartElsewhere(rig, () => timer.WaitAsync());
        Task<bool> delay = StartElsewhere(rig, async () =>
        {
            await loop.DelayAsync(s_long);
            return true;
        });
        rig.Until(() => loop.Timers.Count == 2, "both to be armed");
        rig.Await(rig.Engine.StopAsync());
        Assert.False(Await(rig, wait));
        rig.Until(() => delay.IsCompleted, "the delay");
        Assert.ThrowsAny<OperationCanceledException>(() => delay.GetAwaiter().GetResult());
        rig.Until(() => timer.Story == "cancelled ", "the notice");

        timer.Start(Ms(1));
        Assert.False(timer.IsActive);
        rig.Until(() => timer.Story == "cancelled cancelled ", "the notice of the start after the end");
        Assert.False(rig.Await(timer.WaitAsync()));
        rig.Await(rig.Engine.StartAsync());
        timer.Start(Ms(1));
        rig.Until(() => timer.Story == "cancelled cancelled fired ", "the firing after the restart");
    });

    // ------------------------------------------------------------------ started again

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void A_timer_started_again_fires_at_the_new_time_only(bool onLoop) => Run(rig =>
    {
        Loop loop = Started(rig);
        RecordingTimer later = new(loop);
        RecordingTimer sooner = new(loop);
        RecordingTimer backAndForth = new(loop);
        long start = 0;
        Do(rig, loop, onLoop, () =>
        {
            start = rig.Engine.NowMs;
            later.Start(Ms(5));
            later.Start(Ms(30));
            sooner.Start(s_long);
            sooner.Start(Ms(5));
            backAndForth.Start(Ms(10));
            backAndForth.Start(s_long);
            backAndForth.Start(Ms(20));
            backAndForth.Start(Ms(15));
        });
        rig.Until(() => later.FiredAt.Count == 1 && sooner.FiredAt.Count == 1 && backAndForth.FiredAt.Count == 1,
            "all three");
        rig.Pass(Ms(40));
        rig.Settle();
        Assert.True(later.FiredAt[0] - start >= 30);
        Assert.True(sooner.FiredAt[0] - start >= 5);
        Assert.True(backAndForth.FiredAt[0] - start >= 15);
        Assert.Equal(("fired ", "fired ", "fired "), (later.Story, sooner.Story, backAndForth.Story));
        rig.OnLoop(loop, () => Assert.Equal(0, loop.Timers.Count));
        if (rig.IsVirtual && onLoop)
            Assert.Equal((30, 5, 15),
                (later.FiredAt[0] - start, sooner.FiredAt[0] - start, backAndForth.FiredAt[0] - start));
    });

    [Fact]
    public void Restart_pushes_a_timeout_back_as_long_as_something_shows_life() => Run(rig =>
    {
        Loop loop = Started(rig);
        RecordingTimer timeout = new(loop);
        rig.OnLoop(loop, () => Assert.Throws<InvalidOperationException>(timeout.Restart));
        timeout.Start(Ms(400));
        for (int i = 0; i < 10; i++)
        {
            rig.Pass(Ms(50));
            if (i % 2 == 0) rig.OnLoop(loop, timeout.Restart);
            else timeout.Restart();
        }

        Assert.Equal("", timeout.Story);
        long last = rig.Engine.NowMs;
        rig.OnLoop(loop, () => timeout.Restart());
        rig.Until(() => timeout.Story == "fired ", "the timeout");
        Assert.True(timeout.FiredAt[0] - last >= 400);
        timeout.Restart();
        rig.OnLoop(loop, () => Assert.True(timeout.IsActive));
        timeout.Start(DateTimeOffset.MaxValue);
        rig.OnLoop(loop, () => Assert.Throws<InvalidOperationException>(timeout.Restart));
    });

    [Fact]
    public void A_timer_may_start_and_cancel_itself_in_its_own_callback() => Run(rig =>
    {
        Loop loop = Started(rig);
        RecordingTimer timer = new(loop);
        timer.At = static (self, isCancelled) =>
        {
            if (isCancelled) return;
            if (self.FiredAt.Count < 3) self.Start(Ms(self.FiredAt.Count));
            else if (self.FiredAt.Count == 3) self.Start(Ms(1), Ms(1));
            else if (self.FiredAt.Count == 6) self.Cancel();
        };
        timer.Start(TimeSpan.Zero);
        rig.Until(() => timer.Story.EndsWith("cancelled ", StringComparison.Ordinal), "the cancel");
        rig.Pass(Ms(5));
        rig.Settle();
        Assert.Equal("fired fired fired fired fired fired cancelled ", timer.Story);
    });

    [Fact]
    public void Random_starts_restarts_and_cancels_fire_exactly_what_a_list_says() => Run(rig =>
    {
        Loop loop = Started(rig);
        Random random = new(11);
        RecordingTimer[] timers = [.. Enumerable.Range(0, 500).Select(_ => new RecordingTimer(loop))];
        long[] due = new long[timers.Length]; // 0: not armed
        int[] expected = new int[timers.Length];
        for (int round = 0; round < 30; round++)
        {
            rig.OnLoop(loop, () =>
            {
                // A timer that fired meanwhile is not armed any more.
                for (int i = 0; i < timers.Length; i++)
                {
                    if (due[i] > 0 && !timers[i].IsActive) (due[i], expected[i]) = (0, expected[i] + 1);
                }

                for (int n = 0; n < 200; n++)
                {
                    int i = random.Next(timers.Length);
                    switch (random.Next(4))
                    {
                        case 0:
                            timers[i].Cancel();
                            due[i] = 0;
                            break;
                        default:
                            int span = random.Next(1, 60);
                            timers[i].Start(Ms(span));
                            due[i] = rig.Engine.NowMs + span;
                            break;
                    }
                }

                Assert.Equal(due.Count(static d => d > 0), timers.Count(static t => t.IsActive));
                Assert.Equal(due.Count(static d => d > 0), loop.Timers.Count);
                Assert.True(timers.Where(static t => t.IsActive).Min(static t => t.DueMs) >= loop.Timers.NextDueMs);
            });
            rig.Pass(Ms(7));
        }

        rig.Until(() => loop.Timers.Count == 0, "all to fire");
        rig.Settle();
        for (int i = 0; i < timers.Length; i++)
        {
            if (due[i] > 0) expected[i]++;
            Assert.Equal(expected[i], timers[i].Story.Split("fired").Length - 1);
        }
    });

    // ------------------------------------------------------------------ moments

    [Fact]
    public void A_timer_for_a_moment_fires_then_and_one_for_the_past_at_once() => Run(rig =>
    {
        Loop loop = Started(rig);
        DateTimeOffset start = rig.Engine.UtcNow;
        DateTimeOffset firedAt = default;
        int past = 0;
        // The same time in another time zone.
        loop.StartTimer(start.AddMilliseconds(30).ToOffset(TimeSpan.FromHours(9)), _ => firedAt = rig.Engine.UtcNow);
        loop.StartTimer(start.AddDays(-1), _ => Interlocked.Increment(ref past));
        loop.StartTimer(DateTimeOffset.MinValue, (_, _) => Interlocked.Increment(ref past));
        LoopTimer far = loop.StartTimer(DateTimeOffset.MaxValue,
            static _ => throw new InvalidOperationException("before its time"));
        rig.Until(() => Volatile.Read(ref past) == 2, "those of the past");
        rig.Until(() => firedAt != default, "the moment");
        // The real clock may be changed by other programs, and is coarser than it looks.
        Assert.True(firedAt >= start.AddMilliseconds(29), $"{firedAt:O} is before {start.AddMilliseconds(30):O}");
        rig.OnLoop(loop, () => Assert.True(far.IsActive));
        far.Cancel();
    });

    [Fact]
    public void A_timer_for_an_absolute_time_does_not_follow_a_jump_of_the_wall_clock() => Run(rig =>
    {
        if (!rig.IsVirtual) return;
        Loop loop = Started(rig);
        RecordingTimer[] timers = [.. Enumerable.Range(0, 4).Select(_ => new RecordingTimer(loop))];
        DateTimeOffset now = rig.Engine.UtcNow;
        long start = rig.Engine.NowMs;
        timers[0].Start(now.AddHours(1));
        timers[1].Start(TimeSpan.FromHours(1));
        rig.Pass(TimeSpan.FromMinutes(10));
        rig.SetWallClock(now.AddHours(5)); // forward, past the due time: nothing fires
        rig.Settle();
        Assert.Equal("", timers[0].Story);
        timers[2].Start(now.AddHours(6)); // armed after the jump: an hour by the new clock
        rig.SetWallClock(now.AddDays(-1)); // back
        timers[3].Start(now.AddDays(-1).AddMinutes(1));
        rig.Until(() => timers.All(static t => t.Story.Length > 0), "all");
        Assert.Equal([3_600_000, 3_600_000, 4_200_000, 660_000], timers.Select(t => t.FiredAt[0] - start));
    });

    [Theory]
    [InlineData((1L << 31) - 1)]
    [InlineData(1L << 31)]
    [InlineData((1L << 31) + 1)]
    [InlineData((1L << 32) - 1)]
    [InlineData(1L << 32)]
    [InlineData((1L << 32) + 1)]
    [InlineData(1L << 40)]
    public void Long_times_are_exact_to_the_millisecond(long milliseconds) => Run(rig =>
    {
        Loop loop = Started(rig);
        RecordingTimer relative = new(loop);
        RecordingTimer absolute = new(loop);
        RecordingTimer periodic = new(loop);
        rig.OnLoop(loop, static () => { });
        long start = rig.Engine.NowMs;
        relative.Start(Ms(milliseconds));
        absolute.Start(rig.Engine.UtcNow.AddMilliseconds(milliseconds));
        periodic.Start(Ms(5), Ms(milliseconds));
        if (!rig.IsVirtual)
        {
            rig.Until(() => periodic.Story == "fired ", "the first firing");
            rig.Settle();
            Assert.Equal(("", "", "fired "), (relative.Story, absolute.Story, periodic.Story));
            return;
        }

        rig.Until(() => relative.Story.Length > 0 && absolute.Story.Length > 0 && periodic.FiredAt.Count >= 2, "all");
        Assert.Equal(milliseconds, relative.FiredAt[0] - start);
        Assert.Equal(milliseconds, absolute.FiredAt[0] - start);
        Assert.Equal([5, 5 + milliseconds], periodic.FiredAt.Take(2).Select(at => at - start));
    });

    [Fact]
    public void Parts_of_a_millisecond_are_rounded_up_and_there_is_no_longest_time() => Run(rig =>
    {
        Loop loop = Started(rig);
        Assert.Equal(1, Loop.WholeMs(TimeSpan.FromTicks(1)));
        Assert.Equal(1, Loop.WholeMs(Ms(1)));
        Assert.Equal(2, Loop.WholeMs(TimeSpan.FromTicks(10_001)));
        Assert.Equal(0, Loop.WholeMs(TimeSpan.Zero));
        Assert.Equal((long.MaxValue / 10_000) + 1, Loop.WholeMs(TimeSpan.MaxValue));
        LoopTimer timer = loop.StartTimer(TimeSpan.MaxValue, static _ => { }, null, TimeSpan.MaxValue);
        rig.OnLoop(loop, () => Assert.True(timer.IsActive));
        timer.Start(TimeSpan.Zero, TimeSpan.MaxValue);
        rig.OnLoop(loop, static () => { });
        rig.Until(() => !rig.IsVirtual || loop.Timers.NextDueMs > rig.Engine.NowMs, "the first firing");
        Assert.Throws<ArgumentOutOfRangeException>(() => timer.Start(TimeSpan.FromTicks(-1)));
        Assert.Throws<ArgumentOutOfRangeException>(() => timer.Start(Timeout.InfiniteTimeSpan));
        Assert.Throws<ArgumentOutOfRangeException>(() => timer.Start(DateTimeOffset.MaxValue, TimeSpan.FromTicks(-1)));
        Assert.Throws<ArgumentNullException>(() => new LoopTimer(null!));
        timer.Cancel();
    });

    // ------------------------------------------------------------------ waiting

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void An_awaited_timer_says_whether_it_fired(bool onLoop) => Run(rig =>
    {
        Loop loop = Started(rig);
        LoopTimer fires = new(loop);
        LoopTimer cancelled = new(loop);
        LoopTimer periodic = new(loop);
        Task<string> all = Begin(rig, loop, onLoop, async () =>
        {
            string story = "";
            story += await fires.WaitAsync() ? "fired " : "not "; // never started
            fires.Start(Ms(2));
            story += await fires.WaitAsync() ? "fired " : "not ";
            story += await fires.WaitAsync() ? "fired " : "not "; // since its start
            cancelled.Start(s_long);
            ValueTask<bool> wait = cancelled.WaitAsync();
            cancelled.Cancel();
            story += await wait ? "fired " : "not ";
            story += await cancelled.WaitAsync() ? "fired " : "not ";
            periodic.Start(Ms(1), Ms(1));
            for (int i = 0; i < 3; i++) story += await periodic.WaitAsync() ? "fired " : "not ";
            periodic.Cancel();
            return story + (onLoop == loop.IsCurrent ? "there" : "elsewhere");
        });
        Assert.Equal("not fired fired not not fired fired fired there", Await(rig, all));
    });

    [Fact]
    public void Many_wait_for_one_timer_and_one_may_give_up() => Run(rig =>
    {
        Loop loop = Started(rig);
        LoopTimer timer = new(loop);
        using CancellationTokenSource source = new();
        timer.Start(s_long);
        Task<bool>[] waits = [.. Enumerable.Range(0, 5)
            .Select(i => StartElsewhere(rig, () => timer.WaitAsync(i == 2 ? source.Token : default)))];
        rig.OnLoop(loop, static () => { });
        source.Cancel();
        rig.Until(() => waits[2].IsCompleted, "the one that gives up");
        Assert.Equal(source.Token,
            Assert.ThrowsAny<OperationCanceledException>(() => waits[2].GetAwaiter().GetResult()).CancellationToken);
        Assert.ThrowsAny<OperationCanceledException>(() => rig.Await(timer.WaitAsync(source.Token)));
        Assert.False(waits[0].IsCompleted);
        timer.Start(Ms(1)); // a wait continues over a restart
        for (int i = 0; i < waits.Length; i++) Assert.True(i == 2 || Await(rig, waits[i]));
    });

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void A_delay_ends_in_time_or_by_its_token(bool onLoop) => Run(rig =>
    {
        Loop loop = Started(rig);
        using CancellationTokenSource source = new();
        long start = rig.Engine.NowMs;
        Task<bool> delay = Begin(rig, loop, onLoop, async () =>
        {
            await loop.DelayAsync(Ms(20));
            return onLoop == loop.IsCurrent;
        });
        Task<bool> given = Begin(rig, loop, onLoop, async () =>
        {
            await loop.DelayAsync(s_long, source.Token);
            return true;
        });
        Assert.True(Await(rig, delay));
        Assert.True(rig.Engine.NowMs - start >= 20);
        rig.Elsewhere(source.Cancel);
        rig.Until(() => given.IsCompleted, "the cancel");
        Assert.Equal(source.Token,
            Assert.ThrowsAny<OperationCanceledException>(() => given.GetAwaiter().GetResult()).CancellationToken);
        Assert.ThrowsAny<OperationCanceledException>(() => rig.Await(loop.DelayAsync(s_long, source.Token)));
        Assert.Throws<ArgumentOutOfRangeException>(() => rig.Await(loop.DelayAsync(Ms(-1))));
        rig.Until(() => loop.Timers.Count == 0, "nothing to be left");
    });

    [Fact]
    public void A_thread_that_is_no_loops_may_block_on_a_timer() => Run(rig =>
    {
        Loop loop = Started(rig);
        string story = "";
        rig.Elsewhere(() =>
        {
            LoopTimer timer = new(loop);
            story += timer.Wait(Timeout.InfiniteTimeSpan) ? "fired " : "not "; // never started
            timer.Start(Ms(5));
            story += timer.Wait(Timeout.InfiniteTimeSpan) ? "fired " : "not ";
            story += timer.Wait(TimeSpan.Zero) ? "fired " : "not ";
            timer.Start(s_long);
            long start = rig.Engine.NowMs;
            story += timer.Wait(Ms(20)) ? "fired " : "not ";
            // the runtime's own wait may end a tick early
            story += rig.Engine.NowMs - start is >= 15 and < 15_000 ? "in time" : "wrong";
            loop.Post(timer.Cancel);
            story += timer.Wait(Ms(10_000)) ? " fired" : " cancelled";
            Assert.Throws<ArgumentOutOfRangeException>(() => timer.Wait(Ms(-2)));
        });
        rig.Join();
        Assert.Equal("not fired fired not in time cancelled", story);
    });

    [Fact]
    public void Blocking_on_a_timer_on_a_loop_throws() => Run(rig =>
    {
        Loop loop = Started(rig);
        LoopTimer timer = loop.StartTimer(Ms(1), static _ => { });
        for (int i = 0; i < 2; i++)
        {
            rig.OnLoop(rig.Engine.GetLoop(i), () =>
                Assert.Contains("would stop its own loop",
                    Assert.Throws<InvalidOperationException>(() => timer.Wait(Ms(1))).Message,
                    StringComparison.Ordinal));
        }
    });

    // ------------------------------------------------------------------ sessions, and what goes wrong

    [Fact, Contract(1)]
    public void A_sessions_timer_may_be_started_again_and_ends_permanently_with_the_session() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        LoopTimer? timer = null;
        rig.OnLoop(session, () => timer = session.CallStartTimer(Ms(1)));
        rig.Until(() => session.Count("timer") == 1, "the firing");
        rig.OnLoop(session, () => timer!.Start(Ms(1)));
        rig.Until(() => session.Count("timer") == 2, "the second firing");
        rig.OnLoop(session, () => timer!.Start(s_long));
        timer!.Restart();
        timer.Start(Ms(1), Ms(1));
        rig.Until(() => session.Count("timer") >= 5, "a period");
        Task<bool> wait = StartElsewhere(rig, () => timer.WaitAsync());
        rig.Until(() => wait.IsCompleted, "a firing that is awaited");
        session.AtDisconnected = (_, _) => timer.Start(Ms(1), Ms(1));
        session.Abort();
        session.End();
        peer.Close();

        // The connection object is reused; the old timer must not reach its next tenant.
        rig.ConnectPeer(server.EndPoint!);
        RecordingSession next = server.Connected(1);
        timer.Start(Ms(1), Ms(1));
        timer.Restart();
        rig.Pass(Ms(20));
        rig.Settle();
        rig.OnLoop(session.Loop, () => Assert.False(timer.IsActive));
        Assert.Equal(0, next.Count("timer"));
        Assert.Equal("disconnected LocalAbort", session.Events[^1]);
    }, loops: 1);

    [Fact, Contract(4)]
    public void An_exception_of_a_timer_is_a_diagnostic_event_and_waiters_are_still_notified() => Run(rig =>
    {
        rig.Expect("a timer threw");
        Loop loop = Started(rig);
        RecordingTimer timer = new(loop)
        {
            At = static (_, isCancelled) => throw (isCancelled
                ? new InvalidDataException("at the cancel") : new InvalidOperationException("at the firing"))
        };
        timer.Start(Ms(1));
        Assert.True(Await(rig, StartElsewhere(rig, () => timer.WaitAsync())));
        timer.Start(s_long);
        timer.Cancel();
        rig.Until(() => rig.Notices.Count(static n => n.Kind == DiagnosticEventKind.UserException) == 2,
            "both notices");
        Assert.Contains(rig.Notices, static n => n.Message.Contains("at the cancel", StringComparison.Ordinal));
        rig.OnLoop(loop, static () => { });
    });

    [Fact]
    public void A_timer_is_never_early_by_the_precise_clock_though_the_loop_is_busy() => Run(rig =>
    {
        if (rig.IsVirtual) return;
        Loop loop = Started(rig);
        List<double> early = [];
        int left = 40;
        bool stop = false;
        void Spin(object? state)
        {
            if (!Volatile.Read(ref stop)) loop.Post(Spin, null);
        }

        loop.Post(Spin, null); // the loop never sleeps: it fires as soon as it considers the time reached
        for (int i = 0; i < 40; i++)
        {
            long start = System.Diagnostics.Stopwatch.GetTimestamp();
            int due = 1 + (i % 13);
            loop.StartTimer(Ms(due), _ =>
            {
                double passed = System.Diagnostics.Stopwatch.GetElapsedTime(start).TotalMilliseconds;
                if (passed < due) early.Add(passed - due);
                Interlocked.Decrement(ref left);
            });
            if (i % 8 == 7) rig.Pass(Ms(3));
        }

        rig.Until(() => Volatile.Read(ref left) == 0, "all to fire");
        Volatile.Write(ref stop, true);
        Assert.True(early.Count == 0,
            string.Join(", ", early.Select(static e => e.ToString("0.000", CultureInfo.InvariantCulture))));
    });

    private static void Do(Rig rig, Loop loop, bool onLoop, Action action)
    {
        if (onLoop)
        {
            rig.OnLoop(loop, action);
            return;
        }

        rig.Elsewhere(action);
        rig.Join();
    }

    private static Task<T> Begin<T>(Rig rig, Loop loop, bool onLoop, Func<ValueTask<T>> method)
    {
        if (!onLoop) return StartElsewhere(rig, method);
        Task<T>? task = null;
        rig.OnLoop(loop, () => task = Wrap(method));
        return task!;

        static async Task<T> Wrap(Func<ValueTask<T>> method) => await method();
    }
}
