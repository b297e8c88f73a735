using Whimbrel.Engines;
using Whimbrel.Testing;

namespace Whimbrel.Tests;

public sealed class TimersTests
{
    private static readonly Loop s_loop = new MemoryEngine(1).GetLoop(0);

    private static LoopTimer Timer(Action<object?> callback, long periodMs = 0) =>
        new(s_loop, callback, null) { PeriodMs = periodMs };

    // What the queue must know of a timer: its due time, and its position, which is not later.
    private sealed class Expected
    {
        internal long Due { get; set; }

        internal long Stands { get; set; }
    }

    [Fact]
    public void Random_operations_agree_with_a_sorted_model()
    {
        foreach (int seed in Seeds.Some(20))
        {
            Random random = new(seed);
            Timers timers = new();
            Dictionary<LoopTimer, Expected> model = [];
            List<long> fired = [];
            long now = 0;
            for (int step = 0; step < 3_000; step++)
            {
                switch (random.Next(12))
                {
                    case < 5:
                        LoopTimer? timer = null;
                        timer = Timer(
                            _ =>
                            {
                                Expected it = model[timer!];
                                fired.Add(it.Due);
                                long next = it.Due + timer!.PeriodMs;
                                it.Due = it.Stands = next > now ? next : now + timer.PeriodMs;
                                if (timer.PeriodMs == 0) model.Remove(timer);
                                if (random.Next(4) != 0) return;
                                // Restarted by its own callback, also with a time in the past: that waits for the next
                                // iteration.
                                long wanted = now + random.Next(-5, 30);
                                it.Due = wanted;
                                it.Stands = timer.PeriodMs == 0 ? wanted : Math.Min(it.Stands, wanted);
                                model[timer] = it;
                                Assert.True(timers.Set(timer, wanted));
                            },
                            periodMs: random.Next(8) == 0 ? random.Next(1, 60) : 0);
                        long due = now + random.Next(50);
                        model[timer] = new Expected { Due = due, Stands = due };
                        Assert.True(timers.Set(timer, due));
                        break;
                    case < 7 when model.Count > 0:
                        // A queued timer is moved to an earlier or a later time.
                        LoopTimer moved = model.Keys.ElementAt(random.Next(model.Count));
                        Expected place = model[moved];
                        place.Due = now + random.Next(80);
                        place.Stands = Math.Min(place.Stands, place.Due);
                        Assert.True(timers.Set(moved, place.Due));
                        break;
                    case < 10 when model.Count > 0:
                        LoopTimer victim = model.Keys.ElementAt(random.Next(model.Count));
                        timers.Remove(victim);
                        Assert.False(victim.IsActive);
                        model.Remove(victim);
                        if (random.Next(2) == 0) break;
                        // The same timer again, at another time.
                        long again = now + random.Next(50);
                        model[victim] = new Expected { Due = again, Stands = again };
                        Assert.True(timers.Set(victim, again));
                        break;
                    default:
                        now += random.Next(20);
                        fired.Clear();
                        List<long> dues = [.. model.Values.Select(it => it.Due).Where(at => at <= now).Order()];
                        timers.Fire(now);
                        Assert.Equal(dues, fired);
                        // Timers that were postponed and reached the top; those that callbacks started for the past.
                        foreach (Expected it in model.Values.Where(it => it.Stands <= now)) it.Stands = it.Due;
                        break;
                }

                Assert.Equal(model.Count, timers.Count);
                Assert.Equal(model.Count == 0 ? long.MaxValue : model.Values.Min(it => it.Stands), timers.NextDueMs);
            }

            Assert.All(model, pair => Assert.Equal(pair.Value.Due, pair.Key.DueMs));
        }
    }

    [Fact]
    public void Timers_with_equal_dues_all_fire_once()
    {
        Timers timers = new();
        int fired = 0;
        for (int i = 0; i < 100; i++) timers.Set(Timer(_ => fired++), 5);
        timers.Fire(4);
        Assert.Equal(0, fired);
        timers.Fire(5);
        Assert.Equal(100, fired);
        Assert.Equal(0, timers.Count);
    }

    [Fact]
    public void A_timer_that_a_callback_cancels_does_not_fire()
    {
        Timers timers = new();
        int fired = 0;
        LoopTimer second = Timer(_ => fired++);
        timers.Set(Timer(_ => timers.Remove(second)), 1);
        timers.Set(second, 2);
        timers.Fire(10);
        Assert.Equal(0, fired);
        Assert.Equal(0, timers.Count);
    }

