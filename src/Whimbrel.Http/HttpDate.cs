using System.Buffers.Text;

namespace Whimbrel.Http;

/// <summary>Date field, updated once a second on each thread that responds.</summary>
internal static class HttpDate
{
    private const int LineLength = 37;

    [ThreadStatic]
    private static byte[]? t_line;

    [ThreadStatic]
    private static long t_untilMs;

    /// <summary>Whole line, with its line end. Valid until the next call on this thread.</summary>
    internal static ReadOnlySpan<byte> Line
    {
        get
        {
            long nowMs = Environment.TickCount64;
            if (t_line is null || nowMs >= t_untilMs) Make(nowMs);
            return t_line;
        }
    }

    private static void Make(long nowMs)
    {
        byte[] line = t_line ??= new byte[LineLength];
        DateTime now = DateTime.UtcNow;
        "Date: "u8.CopyTo(line);
        Utf8Formatter.TryFormat(now, line.AsSpan(6), out _, 'R');
        "\r\n"u8.CopyTo(line.AsSpan(LineLength - 2));
        t_untilMs = nowMs + 1000 - now.Millisecond;
    }
}
