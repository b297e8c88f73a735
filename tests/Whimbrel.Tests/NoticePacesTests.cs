using Whimbrel.Diagnostics;

namespace Whimbrel.Tests;

public sealed class NoticePacesTests
{
    [Fact]
    public void One_a_minute_for_each_and_the_others_are_counted()
    {
        NoticePaces paces = new();
        Assert.True(paces.TryTake("a", 1_000, out long leftOut));
        Assert.Equal(0, leftOut);
        for (int i = 0; i < 5; i++) Assert.False(paces.TryTake("a", 1_000 + i, out _));
        Assert.True(paces.TryTake("b", 1_000, out _));
        Assert.False(paces.TryTake("a", 60_999, out _));
        Assert.True(paces.TryTake("a", 61_000, out leftOut));
        Assert.Equal(6, leftOut);
        Assert.Equal(" (6 more since the last notice of this.)", NoticePaces.LeftOutText(leftOut));
        Assert.Equal("", NoticePaces.LeftOutText(0));
    }

    [Fact]
    public void More_kinds_than_places_share_a_place_until_old_ones_are_forgotten()
    {
        NoticePaces paces = new();
        for (int i = 0; i < NoticePaces.MostKeys; i++) Assert.True(paces.TryTake($"{i}", 0, out _));
        Assert.True(paces.TryTake("one more", 0, out _));
        Assert.False(paces.TryTake("and another", 0, out _));
        Assert.True(paces.TryTake("and another", 60_001, out _));
        Assert.True(paces.TryTake("a third", 60_001, out _));
    }
}
