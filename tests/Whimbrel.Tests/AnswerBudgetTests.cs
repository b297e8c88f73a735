using Whimbrel.Datagrams;

namespace Whimbrel.Tests;

public class AnswerBudgetTests
{
    private static DatagramPeer Peer(int number) => DatagramPeer.V4((uint)number, 7);

    [Fact]
    public void A_peer_gets_as_much_as_it_sent_in_datagrams_and_in_bytes()
    {
        AnswerBudget budget = new(factor: 1);
        Assert.False(budget.TrySpend(Peer(1), 1, 0, 0));
        budget.Received(Peer(1), 100, 0);
        Assert.False(budget.TrySpend(Peer(1), 1, 101, 0));
        Assert.False(budget.TrySpend(Peer(1), 2, 2, 0));
        Assert.False(budget.TrySpend(Peer(2), 1, 1, 0));
        Assert.True(budget.TrySpend(Peer(1), 1, 60, 0));
        Assert.False(budget.TrySpend(Peer(1), 1, 0, 0));
        budget.Received(Peer(1), 10, 0);
        Assert.True(budget.TrySpend(Peer(1), 1, 50, 0));
        budget.Received(Peer(1), 0, 0);
        Assert.True(budget.TrySpend(Peer(1), 1, 0, 0));
    }

    [Fact]
    public void The_factor_multiplies_the_limits_of_bytes_and_datagrams()
    {
        AnswerBudget budget = new(factor: 3);
        budget.Received(Peer(1), 10, 0);
        Assert.True(budget.TrySpend(Peer(1), 2, 29, 0));
        Assert.True(budget.TrySpend(Peer(1), 1, 1, 0));
        Assert.False(budget.TrySpend(Peer(1), 1, 0, 0));
    }

    [Fact]
    public void A_verified_peer_is_not_limited_until_it_has_been_quiet_for_long()
    {
        AnswerBudget budget = new(factor: 1);
        budget.Received(Peer(1), 1, 0);
        budget.Verify(Peer(1), 0);
        Assert.True(budget.IsVerified(Peer(1), 0));
        for (int i = 0; i < 100; i++) Assert.True(budget.TrySpend(Peer(1), 1, 60_000, AnswerBudget.VerifiedMs - 1));
        budget.Received(Peer(1), 1, AnswerBudget.VerifiedMs - 1);
        Assert.True(budget.TrySpend(Peer(1), 1, 60_000, AnswerBudget.VerifiedMs));

        // Nothing was taken, so nothing is returned that could be spent later.
        budget.Refund(Peer(1), 1, 60_000);
        long late = (2 * AnswerBudget.VerifiedMs) - 1;
        Assert.False(budget.TrySpend(Peer(1), 1, 60_000, late));
        budget.Received(Peer(1), 1, late);
        Assert.False(budget.IsVerified(Peer(1), late));
        Assert.False(budget.TrySpend(Peer(1), 1, 60_000, late));

        budget.Verify(Peer(1), late);
        budget.Forget(Peer(1));
        Assert.False(budget.TrySpend(Peer(1), 1, 0, late));
    }

    [Fact]
    public void Spent_bytes_never_exceed_received_ones_whichever_source_is_evicted()
    {
        foreach (int seed in Seeds.Some(20))
        {
            Random random = new(seed);
            int factor = random.Next(1, 4);
            AnswerBudget budget = new(factor, maxPeers: 32, seed: seed);
            (long Datagrams, long Bytes)[] received = new (long, long)[60];
            (long Datagrams, long Bytes)[] spent = new (long, long)[60];
            for (int i = 0; i < 20_000; i++)
            {
                int one = random.Next(received.Length);
                if (random.Next(2) == 0)
                {
                    int bytes = random.Next(100);
                    budget.Received(Peer(one), bytes, i);
                    received[one].Datagrams++;
                    received[one].Bytes += bytes;
                    continue;
                }

                (int datagrams, int wanted) = (random.Next(1, 3), random.Next(150));
                if (!budget.TrySpend(Peer(one), datagrams, wanted, i)) continue;
                spent[one].Datagrams += datagrams;
                spent[one].Bytes += wanted;
                Assert.True(spent[one].Datagrams <= received[one].Datagrams * factor
                    && spent[one].Bytes <= received[one].Bytes * factor, $"seed {seed}, step {i}");
            }

            Assert.True(spent.Sum(static s => s.Datagrams) > 1000,
                $"seed {seed}: nearly nothing was answered, which tests nothing");
        }
    }

    [Fact]
    public void Invented_senders_do_not_evict_verified_ones()
    {
        AnswerBudget budget = new(factor: 1, maxPeers: 64, seed: 1);
        budget.Received(Peer(1), 10, 0);
        budget.Verify(Peer(1), 0);
        int sender = 2;
        Assert.Equal(0, Allocated.By(() =>
        {
            for (int i = 0; i < 4000; i++, sender++) budget.Received(Peer(sender), 1, sender);
        }));
        Assert.True(budget.IsVerified(Peer(1), sender));
        Assert.Equal(64, budget.Places);
    }
}
