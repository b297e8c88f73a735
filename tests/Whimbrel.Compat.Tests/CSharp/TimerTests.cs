using CSharpServer;
using Whimbrel.Compat.Tests.Connections;

namespace Whimbrel.Compat.Tests.CSharp;

// Behaviour of a timer that programs of CSharpServer rely on.
public sealed class TimerTests
{
    private sealed class RecordingTimer(Service service, Log log) : CSharpServer.Timer(service)
    {
        internal Action? AtTimer { get; set; }

        protected override void OnTimer(bool canceled)
        {
            log.Add($"timer {canceled}");
            AtTimer?.Invoke();
        }

        protected override void OnError(int error, string category, string message) =>
            log.Add($"error {category} {message}");
    }

    [Fact]
    public void A_timer_expires_once_for_each_wait_and_not_early()
    {
        Log log = new();
        using Service service = new();
        Assert.True(service.Start());
        using RecordingTimer timer = new(service, log);
        Assert.True(timer.Setup(TimeSpan.FromMilliseconds(20)));
        DateTime due = timer.ExpireTime;
        bool early = false;
        timer.AtTimer = () => early |= DateTime.UtcNow < due;
        Assert.True(timer.WaitAsync());
        Assert.True(timer.WaitAsync());
        log.Until("timer False", 2);
        Assert.False(early);
        Assert.True(timer.ExpireTimeSpan <= TimeSpan.Zero);
    }

    [Fact]
    public void A_cancel_and_a_new_time_end_the_waits_as_cancelled()
    {
        Log log = new();
        using Service service = new();
        Assert.True(service.Start());
        using RecordingTimer timer = new(service, log);
        timer.Setup(TimeSpan.MaxValue);
        timer.WaitAsync();
        Assert.True(timer.Cancel());
        log.Until("timer True");
        timer.WaitAsync();
        Assert.True(timer.Setup(DateTime.UtcNow));
        log.Until("timer True", 2);
        Assert.Equal(0, log.Count("timer False"));
    }

    [Fact]
    public void A_timer_that_is_disposed_ends_its_waits_as_cancelled()
    {
        Log log = new();
        using Service service = new();
        Assert.True(service.Start());
        RecordingTimer timer = new(service, log);
        timer.Setup(TimeSpan.MaxValue);
        timer.WaitAsync();
        timer.WaitAsync();
        timer.Dispose();
        log.Until("timer True", 2);
        Assert.False(timer.WaitAsync());
        Assert.Equal(0, log.Count("timer False"));
    }

    [Fact]
    public void A_wait_on_the_calling_thread_calls_no_callback()
    {
        Log log = new();
        using Service service = new();
        Assert.True(service.Start());
        using RecordingTimer timer = new(service, log);
        timer.Setup(TimeSpan.FromMilliseconds(20));
        DateTime due = timer.ExpireTime;
        Assert.True(timer.WaitSync());
        Assert.True(DateTime.UtcNow >= due);
        Assert.True(timer.WaitAsync()); // its callback would follow one of WaitSync
        log.Until("timer False");
        Assert.Equal(["timer False"], log.Lines);
    }

    [Fact]
    public void An_expiry_before_the_start_is_reported_after_it()
    {
        Log log = new();
        using RecordingService service = new(log);
        using RecordingTimer timer = new(service, log);
        timer.Setup(TimeSpan.Zero);
        timer.WaitAsync();
        timer.WaitSync();
        Assert.True(service.Start());
        log.Until("timer False");
        Assert.Equal(["thread begins", "started True", "timer False"], log.Lines);
    }

    [Fact]
    public void A_callback_that_throws_is_reported_as_an_error()
    {
        Log log = new();
        using Service service = new();
        Assert.True(service.Start());
        using RecordingTimer timer =
            new(service, log) { AtTimer = () => throw new InvalidOperationException("of the user") };
        timer.Setup(TimeSpan.Zero);
        timer.WaitAsync();
        log.Until("error whimbrel.callback of the user");
    }

    // C8: in the original, setting the clock back by an hour prolonged the wait by an hour. An absolute time moves with
    // the clock.
    [Fact]
    public void A_time_from_now_does_not_move_with_the_clock_of_the_system()
    {
        Log log = new();
        using Service service = new();
        Assert.True(service.Start());
        MovedClock clock = new();
        using RecordingTimer timer = new(service, log) { Clock = clock };
        Assert.True(timer.Setup(TimeSpan.FromMilliseconds(20)));
        clock.Moved = TimeSpan.FromHours(-1);
        Assert.True(timer.WaitAsync());
        log.Until("timer False");
        Assert.True(timer.Setup(DateTime.UtcNow));
        Assert.InRange(timer.ExpireTimeSpan, TimeSpan.FromMinutes(59), TimeSpan.FromHours(1));
        clock.Moved = TimeSpan.Zero;
        Assert.True(timer.WaitSync());
    }

    // S5: the original ignored the Kind of a DateTime, and truncated to milliseconds.
    [Fact]
    public void A_local_time_is_the_same_as_its_universal_one_to_the_tick()
    {
        using Service service = new();
        DateTime universal = DateTime.UtcNow.AddHours(1).AddTicks(7);
        using CSharpServer.Timer timer = new(service, universal.ToLocalTime());
        Assert.Equal(universal, timer.ExpireTime);
        Assert.True(timer.Setup(universal.AddTicks(1).ToLocalTime()));
        Assert.Equal(universal.AddTicks(1), timer.ExpireTime);
        Assert.Equal(DateTimeKind.Utc, timer.ExpireTime.Kind);
    }

    /// <summary>A clock that was set to another time.</summary>
    private sealed class MovedClock : TimeProvider
    {
        internal TimeSpan Moved { get; set; }

        public override DateTimeOffset GetUtcNow() => System.GetUtcNow() + Moved;
    }
}
