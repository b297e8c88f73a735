using System.Net;

namespace Whimbrel.Tests;

public class SourceRateLimitTests
{
    private static DatagramPeer Peer(string address, int port = 7) => new(IPAddress.Parse(address), port);

    // A separate source per number, created without an allocation.
    private static DatagramPeer Numbered(uint number) => DatagramPeer.V4(number, 7);

    [Fact]
    public void A_source_gets_its_burst_at_once_and_then_so_much_a_second()
    {
        SourceRateLimit limit = new(perSecond: 10, burst: 3);
        DatagramPeer peer = Peer("192.0.2.1");
        Assert.Equal([true, true, true, false, false], Enumerable.Range(0, 5).Select(_ => limit.TryTake(peer, 1000)));
        Assert.False(limit.TryTake(peer, 1099));
        Assert.True(limit.TryTake(peer, 1100));
        Assert.False(limit.TryTake(peer, 1100));
        Assert.True(limit.TryTake(peer, 1200));
        // Two seconds would yield twenty: the burst is the maximum.
        Assert.Equal([true, true, true, false], Enumerable.Range(0, 4).Select(_ => limit.TryTake(peer, 3200)));
        Assert.Equal((8L, 5L), (limit.Allowed, limit.Refused));
    }

    [Fact]
    public void Sources_are_addresses_and_networks_of_64_bits_whatever_the_port()
    {
        SourceRateLimit limit = new(perSecond: 1, burst: 1);
        Assert.True(limit.TryTake(Peer("192.0.2.1", 1), 0));
        Assert.False(limit.TryTake(Peer("192.0.2.1", 2), 0));
        Assert.False(limit.TryTake(Peer("::ffff:192.0.2.1", 3), 0));
        Assert.True(limit.TryTake(Peer("192.0.2.2"), 0));
        Assert.True(limit.TryTake(Peer("2001:db8:0:1::1"), 0));
        Assert.False(limit.TryTake(Peer("2001:db8:0:1:ffff::2"), 0));
        Assert.True(limit.TryTake(Peer("2001:db8:0:2::1"), 0));
        // The IPv4 address 32.1.13.184 has the first bits of 2001:db8.
        Assert.True(limit.TryTake(Peer("32.1.13.184"), 0));

        SourceRateLimit wide = new(perSecond: 1, burst: 1, ipv6PrefixBits: 48);
        Assert.True(wide.TryTake(Peer("2001:db8:7:1::1"), 0));
        Assert.False(wide.TryTake(Peer("2001:db8:7:2::1"), 0));
        Assert.True(wide.TryTake(Peer("2001:db8:8:1::1"), 0));
        Assert.True(wide.TryTake(default, 0));
        Assert.False(wide.TryTake(default, 0));
    }

    [Fact]
    public void It_does_what_an_exact_account_of_each_source_says()
    {
        foreach (int seed in Seeds.Some(20))
        {
            Random random = new(seed);
            int perSecond = random.Next(1, 2000), burst = random.Next(1, 500);
            SourceRateLimit limit = new(perSecond, burst);
            (decimal Left, long AtMs)[] account = [.. Enumerable.Repeat(((decimal)burst, 0L), 5)];
            long nowMs = 0;
            for (int i = 0; i < 5000; i++)
            {
                nowMs += random.Next(10) == 0 ? random.Next(2000) : random.Next(3);
                int source = random.Next(account.Length);
                int cost = random.Next(4) == 0 ? random.Next(burst + 2) : 1;
                ref (decimal Left, long AtMs) one = ref account[source];
                one = (Math.Min(burst, one.Left + ((nowMs - one.AtMs) * perSecond / 1000m)), nowMs);
                bool expected = cost <= one.Left;
                if (expected) one.Left -= cost;
                Assert.True(expected == limit.TryTake(Numbered((uint)source), nowMs, cost), $"seed {seed}, call {i}");
            }

            Assert.Equal(0, limit.Displaced);
        }
    }

