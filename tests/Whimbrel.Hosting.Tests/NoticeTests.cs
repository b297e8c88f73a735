using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;

namespace Whimbrel.Hosting.Tests;

/// <summary>Diagnostic events as log lines.</summary>
public sealed class NoticeTests
{
    [Fact]
    public async Task A_diagnostic_event_is_a_line_of_its_server_with_an_event_id_for_its_kind()
    {
        await using TestHost host = new(static s => s.AddSingleton<Visits>().AddScoped<Visit>()
            .AddWhimbrelServer<Visitor>("Chat", scopePerSession: true), ("Chat:Address", "tcp://127.0.0.1:0"));
        await host.StartAsync();
        await Visits.AskToThrowAsync(host);
        await TestHost.UntilAsync(() => host.Log.Has($"Error {(int)DiagnosticEventKind.UserException + 1} "),
            "the notice of the session that threw");
        string line = Assert.Single(host.Log.Lines, static l => l.Contains("as asked", StringComparison.Ordinal));
        Assert.Contains("docs/symptoms/user-exception.md, or: whimbrel explain user-exception", line,
            StringComparison.Ordinal);
        // The logger receives the exception itself, including its stack trace.
        Assert.EndsWith("(as asked)", line, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_logger_that_throws_harms_nothing()
    {
        await using TestHost host = new(static s => s.AddSingleton<Visits>().AddScoped<Visit>()
            .AddWhimbrelServer<Visitor>("Chat", scopePerSession: true), ("Chat:Address", "tcp://127.0.0.1:0"));
        host.Log.Throws = true;
        await host.StartAsync();
        Visits visits = host.Services.GetRequiredService<Visits>();
        visits.Throws = true;
        await Visits.AskToThrowAsync(host);
        await TestHost.UntilAsync(() => visits.Ended == 1, "the scope of the session that threw");
        Assert.Equal("2", await TestHost.AskAsync((await host.ConnectAsync()).GetStream(), "?", 1));
        host.Reload(("Chat:Limits:Connections", "3"));
        Assert.Equal(3, host.Server().MaxConnections);
        Task stop = host.StopAsync();
        await host.HangUpAsync();
        await stop.WaitAsync(TestHost.Patience);
        Assert.Equal(2, visits.Ended);
        Assert.Empty(host.Log.Lines);
    }

    [Fact]
    public void Ten_diagnostic_events_of_one_kind_a_minute_are_logged_and_then_the_number_left_out()
    {
        Clock clock = new();
        using TestLog lines = new();
        NoticeLog log = new(lines.CreateLogger("Whimbrel.Test"), clock);
        for (int i = 0; i < 25; i++)
            log.Write(new DiagnosticEvent(DiagnosticEventKind.SlowConsumer, "slow", "slow-consumer.md"));
        log.Write(new DiagnosticEvent(DiagnosticEventKind.BlockedLoop, "blocked", "blocked-loop.md"));
        Assert.Equal(11, lines.Lines.Count);
        clock.Now += TimeSpan.FromSeconds(59).Ticks;
        log.Write(new DiagnosticEvent(DiagnosticEventKind.SlowConsumer, "slow", "slow-consumer.md"));
        Assert.Equal(11, lines.Lines.Count);
        clock.Now += TimeSpan.FromSeconds(1).Ticks;
        log.Write(new DiagnosticEvent(DiagnosticEventKind.SlowConsumer, "slow", "slow-consumer.md"));
        Assert.Equal(
            "Whimbrel.Test Warning 2 slow See docs/symptoms/slow-consumer.md, or: whimbrel explain slow-consumer (16 "
            + "more of this kind were left out)", lines.Lines.Last());
    }

    [Fact] // what a health check remembers: from both sides, each time
    public void A_count_that_has_grown_is_news_for_ten_seconds()
    {
        Clock clock = new();
        News news = new(clock);
        Assert.False(news.Look(0));
        for (int i = 1; i <= 3; i++)
        {
            Assert.True(news.Look(i));
            clock.Now += News.Memory.Ticks - 1;
            Assert.True(news.Look(i));
            clock.Now++;
            Assert.False(news.Look(i));
        }

        Assert.False(news.Look(0)); // the server was started again
        Assert.True(news.Look(1));
    }

    [Fact]
    public void A_level_that_is_off_costs_no_allocation_and_no_place()
    {
        NoticeLog log = new(new FencedLogger(new Off()), TimeProvider.System);
        DiagnosticEvent notice = new(DiagnosticEventKind.SlowConsumer, "slow", "slow-consumer.md");
        log.Write(notice);
        long before = GC.GetAllocatedBytesForCurrentThread();
        for (int i = 0; i < 1000; i++) log.Write(notice);
        Assert.Equal(before, GC.GetAllocatedBytesForCurrentThread());
    }

    private sealed class Clock : TimeProvider
    {
        internal long Now { get; set; }

        public override long TimestampFrequency => TimeSpan.TicksPerSecond;

        public override long GetTimestamp() => Now;
    }

    private sealed class Off : ILogger
    {
        public IDisposable? BeginScope<TState>(TState state)
            where TState : notnull => null;

        public bool IsEnabled(LogLevel logLevel) => false;

        public void Log<TState>(LogLevel logLevel, EventId eventId, TState state, Exception? exception,
            Func<TState, Exception?, string> formatter) =>
            throw new InvalidOperationException("the level is off");
    }
}
