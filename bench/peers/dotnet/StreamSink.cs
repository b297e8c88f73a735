using System.Globalization;

namespace Whimbrel.Bench.Peers;

/// <summary>Reads a WebSocket as a stream and counts (W9). The load program sends messages of one size, and requests
/// their number with a message of one byte.</summary>
internal static class StreamSink
{
    /// <summary>Sizes with a route of their own.</summary>
    public static ReadOnlySpan<int> Sizes => [8 * 1024, 64 * 1024, 128 * 1024, 256 * 1024];

    public static async Task ReadAsync(Stream stream, int size, Func<string, ValueTask> answer)
    {
        var buffer = new byte[size];
        long bytes = 0;
        int count;
        while ((count = await stream.ReadAsync(buffer)) > 0)
        {
            bytes += count;
            if (bytes % size != 1 || buffer[count - 1] != '?')
            {
                continue;
            }

            // A stream has no message boundaries, and a piece of a message may have this length too: then its rest is
            // in transit.
            var next = stream.ReadAsync(buffer).AsTask();
            if (await Task.WhenAny(next, Task.Delay(200)) != next)
            {
                await answer(string.Create(CultureInfo.InvariantCulture, $"{bytes / size} {bytes - 1}"));
            }

            bytes += count = await next;
            if (count == 0)
            {
                return;
            }
        }
    }
}
