using Whimbrel.Diagnostics;

namespace Whimbrel.Tests;

public class RecentNoticesTests
{
    [Fact]
    public void The_last_hundred_are_kept_without_their_exceptions_and_long_messages_are_cut()
    {
        RecentNotices notices = new();
        Assert.Empty(notices.Read());
        for (int i = 0; i < RecentNotices.Most + 2; i++)
            notices.Add(DateTimeOffset.UnixEpoch.AddSeconds(i), new DiagnosticEvent(DiagnosticEventKind.System, $"{i}",
                "accept-failed.md"));
        RecentNotice[] kept = notices.Read();
        Assert.Equal(RecentNotices.Most, kept.Length);
        Assert.Equal(($"{RecentNotices.Most + 1}", "2"), (kept[0].Message, kept[^1].Message));
        Assert.Equal(DateTimeOffset.UnixEpoch.AddSeconds(2), kept[^1].At);

        string whole = new('w', RecentNotices.MostText);
        notices.Add(default, new DiagnosticEvent(DiagnosticEventKind.System, whole, "accept-failed.md"));
        Assert.Equal(whole, notices.Read()[0].Message);
        notices.Add(default, new DiagnosticEvent(DiagnosticEventKind.System, whole + "w", "accept-failed.md"));
        Assert.Equal(whole + "...", notices.Read()[0].Message);
    }
}
