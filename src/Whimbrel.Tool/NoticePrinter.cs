using System.Threading.Channels;

namespace Whimbrel.Tool;

/// <summary>Notices come on loops, which must not wait for a terminal: they are written to stderr by a task of their own. When 1,000 wait, newer ones are dropped.</summary>
internal sealed class NoticePrinter : IAsyncDisposable
{
    private readonly Channel<Notice> _notices = Channel.CreateBounded<Notice>(new BoundedChannelOptions(1000) { FullMode = BoundedChannelFullMode.DropWrite });
    private readonly Task _printing;

    internal NoticePrinter() => _printing = Task.Run(PrintAsync);

    internal void Add(Notice notice) => _notices.Writer.TryWrite(notice);

    public async ValueTask DisposeAsync()
    {
        _notices.Writer.TryComplete();
        await _printing;
    }

    private async Task PrintAsync()
    {
        await foreach (Notice notice in _notices.Reader.ReadAllAsync())
        {
            await Console.Error.WriteLineAsync($"notice: {notice.Message} See docs/symptoms/{notice.Page}");
        }
    }
}