    [Fact]
    public void A_timer_that_re_arms_itself_with_no_delay_waits_for_the_next_turn()
    {
        Timers timers = new();
        int fired = 0;
        LoopTimer? timer = null;
        timer = Timer(_ =>
        {
            fired++;
            timers.Set(timer!, 0);
        });
        timers.Set(timer, 0);
        timers.Fire(0);
        Assert.Equal(1, fired);
        timers.Fire(0);
        Assert.Equal(2, fired);
    }

    [Fact]
    public void A_timer_started_by_a_callback_waits_for_the_next_turn_however_many_others_are_queued()
    {
        Timers timers = new();
        int fired = 0;
        int others = 0;
        LoopTimer? timer = null;
        timer = Timer(_ =>
        {
            fired++;
            // Even one that was due long ago.
            timers.Set(timer!, fired == 1 ? 10 : 3);
        });
        timers.Set(timer, 10);
        for (int i = 0; i < 50; i++) timers.Set(Timer(_ => others++), 10);
        for (int i = 0; i < 50; i++) timers.Set(Timer(_ => others++), 1_000);
        timers.Fire(10);
        Assert.Equal((1, 50, 51), (fired, others, timers.Count));
        // And the loop does not sleep until then.
        Assert.Equal(10, timers.NextDueMs);
        timers.Fire(10);
        Assert.Equal((2, 50, 3), (fired, others, timers.NextDueMs));
        timers.Fire(10);
        Assert.Equal((3, 50), (fired, others));
    }

    [Fact]
    public void Timers_that_start_each_other_fire_once_in_a_turn()
    {
        Timers timers = new();
        int fired = 0;
        LoopTimer? ping = null;
        LoopTimer? pong = null;
        ping = Timer(_ =>
        {
            fired++;
            timers.Set(pong!, 5);
        });
        pong = Timer(_ =>
        {
            fired++;
            timers.Set(ping!, 5);
        });
        timers.Set(ping, 5);
        for (int i = 0; i < 50; i++) timers.Set(Timer(static _ => { }), 1_000);
        for (int turn = 1; turn <= 10; turn++)
        {
            timers.Fire(5);
            Assert.Equal(turn, fired);
            Assert.Equal(5, timers.NextDueMs);
        }

        // A timer that a callback starts and a later callback of the same iteration cancels does not fire: ping starts
        // pong.
        timers.Set(Timer(_ => timers.Remove(pong)), 6);
        timers.Fire(6);
        Assert.Equal((11, 1_000), (fired, timers.NextDueMs));
    }

    [Fact]
    public void A_due_timer_that_a_callback_starts_again_waits_for_its_new_start()
    {
        Timers timers = new();
        List<string> fired = [];
        LoopTimer atOnce = Timer(_ => fired.Add("at once"));
        LoopTimer later = Timer(_ => fired.Add("later"));
        LoopTimer twice = Timer(_ => fired.Add("twice"));
        timers.Set(
            Timer(_ =>
            {
                timers.Set(atOnce, 10);
                timers.Set(later, 15);
                timers.Set(twice, 10);
                timers.Set(twice, 12);
            }),
            1);
        timers.Set(atOnce, 2);
        timers.Set(later, 2);
        timers.Set(twice, 20);
        for (int i = 0; i < 20; i++) timers.Set(Timer(_ => fired.Add("other")), 3);
        timers.Fire(10);
        Assert.Equal(Enumerable.Repeat("other", 20), fired);
        fired.Clear();
        timers.Fire(10);
        Assert.Equal(["at once"], fired);
        timers.Fire(15);
        Assert.Equal(["at once", "twice", "later"], fired);
        Assert.Equal(0, timers.Count);
    }

    // ------------------------------------------------------------------ restarted while queued

