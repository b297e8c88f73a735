using System.Collections.Concurrent;
using Microsoft.Extensions.Logging;

namespace Whimbrel.Hosting.Tests;

/// <summary>Records log entries of Whimbrel's categories, one line each.</summary>
internal sealed class TestLog : ILoggerProvider
{
    internal ConcurrentQueue<string> Lines { get; } = [];

    /// <summary>True: every logger throws.</summary>
    internal bool Throws { get; set; }

    internal bool Has(string text) => Lines.Any(l => l.Contains(text, StringComparison.Ordinal));

    public ILogger CreateLogger(string categoryName) => new Logger(this, categoryName);

    public void Dispose()
    {
    }

    internal sealed class Logger(TestLog log, string category) : ILogger
    {
        public IDisposable? BeginScope<TState>(TState state)
            where TState : notnull => null;

        public bool IsEnabled(LogLevel logLevel) => true;

        public void Log<TState>(LogLevel logLevel, EventId eventId, TState state, Exception? exception,
            Func<TState, Exception?, string> formatter)
        {
            if (!category.StartsWith("Whimbrel", StringComparison.Ordinal)) return;
            if (log.Throws) throw new InvalidOperationException("the disk is full");
            log.Lines.Enqueue($"{category} {logLevel} {eventId.Id} "
                + $"{formatter(state, exception)}{(exception is null ? "" : $" ({exception.Message})")}");
        }
    }
}
