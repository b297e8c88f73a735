using HdrHistogram;
using Whimbrel.Tool.Bench;

namespace Whimbrel.Tool.Tests;

// The parts of the load driver that need no server.
public class LoadPartsTests
{
    [Fact]
    public void The_next_moment_is_after_now_for_each_rate()
    {
        Random random = new(1);
        foreach (int rate in (int[])[1, 3, 1000, 333_333, 10_000_000])
        {
            Schedule schedule = new(1_000_000, 1e9 / rate);
            Assert.Equal(1_000_000, schedule.NextAfter(5));
            for (int i = 0; i < 1000; i++)
            {
                long now = random.NextInt64(1_000_000, 1L << 42), next = schedule.NextAfter(now);
                Assert.True(next > now && next - now <= Math.Ceiling(1e9 / rate), $"{rate}: {now} {next}");
            }
        }
    }

    [Fact]
    public void Messages_in_flight_are_taken_once_in_any_order_up_to_the_limit()
    {
        InFlight flight = new(3);
        for (int i = 0; i < 3; i++) flight.Add(i, 10 + i);
        Assert.True(flight.IsFull);
        Assert.True(flight.TryTake(1, out long due, out long sent));
        Assert.Equal((1, 11), (due, sent));
        // The oldest is still there, so there is no room.
        Assert.True(flight.IsFull);
        Assert.False(flight.TryTake(1, out _, out _));
        Assert.False(flight.TryTake(3, out _, out _));
        Assert.False(flight.TryTake(-1, out _, out _));
        Assert.True(flight.TryTake(0, out _, out _));
        Assert.Equal((2, 3), (flight.Oldest, flight.Next));
        flight.Add(7, 17);
        Assert.True(flight.IsOldestFrom(12));
        Assert.False(flight.IsOldestFrom(11));
        Assert.True(flight.TryTake(2, out _, out _) && flight.TryTake(3, out due, out _) && due == 7);
        Assert.True(flight.IsEmpty);
    }

    [Fact]
    public void Beyond_the_limit_of_kinds_errors_are_counted_as_other()
    {
        ErrorCounts errors = new();
        for (int i = 0; i < 40; i++) errors.Add($"kind-{i}", "text");
        errors.Add("kind-0", "text");
        Assert.Equal((ErrorCounts.MostKinds, 2, 9, 41),
            (errors.Kinds.Count, errors.Kinds["kind-0"].Count, errors.Kinds["other"].Count, errors.Total));
        errors.AddStatus(200);
        errors.AddStatus(404, 3);
        Assert.Equal((3, 44), (errors.BadStatuses, errors.Total));
        Assert.Equal("peer-reset", ErrorCounts.KindOf(CloseCause.PeerReset));
    }

    [Fact]
    public void A_percentile_needs_a_message_above_it_and_a_time_above_the_longest_is_the_longest()
    {
        LongHistogram histogram = new LoadFigures().Latency;
        for (int i = 1; i <= 99; i++) LoadFigures.Record(histogram, i * 1000);
        Assert.Null(Percentiles.Of(histogram, 99));
        Assert.InRange(Percentiles.Of(histogram, 50)!.Value, 49_900, 50_100);
        LoadFigures.Record(histogram, long.MaxValue);
        Assert.InRange(Percentiles.Of(histogram, 99)!.Value, 98_900, 99_100);
        Assert.InRange(Percentiles.MaxOf(histogram), LoadFigures.MostNs, LoadFigures.MostNs * 1.001);
        Assert.Null(Percentiles.Of(histogram, 99.9));
    }

    [Theory]
    [InlineData(0.89, 0, 0.01, 0.01, "")]
    [InlineData(0.9, 0, 0, 0, "cpu")]
    [InlineData(0.5, 0.4, 0, 0, "cpu")]
    [InlineData(0.6, 0, 0.0101, 0, "late")]
    [InlineData(0.4, 0.05, 0.0101, 0, "late")]
    [InlineData(0, 0, 0, 0.0101, "away")]
    [InlineData(0.95, 0, 0.5, 0.2, "cpu late away")]
    public void A_driver_is_the_limit_above_each_of_its_numbers(double cpu, double queued, double late, double away,
        string expected)
    {
        DriverFigures driver = new(cpu, queued, late, away);
        Assert.Equal(expected, string.Join(' ', driver.Limits));
        Assert.Equal(driver.Limits.Count, driver.Explain(1, 1).Count());
        Assert.Equal(cpu + queued > 0.5 ? driver.Limits.Count(static l => l != "away") : 0, driver.Explain(1, 2)
            .Count(static t => t.EndsWith("Use --loops 2, a lower --rate, or another machine for the driver.",
                StringComparison.Ordinal)));
    }

    [Theory]
    [InlineData(0.4, "0.4 ns")]
    [InlineData(10.24, "10.2 ns")]
    [InlineData(999.6, "1 us")]
    [InlineData(45_250, "45.2 us")]
    [InlineData(1_234_000, "1.23 ms")]
    [InlineData(61e9, "61 s")]
    public void Nanoseconds_are_written_with_three_digits(double ns, string expected) =>
        Assert.Equal(expected, NsText.Of(ns));

    [Fact]
    public void Live_lines_are_drawn_again_in_place_cut_to_the_width_and_removed()
    {
        StringWriter terminal = new();
        LiveLines lines = new(terminal, static () => 6);
        lines.Show("one");
        lines.Show("one", "too wide");
        lines.Show("two", "three");
        lines.Clear();
        lines.Clear();
        Assert.Equal("\rone\e[K" + "\rone\e[K\ntoo w\e[K" + "\r\e[1Atwo\e[K\nthree\e[K" + "\r\e[1A\e[J",
            terminal.ToString());
        LiveLines none = new(null, static () => 6);
        none.Show("one");
        none.Clear();
        Assert.False(none.IsShown);
    }

    [Fact]
    public void A_piece_of_the_payload_is_the_same_alone_and_in_the_stream()
    {
        Payload payload = new(1000);
        byte[] stream = payload.Stream(3, 0, 10_000).ToArray();
        for (int i = 0; i < 10; i++)
            Assert.Equal(stream.AsSpan(i * 1000, 1000).ToArray(), payload.Message(3, i).ToArray());
        Assert.NotEqual(payload.Message(3, 0).ToArray(), payload.Message(4, 0).ToArray());
        // Across the end of the table.
        byte[] end = payload.Stream(0, 1_000_000, 10).ToArray();
        Assert.Equal(payload.Stream(0, 1_000_003, 7).ToArray(), end[3..]);
    }
}
