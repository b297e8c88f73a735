using Whimbrel.Connections;

namespace Whimbrel.Tests;

/// <summary>Timeouts of a session, without a clock: checks at given times.</summary>
public sealed class TimeLimitsTests
{
    private static readonly Traffic s_quiet = new(0, 0, IsRead: true, HeldMs: 0, IsSending: false);

    /// <summary>Checks whenever the timeouts require, up to this time. Returns the first one that expired, and
    /// when.</summary>
    private static (TimeLimit Passed, long AtMs) Run(TimeLimits limits, long fromMs, long toMs,
        Func<long, Traffic> traffic)
    {
        for (long now = fromMs; now <= toMs; now = Math.Max(now + 1, limits.NextLookMs))
        {
            TimeLimit passed = limits.Look(now, traffic(now));
            if (passed != TimeLimit.None) return (passed, now);
            if (limits.NextLookMs == long.MaxValue) break;
        }

        return (TimeLimit.None, toMs);
    }

    [Fact]
    public void No_check_runs_without_a_limit()
    {
        TimeLimits limits = new();
        Assert.Equal(TimeLimit.None, limits.Look(0, s_quiet));
        Assert.Equal(long.MaxValue, limits.NextLookMs);
    }

    [Theory]
    [InlineData(400)]
    [InlineData(401)]
    [InlineData(403)]
    [InlineData(604_800_000)]
    public void Silence_is_reported_never_early_and_at_most_a_quarter_late(long limitMs)
    {
        for (long lastByte = 0; lastByte <= limitMs; lastByte += Math.Max(1, limitMs / 37))
        {
            foreach (int kind in (int[])[(int)TimeLimit.Idle, (int)TimeLimit.Receive, (int)TimeLimit.Send])
            {
                TimeLimits limits = new();
                limits.Set((TimeLimit)kind, limitMs);
                (TimeLimit passed, long at) = Run(limits, 0, 10 * limitMs, now => s_quiet with
                {
                    Received = now >= lastByte ? 1 : 0,
                    Sent = now >= lastByte ? 1 : 0,
                    IsSending = kind == (int)TimeLimit.Send
                });
                Assert.Equal((TimeLimit)kind, passed);
                Assert.InRange(at - lastByte, limitMs, limitMs + ((limitMs + 3) / 4));
            }
        }
    }

    [Fact]
    public void A_reported_silence_starts_again()
    {
        TimeLimits limits = new();
        limits.Set(TimeLimit.Receive, 400);
        (_, long first) = Run(limits, 0, 5_000, static _ => s_quiet);
        (TimeLimit passed, long second) = Run(limits, first + 1, 5_000, static _ => s_quiet);
        Assert.Equal(TimeLimit.Receive, passed);
        Assert.InRange(second - first, 400, 500);
    }

    [Fact]
    public void A_session_that_is_not_read_is_not_silent()
    {
        TimeLimits limits = new();
        limits.Set(TimeLimit.Receive, 400);
        // Held for the whole time.
        Assert.Equal(TimeLimit.None, Run(limits, 0, 5_000, static _ => s_quiet with { IsRead = false }).Passed);
        // A hold that no check sees: at 5,350 for a millisecond.
        limits.Set(TimeLimit.Receive, 400);
        (TimeLimit passed, long at) = Run(limits, 5_001, 9_000,
            static now => s_quiet with { HeldMs = now > 5_350 ? 1 : 0 });
        Assert.Equal(TimeLimit.Receive, passed);
        Assert.InRange(at - 5_350, 400, 500);
    }

    [Fact]
    public void A_peer_with_data_to_read_need_not_send_and_the_send_limit_counts_instead()
    {
        TimeLimits limits = new();
        limits.Set(TimeLimit.Receive, 400);
        limits.Set(TimeLimit.Send, 1_000);
        (TimeLimit passed, long at) = Run(limits, 0, 5_000, static now => s_quiet with { IsSending = now >= 100 });
        Assert.Equal(TimeLimit.Send, passed);
        Assert.InRange(at - 100, 1_000, 1_250);
    }

    [Fact]
    public void Having_nothing_to_send_is_no_silence_of_a_reading_peer()
    {
        TimeLimits limits = new();
        limits.Set(TimeLimit.Send, 400);
        Assert.Equal(TimeLimit.None, Run(limits, 0, 5_000, static _ => s_quiet).Passed);
        // The first check that sees it does not count: the data may have been queued just now.
        (TimeLimit passed, long at) = Run(limits, 5_001, 9_000,
            static now => s_quiet with { IsSending = now >= 5_399 });
        Assert.Equal(TimeLimit.Send, passed);
        Assert.InRange(at - 5_399, 400, 500);
    }

    [Fact]
    public void A_limit_that_is_set_again_starts_again_and_a_removed_one_does_not_expire()
    {
        TimeLimits limits = new();
        limits.SetDefault(TimeLimit.Idle, 400);
        limits.SetDefault(TimeLimit.Idle, 7_000);
        Assert.Equal(400, limits.Get(TimeLimit.Idle));
        Assert.Null(limits.Get(TimeLimit.Send));
        limits.Look(0, s_quiet);
        limits.Look(100, s_quiet);
        limits.Look(200, s_quiet);
        limits.Look(300, s_quiet);
        limits.Set(TimeLimit.Idle, 400);
        (TimeLimit passed, long at) = Run(limits, 310, 5_000, static _ => s_quiet);
        Assert.Equal((TimeLimit.Idle, 710), (passed, at));
        limits.Set(TimeLimit.Idle, 0);
        limits.SetDefault(TimeLimit.Idle, 400);
        Assert.Equal(0, limits.Get(TimeLimit.Idle));
        Assert.Equal(TimeLimit.None, Run(limits, 711, 5_000, static _ => s_quiet).Passed);
        Assert.Equal(long.MaxValue, limits.NextLookMs);
    }

