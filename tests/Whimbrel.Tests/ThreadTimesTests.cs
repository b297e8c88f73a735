using System.Text;
using Whimbrel.Linux;

namespace Whimbrel.Tests;

/// <summary>The scheduler's figures of a thread: CPU time, and time in which it was ready without a CPU.</summary>
public sealed class ThreadTimesTests
{
    [Fact]
    public void Nanoseconds_become_milliseconds()
    {
        Assert.True(ThreadTimes.TryParse("5942242 15609808 3\n"u8, "1240 (a (b) R) S 1 2"u8, out ThreadTimes times));
        Assert.Equal(new ThreadTimes(5, 15, IsRunnable: false), times);
        Assert.True(ThreadTimes.TryParse("5942242 15609808 3\n"u8, "1240 (a) R 1 2"u8, out times));
        Assert.True(times.IsRunnable);
    }

    [Theory]
    [InlineData("", "1 (a) S")]
    [InlineData("12", "1 (a) S")]
    [InlineData("12 ", "1 (a) S")]
    [InlineData("x 1 2", "1 (a) S")]
    [InlineData("1x 1 2", "1 (a) S")]
    [InlineData("1 1 2", "")]
    [InlineData("1 1 2", "1 (a) ")]
    [InlineData("1 1 2", "1 (a")]
    public void Anything_else_is_refused(string counts, string state) =>
        Assert.False(ThreadTimes.TryParse(Encoding.ASCII.GetBytes(counts), Encoding.ASCII.GetBytes(state), out _));

    [Fact]
    public void A_thread_without_a_number_has_no_times()
    {
        Assert.False(ThreadTimes.TryRead(0, out _));
        Assert.False(ThreadTimes.TryRead(int.MaxValue, out _));
    }

    [Fact]
    public void A_thread_that_computes_takes_cpu_time()
    {
        int id = CurrentThread.Id;
        Assert.SkipUnless(ThreadTimes.TryRead(id, out ThreadTimes before), "This system does not count it.");
        ThreadTimes now = before;
        DateTime deadline = DateTime.UtcNow.AddSeconds(30);
        while (now.CpuMs - before.CpuMs < 20 && DateTime.UtcNow < deadline) ThreadTimes.TryRead(id, out now);
        Assert.InRange(now.CpuMs - before.CpuMs, 20, 30_000);
        Assert.True(now.QueuedMs >= before.QueuedMs);
    }
}
