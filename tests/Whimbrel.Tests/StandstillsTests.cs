using Whimbrel.Diagnostics;

namespace Whimbrel.Tests;

/// <summary>A suspended process is distinguished from a blocking callback.</summary>
public sealed class StandstillsTests
{
    [Fact]
    public void A_check_that_is_much_too_late_was_a_standstill()
    {
        Standstills standstills = new();
        standstills.Rests(1_000, 5);
        standstills.Looks(6_005);
        Assert.Equal(5_000, standstills.Within(0, 10_000));
        Assert.Equal(1_000, standstills.Within(5_005, 7_000));
        Assert.Equal(0, standstills.Within(6_005, 7_000));
        Assert.Equal(0, standstills.Within(0, 1_005));
    }

    [Fact]
    public void A_standstill_counts_before_the_next_check_as_well()
    {
        Standstills standstills = new();
        standstills.Rests(1_000, 5);
        Assert.Equal(0, standstills.Within(1_000, 1_005 + Standstills.ToleranceMs));
        Assert.Equal(4_995, standstills.Within(1_000, 6_000));
    }

    [Fact]
    public void A_check_that_is_a_little_late_is_only_a_busy_machine()
    {
        Standstills standstills = new();
        standstills.Rests(1_000, 5);
        standstills.Looks(1_005 + Standstills.ToleranceMs);
        Assert.Equal(0, standstills.Within(0, 10_000));
    }

    [Fact]
    public void Work_between_two_checks_is_no_standstill()
    {
        Standstills standstills = new();
        standstills.Rests(1_000, 5);
        standstills.Looks(1_006);
        Assert.Equal(0, standstills.Within(1_000, 9_000));
        standstills.Rests(9_000, 5);
        standstills.Looks(9_005);
        Assert.Equal(0, standstills.Within(1_000, 9_005));
    }

    [Fact]
    public void The_last_ones_are_remembered_and_added_up()
    {
        Standstills standstills = new();
        for (int i = 0; i < 40; i++)
        {
            standstills.Rests(i * 1_000, 0);
            standstills.Looks((i * 1_000) + 100);
        }

        Assert.Equal(1_600, standstills.Within(0, 40_000));
        Assert.Equal(200, standstills.Within(38_000, 40_000));
    }
}
