using Whimbrel.Tool.Top;

namespace Whimbrel.Tool.Tests;

// Parts of the tool by themselves: their second use, and their limits at the number.
public sealed class PartTests
{
    [Fact]
    public void A_bucket_has_its_burst_after_each_silence_and_no_more_however_long_that_was()
    {
        TokenBucket bucket = new(perSecond: 10, burst: 5);
        long nowMs = 1_000;
        foreach (int silenceS in (int[])[0, 3_600, 1, 86_400, 3_600])
        {
            nowMs += silenceS * 1000;
            for (int i = 0; i < 5; i++) Assert.True(bucket.TryTake(nowMs), $"{i} after {silenceS} s");
            Assert.False(bucket.TryTake(nowMs));
            Assert.Equal(TimeSpan.FromMilliseconds(100), bucket.UntilNext);
            Assert.False(bucket.TryTake(nowMs += 99));
            Assert.True(bucket.TryTake(nowMs += 1));
            Assert.False(bucket.TryTake(nowMs));
        }
    }

    [Fact]
    public void A_name_that_its_user_has_given_up_may_be_taken_by_another()
    {
        ChatRoom room = new();
        Nobody one = new(), two = new();
        Assert.True(room.TryRename(one, "guest1", "anna"));
        Assert.False(room.TryRename(two, "guest2", "Anna"));
        Assert.True(room.TryRename(one, "anna", "ANNA"));
        Assert.True(room.TryRename(one, "ANNA", "berta"));
        Assert.True(room.TryRename(two, "guest2", "anna"));
        Assert.Equal("2 here: anna, berta", room.List());
    }

    private sealed class Nobody : Session;

    [Fact]
    public void A_screen_shows_as_many_lines_as_it_has_and_counts_the_others()
    {
        TopSnapshot before = Snapshot(pid: 1, timeMs: 1_000, accepted: 10), now = Snapshot(1, 2_000, 15);
        int all = TopView.Screen(before, now, 200, 1_000).Count;
        Assert.InRange(all, 3, 100);
        Assert.Equal(TopView.Screen(before, now, 200, 1_000), TopView.Screen(before, now, 200, all));
        List<string> cut = TopView.Screen(before, now, 200, all - 1);
        Assert.Equal((all - 1, "(2 more lines: a higher terminal, or --json)"), (cut.Count, cut[^1]));
    }

    [Fact]
    public void A_process_that_was_started_again_has_no_rates_until_its_second_snapshot()
    {
        TopSnapshot first = Snapshot(pid: 1, timeMs: 1_000, accepted: 1_000), again = Snapshot(2, 2_000, 10);
        Assert.Equal(TopView.Screen(null, again, 200, 100), TopView.Screen(first, again, 200, 100));
    }

    [Fact]
    public void A_file_that_may_not_be_replaced_leaves_nothing_beside_it()
    {
        using TemporaryFolder folder = new();
        CertificateFolder files = new(folder.Path);
        using CertificateAuthority authority = CertificateAuthority.Create("a", 0, DateTimeOffset.UtcNow,
            TimeSpan.FromDays(1));
        for (int time = 0; time < 2; time++)
        {
            files.WriteAuthority(authority, null, replace: true);
            Assert.Throws<IOException>(() => files.WriteAuthority(authority, null, replace: false));
            Assert.Equal(["ca.key", "ca.pem"], Directory.GetFiles(folder.Path).Select(Path.GetFileName).Order());
        }
    }

    private static TopSnapshot Snapshot(int pid, long timeMs, int accepted) => new()
    {
        Whimbrel = 1,
        Pid = pid,
        TimeMs = timeMs,
        Engine = new TopEngine { Kind = "epoll" },
        Loops = [],
        Servers = [new TopServer
        {
            Addresses = ["127.0.0.1:1111"], Accepting = true, StartedAt = DateTimeOffset.UnixEpoch, Accepted = accepted,
            Slowest = []
        }]
    };
}
