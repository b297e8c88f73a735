using System.Collections.Concurrent;

namespace Whimbrel.Tool.Tests;

// The lines of a stream, one by one, with the lines seen so far for the message of a failure.
internal sealed class Lines(StreamReader reader, string name)
{
    private readonly ConcurrentQueue<string> _seen = new();

    public string Seen => string.Join('\n', _seen);

    // Null at the end of the stream.
    public Task<string?> NextAsync() => Deadline.Within(
        async cancellation =>
        {
            var line = await reader.ReadLineAsync(cancellation);
            if (line is not null) _seen.Enqueue(line);
            return line;
        },
        () => $"a line of {name}; there were:\n{Seen}");

    // The first line that contains the text; lines before it are skipped.
    public async Task<string> ThatContains(string text)
    {
        while (await NextAsync() is { } line)
        {
            if (line.Contains(text, StringComparison.Ordinal)) return line;
        }
        throw new InvalidOperationException($"{name} ended without '{text}'; there was:\n{Seen}");
    }

    public async Task<List<string>> ToEndAsync()
    {
        var lines = new List<string>();
        while (await NextAsync() is { } line) lines.Add(line);
        return lines;
    }
}
