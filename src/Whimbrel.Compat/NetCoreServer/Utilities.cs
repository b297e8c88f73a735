using System.Globalization;

namespace NetCoreServer;

/// <summary>Formats sizes and times for people.</summary>
public class Utilities
{
    private const ulong Kibi = 1024;
    private const ulong Second = 1_000_000_000;

    private static readonly string[] s_sizes = ["KiB", "MiB", "GiB", "TiB"];

    /// <summary>Formats a number of bytes: <c>512 bytes</c>, <c>15.1000 MiB</c> (15 MiB and 1000 KiB).</summary>
    /// <param name="b">Number of bytes.</param>
    public static string GenerateDataSize(double b)
    {
        long bytes = (long)b;
        ulong size = (ulong)Math.Abs((decimal)bytes);
        if (size < Kibi) return string.Create(CultureInfo.InvariantCulture, $"{bytes} bytes");
        int unit = 0;
        ulong rest = size % Kibi;
        for (size /= Kibi; size >= Kibi && unit < s_sizes.Length - 1; size /= Kibi, unit++) rest = size % Kibi;
        return string.Create(CultureInfo.InvariantCulture, $"{SignOf(bytes)}{size}.{rest:000} {s_sizes[unit]}");
    }

    /// <summary>Formats a time: <c>17 ns</c>, <c>1.500 ms</c>, <c>2.003 s</c>, <c>1:02.500 m</c>, <c>3:01:02.500
    /// h</c>.</summary>
    /// <param name="ms">Time in milliseconds.</param>
    public static string GenerateTimePeriod(double ms)
    {
        long signed = (long)(ms * 1_000_000);
        ulong time = (ulong)Math.Abs((decimal)signed);
        string text = time switch
        {
            < 1000 => string.Create(CultureInfo.InvariantCulture, $"{time} ns"),
            < 1_000_000 => string.Create(CultureInfo.InvariantCulture, $"{time / 1000}.{time % 1000:000} mcs"),
            < Second =>
                string.Create(CultureInfo.InvariantCulture, $"{time / 1_000_000}.{time % 1_000_000 / 1000:000} ms"),
            < 60 * Second => string.Create(CultureInfo.InvariantCulture, $"{time / Second}.{Milliseconds(time):000} s"),
            < 3600 * Second => string.Create(CultureInfo.InvariantCulture,
                $"{time / (60 * Second)}:{time / Second % 60:00}.{Milliseconds(time):000} m"),
            _ => string.Create(CultureInfo.InvariantCulture, $"{time / (3600 * Second)}:{time / (60 * Second) % 60:00}:"
                + $"{time / Second % 60:00}.{Milliseconds(time):000} h"),
        };
        return SignOf(signed) + text;
    }

    private static ulong Milliseconds(ulong time) => time % Second / 1_000_000;

    private static string SignOf(long number) => number < 0 ? "-" : "";
}
