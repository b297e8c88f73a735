using System.Diagnostics;

namespace Whimbrel.Relays.Tests;

// A target by itself: when it is tried again, and which connections show that it serves.
public sealed class RelayTargetTests
{
    private static readonly RelayOptions s_options = new()
    {
        Targets = ["tcp://127.0.0.1:1"],
        RetryAfter = TimeSpan.FromSeconds(10),
        RetryAtMost = TimeSpan.FromSeconds(60)
    };

    private static RelayTarget Target() =>
        new(s_options.Targets[0], new Connector(s_options.Targets[0]), s_options, null);

    private static long After(long from, double seconds) => from + (long)(seconds * Stopwatch.Frequency);

    [Fact] // from both sides, each time that it fails after it has served
    public void The_rest_begins_anew_with_each_failure_and_doubles_up_to_its_limit()
    {
        RelayTarget target = Target();
        for (int time = 0; time < 3; time++)
        {
            target.NotPassed("refused");
            long at = Stopwatch.GetTimestamp();
            Assert.False(target.TryTurn(After(at, 9)));
            Assert.True(target.TryTurn(at = After(at, 10)));
            foreach (double rest in (double[])[20, 40, 60, 60, 60])
            {
                Assert.False(target.TryTurn(After(at, rest - 1)), $"{rest} s, time {time}");
                Assert.True(target.TryTurn(at = After(at, rest)), $"{rest} s, time {time}");
                Assert.False(target.TryTurn(at));
            }

            target.Passed(Stopwatch.GetTimestamp());
            Assert.True(target.IsUp);
            Assert.False(target.TryTurn(After(at, 1000)));
        }
    }

    [Fact]
    public void A_connection_from_before_the_last_failure_does_not_show_that_a_target_serves()
    {
        RelayTarget target = Target();
        for (int time = 0; time < 2; time++)
        {
            long before = Stopwatch.GetTimestamp();
            target.NotPassed("refused");
            target.Passed(before - 1);
            Assert.False(target.IsUp);
            long between = Stopwatch.GetTimestamp();
            SpinWait.SpinUntil(() => Stopwatch.GetTimestamp() > between);
            target.NotPassed("refused again");
            target.Passed(between);
            Assert.False(target.IsUp);
            target.Passed(Stopwatch.GetTimestamp());
            Assert.True(target.IsUp);
        }
    }
}