    [Fact]
    public void A_timer_started_again_for_a_later_time_stays_and_moves_when_it_surfaces()
    {
        Timers timers = new();
        List<string> fired = [];
        LoopTimer pushed = Timer(_ => fired.Add("pushed"));
        timers.Set(pushed, 10);
        timers.Set(Timer(_ => fired.Add("other")), 30);
        for (long due = 11; due <= 50; due++) timers.Set(pushed, due);
        // It stays at its position: the loop wakes up once without need.
        Assert.Equal((10, 50), (timers.NextDueMs, pushed.DueMs));
        timers.Fire(10);
        Assert.Empty(fired);
        Assert.Equal((30, 2), (timers.NextDueMs, timers.Count));
        Assert.True(pushed.IsActive);
        timers.Fire(49);
        Assert.Equal(["other"], fired);
        Assert.Equal(50, timers.NextDueMs);
        timers.Fire(50);
        Assert.Equal(["other", "pushed"], fired);
        Assert.False(pushed.IsActive);
    }

    [Fact]
    public void A_timer_started_again_for_an_earlier_time_moves_at_once()
    {
        Timers timers = new();
        List<string> fired = [];
        LoopTimer pulled = Timer(_ => fired.Add("pulled"));
        for (int i = 0; i < 20; i++) timers.Set(Timer(_ => fired.Add("other")), 30);
        timers.Set(pulled, 50);
        timers.Set(pulled, 20);
        Assert.Equal((20, 21), (timers.NextDueMs, timers.Count));
        timers.Fire(20);
        Assert.Equal(["pulled"], fired);
    }

    [Fact]
    public void A_timer_postponed_and_then_moved_forward_a_little_keeps_its_position()
    {
        Timers timers = new();
        int fired = 0;
        LoopTimer timer = Timer(_ => fired++);
        timers.Set(timer, 10);
        timers.Set(timer, 100);
        // Earlier than its due time, later than its position.
        timers.Set(timer, 40);
        Assert.Equal(10, timers.NextDueMs);
        timers.Fire(39);
        Assert.Equal((0, 40), (fired, timers.NextDueMs));
        timers.Fire(40);
        Assert.Equal((1, 0), (fired, timers.Count));
    }

    [Fact]
    public void Timers_that_were_pushed_back_fire_in_the_order_of_their_new_times()
    {
        Timers timers = new();
        List<int> fired = [];
        const int count = 50;
        for (int i = 0; i < count; i++)
        {
            int number = i;
            LoopTimer timer = Timer(_ => fired.Add(number));
            timers.Set(timer, i);
            timers.Set(timer, 1_000 - i);
        }

        // Late enough for all of them, in one iteration.
        timers.Fire(2_000);
        Assert.Equal(Enumerable.Range(0, count).Reverse(), fired);
    }

    [Fact]
    public void A_timer_that_was_pushed_back_and_cancelled_leaves_nothing()
    {
        Timers timers = new();
        int fired = 0;
        LoopTimer timer = Timer(_ => fired++);
        timers.Set(timer, 10);
        timers.Set(timer, 50);
        timers.Remove(timer);
        timers.Remove(timer);
        Assert.Equal((0, long.MaxValue), (timers.Count, timers.NextDueMs));
        timers.Fire(100);
        Assert.Equal(0, fired);
    }

    // ------------------------------------------------------------------ periodic

    [Fact]
    public void A_delayed_periodic_timer_fires_once_and_continues()
    {
        Timers timers = new();
        int fired = 0;
        timers.Set(Timer(_ => fired++, periodMs: 10), 10);
        timers.Fire(10);
        Assert.Equal((1, 20), (fired, timers.NextDueMs));
        timers.Fire(95);
        Assert.Equal((2, 105), (fired, timers.NextDueMs));
        // Late by less than a period: the phase stays.
        timers.Fire(109);
        Assert.Equal((3, 115), (fired, timers.NextDueMs));
        // Late by exactly one period: the tick due now counts as the missed one.
        timers.Fire(125);
        Assert.Equal((4, 135), (fired, timers.NextDueMs));
    }

    [Fact]
    public void A_periodic_timer_may_be_cancelled_or_started_again_by_its_own_callback()
    {
        Timers timers = new();
        int fired = 0;
        LoopTimer? timer = null;
        timer = Timer(
            _ =>
            {
                if (++fired == 1) timers.Set(timer!, 70);
                else timers.Remove(timer!);
            },
            periodMs: 10);
        timers.Set(timer, 10);
        timers.Fire(10);
        // Its next time was 20 already; it reaches the top there and moves.
        Assert.Equal((1, 20), (fired, timers.NextDueMs));
        timers.Fire(69);
        Assert.Equal((1, 70), (fired, timers.NextDueMs));
        timers.Fire(70);
        Assert.Equal((2, 0), (fired, timers.Count));
    }