    [Fact]
    public void Ten_thousand_invented_sources_get_no_more_than_the_places_of_the_table()
    {
        const int PerSecond = 5, Burst = 4, Seconds = 3;
        SourceRateLimit limit = new(PerSecond, Burst, maxSources: 64);
        int nowMs = 0;
        Assert.Equal(0, Allocated.By(() =>
        {
            for (int i = 0; i < Seconds * 1000 / Allocated.Runs; i++, nowMs++)
            {
                for (uint j = 0; j < 50; j++) limit.TryTake(Numbered((uint)(nowMs * 50) + j), nowMs);
            }
        }));
        Assert.Equal(64, limit.Places);
        Assert.InRange(limit.Allowed, 64 * Burst, 64 * (Burst + (PerSecond * Seconds)));
        Assert.True(limit.Displaced > 10_000);
    }

    [Fact]
    public void An_evicted_source_gets_no_fresh_burst()
    {
        foreach (int seed in Seeds.Some(20))
        {
            Random random = new(seed);
            SourceRateLimit limit = new(perSecond: 1, burst: 10, maxSources: 64, seed: seed);
            int got = 0;
            for (int round = 0; round < 200; round++)
            {
                // All in the same millisecond: one source, with any number of invented ones in between.
                while (limit.TryTake(Numbered(1), 0)) got++;
                for (int i = 0; i < 500; i++) limit.TryTake(Numbered(1000 + (uint)random.Next(1_000_000)), 0);
            }

            Assert.True(limit.Allowed <= 64 * 10, $"seed {seed}: {limit.Allowed} allowed, and the places hold 640");
            Assert.InRange(got, 10, 64 * 10);
        }
    }

    [Fact]
    public void A_source_that_has_been_quiet_makes_room_and_loses_nothing()
    {
        SourceRateLimit limit = new(perSecond: 10, burst: 2, maxSources: 64);
        // A source that took a token has it back after 200 ms, so each of these finds an entry that is full again.
        for (uint i = 0; i < 1000; i++)
        {
            for (uint k = 0; k < 8; k++) Assert.True(limit.TryTake(Numbered((i * 8) + k), i * 1000L));
        }

        Assert.Equal(0, limit.Displaced);
        Assert.True(limit.TryTake(Numbered(0), 1_000_000));
        Assert.True(limit.TryTake(Numbered(0), 1_000_000));
        Assert.False(limit.TryTake(Numbered(0), 1_000_000));
    }

    [Fact]
    public void The_same_seed_gives_the_same_answers()
    {
        bool[] Run() => [.. Scenario(new SourceRateLimit(perSecond: 2, burst: 3, maxSources: 64, seed: 42))];

        static IEnumerable<bool> Scenario(SourceRateLimit limit)
        {
            Random random = new(7);
            for (int i = 0; i < 3000; i++) yield return limit.TryTake(Numbered((uint)random.Next(300)), i);
        }

        Assert.Equal(Run(), Run());
    }

    [Fact]
    public void Extreme_times_and_costs_are_handled()
    {
        SourceRateLimit limit = new(perSecond: SourceRateLimit.MaxRate, burst: SourceRateLimit.MaxRate);
        DatagramPeer peer = Peer("192.0.2.1");
        Assert.True(limit.TryTake(peer, long.MinValue / 4, SourceRateLimit.MaxRate));
        Assert.False(limit.TryTake(peer, long.MinValue / 4));
        Assert.True(limit.TryTake(peer, long.MaxValue / 4, SourceRateLimit.MaxRate));
        // Going back in time counts as no time.
        Assert.False(limit.TryTake(peer, 0));
        Assert.True(limit.TryTake(peer, 0, cost: 0));
        Assert.Throws<ArgumentOutOfRangeException>(() => limit.TryTake(peer, 0, cost: -1));
        SourceRateLimit small = new(perSecond: 1, burst: 5);
        Assert.False(small.TryTake(peer, 0, cost: 6));
        Assert.True(small.TryTake(peer, 0, cost: 5));
    }

    [Theory]
    [InlineData(0, 1, 64, 64)]
    [InlineData(1, 0, 64, 64)]
    [InlineData(SourceRateLimit.MaxRate + 1, 1, 64, 64)]
    [InlineData(1, SourceRateLimit.MaxRate + 1, 64, 64)]
    [InlineData(1, 1, 63, 64)]
    [InlineData(1, 1, 16_777_217, 64)]
    [InlineData(1, 1, 64, 15)]
    [InlineData(1, 1, 64, 65)]
    public void Limits_outside_their_range_throw(int perSecond, int burst, int maxSources, int prefixBits) =>
        Assert.Throws<ArgumentOutOfRangeException>(() => new SourceRateLimit(perSecond, burst, maxSources, prefixBits));
}