    [Fact]
    public void A_phase_expires_once_at_its_limit_and_a_restarted_one_later()
    {
        SessionPhase head = new("the head", TimeSpan.FromSeconds(1));
        TimeLimits limits = new();
        limits.Begin(head, 0, 0, 0);
        Assert.Equal(TimeLimit.None, limits.Look(0, s_quiet));
        Assert.Equal(1_000, limits.NextLookMs);
        limits.Begin(head, 700, 0, 0);
        Assert.Equal(TimeLimit.None, limits.Look(1_000, s_quiet));
        Assert.Equal(1_700, limits.NextLookMs);
        Assert.Equal(TimeLimit.None, limits.Look(1_699, s_quiet));
        Assert.Equal(TimeLimit.Phase, limits.Look(1_700, s_quiet));
        Assert.Same(head, limits.PassedPhase);
        Assert.False(limits.HasMovedOn);
        Assert.Equal(TimeLimit.None, limits.Look(9_000, s_quiet));
        Assert.Equal(long.MaxValue, limits.NextLookMs);
        limits.Begin(head, 9_000, 0, 0);
        Assert.True(limits.HasMovedOn);
        Assert.Equal(TimeLimit.Phase, limits.Look(10_000, s_quiet));
        limits.Begin(head, 10_000, 0, 0);
        limits.Begin(null, 0, 0, 0);
        Assert.Equal(TimeLimit.None, limits.Look(99_000, s_quiet));
    }

    [Fact]
    public void Bytes_prolong_a_phase_with_a_rate_and_dripping_does_not()
    {
        SessionPhase body = new("the body", TimeSpan.FromSeconds(5), leastBytesPerSecond: 100);
        // Half of the required rate: 5 s plus the time that the bytes earn, which is half of the time.
        TimeLimits limits = new();
        limits.Begin(body, 0, received: 1_000, 0);
        (TimeLimit passed, long at) = Run(limits, 0, 60_000,
            static now => s_quiet with { Received = 1_000 + (now / 20) });
        Assert.Equal(TimeLimit.Phase, passed);
        Assert.InRange(at, 9_900, 10_050);
        // Exactly the required rate.
        limits = new();
        limits.Begin(body, 0, received: 1_000, 0);
        Assert.Equal(TimeLimit.None,
            Run(limits, 0, 600_000, static now => s_quiet with { Received = 1_000 + (now / 10) }).Passed);
    }

    [Fact]
    public void Time_without_reading_does_not_count_against_a_rate()
    {
        SessionPhase body = new("the body", TimeSpan.FromSeconds(4), leastBytesPerSecond: 100);
        TimeLimits limits = new();
        limits.Begin(body, 0, 0, 0);
        // Paused from 1 s to 21 s, and silent.
        (TimeLimit passed, long at) = Run(limits, 0, 60_000,
            static now => s_quiet with { IsRead = now is < 1_000 or >= 21_000, HeldMs = now >= 21_000 ? 20_000 : 0 });
        Assert.Equal(TimeLimit.Phase, passed);
        Assert.Equal(24_000, at);
    }

    [Fact]
    public void A_phase_that_another_thread_begins_is_seen_or_asks_for_a_look()
    {
        SessionPhase soon = new("soon", TimeSpan.FromMilliseconds(10));
        SessionPhase late = new("late", TimeSpan.FromDays(1));
        const int Rounds = 50_000;
        TimeLimits[] all = new TimeLimits[Rounds];
        for (int i = 0; i < Rounds; i++)
        {
            all[i] = new TimeLimits();
            all[i].Begin(late, 0, 0, 0);
            // A check is due now and runs: no further check is requested.
            all[i].LooksAt(0);
        }

        bool[] asked = new bool[Rounds];
        int round = -1, done = -1;
        Thread other = new(() =>
        {
            for (int i = 0; i < Rounds; i++)
            {
                while (Volatile.Read(ref round) < i) Thread.SpinWait(i % 8);
                all[i].Begin(soon, 0, 0, 0);
                Interlocked.MemoryBarrier();
                asked[i] = soon.LimitMs < all[i].NextLookMs;
                Volatile.Write(ref done, i);
            }
        });
        other.Start();
        for (int i = 0; i < Rounds; i++)
        {
            Volatile.Write(ref round, i);
            all[i].Look(0, s_quiet);
            SpinWait.SpinUntil(() => Volatile.Read(ref done) >= i);
        }

        other.Join();
        for (int i = 0; i < Rounds; i++)
            Assert.True(asked[i] || all[i].NextLookMs <= soon.LimitMs,
                $"round {i}: no check before {all[i].NextLookMs}");
    }

    [Theory]
    [InlineData(9, 0)]
    [InlineData(604_800_001, 0)]
    [InlineData(1_000, -1)]
    public void A_phase_checks_its_numbers(long limitMs, int rate) =>
        Assert.ThrowsAny<ArgumentOutOfRangeException>(
            () => new SessionPhase("x", TimeSpan.FromMilliseconds(limitMs), rate));
}
