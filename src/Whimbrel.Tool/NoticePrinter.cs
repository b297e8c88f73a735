using System.Threading.Channels;
using Whimbrel.Diagnostics;

namespace Whimbrel.Tool;

/// <summary>Writes diagnostic events to stderr on a task, because loops must not wait for a terminal. When 1,000 wait,
/// newer ones are dropped.</summary>
internal sealed class NoticePrinter : IAsyncDisposable
{
    /// <summary>
    /// Duration of a turn above which a diagnostic event is printed. Compiling the first callbacks takes 20 to 40 ms
    /// and would be reported at every start.
    /// </summary>
    internal const int BlockedLoopMs = 100;

    private readonly Channel<string> _lines =
        Channel.CreateBounded<string>(new BoundedChannelOptions(1000) { FullMode = BoundedChannelFullMode.DropWrite });
    private readonly Task _printing;

    internal NoticePrinter() => _printing = Task.Run(PrintAsync);

    internal void Add(DiagnosticEvent notice) => Tell($"notice: {notice.Message} {notice.Help}");

    /// <summary>Writes another line.</summary>
    internal void Tell(string line) => _lines.Writer.TryWrite(Escaped.Of(line));

    public async ValueTask DisposeAsync()
    {
        _lines.Writer.TryComplete();
        await _printing;
    }

    private async Task PrintAsync()
    {
        await foreach (string line in _lines.Reader.ReadAllAsync()) await Console.Error.WriteLineAsync(line);
    }
}
