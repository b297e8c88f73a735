using System.Threading.Channels;

namespace Whimbrel.Tool;

/// <summary>
/// Writes lines of a loop to stdout on a task, because a loop must not wait for it. When 10,000 lines wait, newer ones
/// are counted and not printed. Add may be called on any thread.
/// </summary>
internal sealed class LinePrinter : IAsyncDisposable
{
    private const int Capacity = 10_000;

    private readonly Channel<string> _lines =
        Channel.CreateBounded<string>(new BoundedChannelOptions(Capacity) { SingleReader = true });
    private readonly TaskCompletionSource _nobodyReads = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly Task _printing;
    private long _unprinted;

    internal LinePrinter() => _printing = Task.Run(PrintAsync);

    /// <summary>Lines that were not printed because too many waited.</summary>
    internal long Unprinted => Volatile.Read(ref _unprinted);

    /// <summary>Completes when the reader of stdout has exited, as head does.</summary>
    internal Task NobodyReads => _nobodyReads.Task;

    internal void Add(string line)
    {
        if (!_lines.Writer.TryWrite(line)) Interlocked.Increment(ref _unprinted);
    }

    /// <summary>Waits until all lines are written.</summary>
    public async ValueTask DisposeAsync()
    {
        _lines.Writer.TryComplete();
        await _printing;
    }

    private async Task PrintAsync()
    {
        await using StreamWriter output = new(Console.OpenStandardOutput());
        try
        {
            while (await _lines.Reader.WaitToReadAsync())
            {
                while (_lines.Reader.TryRead(out string? line)) await output.WriteLineAsync(line);
                // Writes all waiting lines at once, and flushes when there are no more.
                await output.FlushAsync();
            }
        }
        catch (IOException)
        {
            _lines.Writer.TryComplete();
            _nobodyReads.TrySetResult();
        }
    }
}
