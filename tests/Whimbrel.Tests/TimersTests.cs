using Whimbrel.Engines;
using Whimbrel.Testing;

namespace Whimbrel.Tests;

public sealed class TimersTests
{
    private static readonly Loop s_loop = new MemoryEngine(1).GetLoop(0);

    private static LoopTimer Timer(Action<object?> callback, long periodMs = 0) => new(s_loop, callback, null, periodMs);

    [Fact]
    public void Random_operations_agree_with_a_sorted_model()
    {
        foreach (int seed in Seeds.Some(20))
        {
            Random random = new(seed);
            Timers timers = new();
            Dictionary<LoopTimer, long> model = [];
            List<(LoopTimer Timer, long Due)> fired = [];
            long now = 0;
            for (int step = 0; step < 3_000; step++)
            {
                switch (random.Next(10))
                {
                    case < 5:
                        LoopTimer? timer = null;
                        timer = Timer(_ =>
                        {
                            fired.Add((timer!, model[timer!]));
                            model.Remove(timer!);
                        });
                        model[timer] = now + random.Next(50);
                        timers.Add(timer, model[timer]);
                        break;
                    case < 8 when model.Count > 0:
                        LoopTimer victim = model.Keys.ElementAt(random.Next(model.Count));
                        timers.Remove(victim);
                        Assert.False(victim.IsActive);
                        model.Remove(victim);
                        if (random.Next(2) == 0) break;
                        // The same timer again, at another time.
                        model[victim] = now + random.Next(50);
                        timers.Add(victim, model[victim]);
                        break;
                    default:
                        now += random.Next(20);
                        fired.Clear();
                        int due = model.Count(pair => pair.Value <= now);
                        timers.Fire(now, s_loop);
                        Assert.Equal(due, fired.Count);
                        Assert.Equal(fired.Select(f => f.Due).Order(), fired.Select(f => f.Due));
                        break;
                }

                Assert.Equal(model.Count, timers.Count);
                Assert.Equal(model.Count == 0 ? long.MaxValue : model.Values.Min(), timers.NextDueMs);
            }
        }
    }

    [Fact]
    public void Timers_with_equal_dues_all_fire_once()
    {
        Timers timers = new();
        int fired = 0;
        for (int i = 0; i < 100; i++) timers.Add(Timer(_ => fired++), 5);
        timers.Fire(4, s_loop);
        Assert.Equal(0, fired);
        timers.Fire(5, s_loop);
        Assert.Equal(100, fired);
        Assert.Equal(0, timers.Count);
    }

    [Fact]
    public void A_timer_that_a_callback_cancels_does_not_fire()
    {
        Timers timers = new();
        int fired = 0;
        LoopTimer second = Timer(_ => fired++);
        timers.Add(Timer(_ => timers.Remove(second)), 1);
        timers.Add(second, 2);
        timers.Fire(10, s_loop);
        Assert.Equal(0, fired);
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
            timers.Add(timer!, 0);
        });
        timers.Add(timer, 0);
        timers.Fire(0, s_loop);
        Assert.Equal(1, fired);
        timers.Fire(0, s_loop);
        Assert.Equal(2, fired);
    }

    [Fact]
    public void A_periodic_timer_that_was_held_up_fires_once_and_goes_on()
    {
        Timers timers = new();
        int fired = 0;
        timers.Add(Timer(_ => fired++, periodMs: 10), 10);
        timers.Fire(10, s_loop);
        Assert.Equal((1, 20), (fired, timers.NextDueMs));
        timers.Fire(95, s_loop);
        Assert.Equal((2, 105), (fired, timers.NextDueMs));
    }

    [Fact]
    public void A_cancelled_timer_is_not_added()
    {
        Timers timers = new();
        LoopTimer timer = Timer(static _ => { });
        timer.Cancel();
        timers.Add(timer, 1);
        Assert.Equal(0, timers.Count);
    }

    [Fact]
    public void A_timer_whose_callback_throws_does_not_keep_others_from_firing()
    {
        List<Notice> notices = [];
        MemoryEngine engine = new(1, onNotice: notices.Add);
        Timers timers = new();
        int fired = 0;
        timers.Add(new LoopTimer(engine.GetLoop(0), static _ => throw new FormatException("no"), null, 0), 1);
        timers.Add(new LoopTimer(engine.GetLoop(0), _ => fired++, null, 0), 2);
        timers.Fire(2, engine.GetLoop(0));
        Assert.Equal(1, fired);
        Assert.Contains("FormatException", Assert.Single(notices).Message, StringComparison.Ordinal);
    }
}
