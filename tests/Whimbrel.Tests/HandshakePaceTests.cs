using Whimbrel.Connections;

namespace Whimbrel.Tests;

/// <summary>The share of a loop iteration for handshakes, without a loop: the ticks are arguments.</summary>
public sealed class HandshakePaceTests
{
    private static readonly long s_most = HandshakePace.MostTicks;

    [Fact]
    public void No_handshake_step_is_made_outside_its_share_of_the_iteration()
    {
        HandshakePace pace = new();
        Assert.False(pace.HasTime(isHello: true));
        pace.Begin();
        Assert.True(pace.HasTime(isHello: true));
        pace.End();
        Assert.False(pace.HasTime(isHello: false));
    }

    [Fact]
    public void One_step_is_made_in_every_turn_however_long_it_takes()
    {
        HandshakePace pace = new();
        for (int turn = 0; turn < 100; turn++)
        {
            pace.TurnBegins();
            pace.Begin();
            Assert.True(pace.HasTime(isHello: true));
            pace.Count(isHello: true, 50 * s_most);
            Assert.False(pace.HasTime(isHello: true));
            Assert.False(pace.HasTime(isHello: false));
            pace.End();
        }
    }

    [Fact]
    public void A_step_that_would_end_too_late_by_the_average_of_its_kind_waits()
    {
        HandshakePace pace = new();
        // A ClientHello takes a quarter of the time on average, and any other step a tenth.
        for (int i = 0; i < 200; i++)
        {
            pace.Count(isHello: true, s_most / 4);
            pace.Count(isHello: false, s_most / 10);
        }

        pace.TurnBegins();
        pace.Begin();
        pace.Count(isHello: false, s_most * 8 / 10);
        Assert.False(pace.HasTime(isHello: true));
        Assert.True(pace.HasTime(isHello: false));
        pace.Count(isHello: false, s_most / 10);
        pace.Count(isHello: false, s_most / 10);
        Assert.False(pace.HasTime(isHello: false));
        pace.TurnBegins();
        Assert.True(pace.HasTime(isHello: true));
    }

    [Fact]
    public void One_step_that_was_held_up_does_not_keep_the_others_waiting_for_long()
    {
        HandshakePace pace = new();
        pace.Count(isHello: false, 1_000 * s_most);
        pace.TurnBegins();
        pace.Begin();
        pace.Count(isHello: true, s_most / 2);
        // It counts for an eighth of its maximum.
        Assert.True(pace.HasTime(isHello: false));
    }
}
