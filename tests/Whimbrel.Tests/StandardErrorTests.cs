using System.Reflection;
using Whimbrel.Diagnostics;

namespace Whimbrel.Tests;

public sealed class StandardErrorTests
{
    [Fact] // the minute is the process's: it begins anew here, and the next test has one of its own
    public void A_hundred_events_a_minute_are_written_and_the_last_says_that_more_are_left_out()
    {
        TextWriter old = Console.Error;
        StringWriter text = new();
        TextWriter writer = TextWriter.Synchronized(text); // its methods hold its lock
        Console.SetError(writer);
        try
        {
            for (int minute = 0; minute < 2; minute++)
            {
                BeginMinute();
                string mark = $"minute {minute}, event ";
                for (int i = 1; i <= 150; i++) StandardError.Write($"{mark}{i}.");
                Assert.True(SpinWait.SpinUntil(() => Lines(mark).Length >= 100, TimeSpan.FromSeconds(30)));
                // A further line is written after all of them by the same thread, if there is any.
                BeginMinute();
                StandardError.Write($"end {minute}");
                Assert.True(SpinWait.SpinUntil(() => Lines($"end {minute}").Length == 1, TimeSpan.FromSeconds(30)));
                string[] lines = Lines(mark);
                Assert.Equal(100, lines.Length);
                Assert.Equal($"{mark}99.", lines[98]);
                Assert.Equal($"{mark}100. (Further notices of this minute are left out.)", lines[99]);
            }
        }
        finally
        {
            Console.SetError(old);
            BeginMinute();
        }

        string[] Lines(string mark)
        {
            lock (writer)
            {
                return [.. text.ToString().Split(Environment.NewLine)
                    .Where(l => l.StartsWith(mark, StringComparison.Ordinal))];
            }
        }
    }

    private static void BeginMinute() => typeof(StandardError)
        .GetField("s_minuteEndsMs", BindingFlags.Static | BindingFlags.NonPublic)!.SetValue(null, 0L);
}