    // ------------------------------------------------------------------ cancel and close

    [Fact]
    public void A_timer_cancelled_before_its_loop_took_the_start_never_fires()
    {
        MemoryEngine engine = new(1, faults: MemoryFaults.None);
        Loop loop = engine.GetLoop(0);
        int fired = 0;
        LoopTimer timer = loop.StartTimer(TimeSpan.FromMilliseconds(1), _ => fired++);
        Assert.True(timer.IsActive);
        timer.Cancel();
        engine.RunFor(TimeSpan.FromSeconds(1));
        Assert.Equal((0, 0), (fired, loop.Timers.Count));
        Assert.False(timer.IsActive);
        // A later start counts again.
        timer.Start(TimeSpan.FromMilliseconds(1));
        engine.RunFor(TimeSpan.FromSeconds(1));
        Assert.Equal(1, fired);
    }

    [Fact]
    public async Task Closing_cancels_everything_that_is_queued_once_and_refuses_what_comes_after()
    {
        MemoryEngine engine = new(1, faults: MemoryFaults.None);
        Loop loop = engine.GetLoop(0);
        Timers timers = new();
        const int count = 100;
        int[] told = new int[count];
        int fired = 0;
        List<LoopTimer> all = [];
        for (int i = 0; i < count; i++)
        {
            Action<object?, bool> tell = (number, isCancelled) => told[(int)number!] += isCancelled ? 1 : 1_000;
            LoopTimer timer = new(loop, tell, i)
            {
                PeriodMs = i % 3
            };
            all.Add(timer);
            timers.Set(timer, 100 - i);
        }

        timers.Set(new LoopTimer(loop, (Action<object?>)(_ => fired++), null), 50);
        ValueTask<bool> wait = all[7].WaitAsync(TestContext.Current.CancellationToken);
        engine.RunUntilIdle();
        Assert.False(wait.IsCompleted);

        timers.Close();
        Assert.Equal((0, long.MaxValue), (timers.Count, timers.NextDueMs));
        Assert.All(all, timer => Assert.False(timer.IsActive));
        // In their own iterations, not inside the call.
        Assert.All(told, times => Assert.Equal(0, times));
        engine.RunUntilIdle();
        Assert.All(told, times => Assert.Equal(1, times));
        Assert.True(wait.IsCompletedSuccessfully);
        Assert.False(await wait);

        Assert.False(timers.Set(all[0], 1));
        Assert.False(all[0].IsActive);
        timers.Close();
        timers.Fire(1_000);
        engine.RunUntilIdle();
        Assert.Equal(0, fired);
        Assert.All(told, times => Assert.Equal(1, times));
    }

    [Fact]
    public void A_queue_that_is_opened_again_takes_the_same_timers()
    {
        Timers timers = new();
        int fired = 0;
        LoopTimer timer = Timer(_ => fired++);
        timers.Set(timer, 10);
        timers.Close();
        timers.Open();
        timers.Fire(10);
        Assert.Equal(0, fired);
        Assert.True(timers.Set(timer, 20));
        timers.Fire(20);
        Assert.Equal(1, fired);
    }

    [Fact]
    public void Closing_from_a_callback_ends_the_firing()
    {
        Timers timers = new();
        int fired = 0;
        timers.Set(Timer(_ => timers.Close(), periodMs: 5), 1);
        for (int i = 0; i < 10; i++) timers.Set(Timer(_ => fired++), 2);
        timers.Fire(10);
        Assert.Equal((0, 0), (fired, timers.Count));
    }

    [Fact]
    public void A_timer_with_a_throwing_callback_does_not_keep_others_from_firing()
    {
        List<DiagnosticEvent> notices = [];
        MemoryEngine engine = new(1, onDiagnosticEvent: notices.Add);
        Timers timers = new();
        int fired = 0;
        timers.Set(new LoopTimer(engine.GetLoop(0),
            (Action<object?>)(static _ => throw new FormatException("no")), null), 1);
        timers.Set(new LoopTimer(engine.GetLoop(0), (Action<object?>)(_ => fired++), null), 2);
        timers.Fire(2);
        Assert.Equal(1, fired);
        Assert.Contains("FormatException", Assert.Single(notices).Message, StringComparison.Ordinal);
    }
}
