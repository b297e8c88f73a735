using System.Globalization;

namespace Whimbrel;

/// <summary>
/// Parses and formats sizes and times for settings and reports: <c>64 KiB</c>, <c>10 MB</c>, <c>512</c>, <c>250 ms</c>,
/// <c>2m30s</c>. The same in every culture. Any thread.
/// </summary>
/// <remarks>
/// Sizes: a number of bytes, or a number with <c>B</c>, <c>KiB</c>, <c>MiB</c>, <c>GiB</c>, <c>TiB</c>, <c>PiB</c>,
/// <c>EiB</c> (factor 1024). Or with <c>kB</c>, <c>MB</c>, <c>GB</c>, <c>TB</c>, <c>PB</c>, <c>EB</c> (factor 1000;
/// <c>KB</c> is <c>kB</c>). Case-sensitive, because Mb usually means bits, and K alone is ambiguous. Times: numbers
/// with <c>d</c>, <c>h</c>, <c>m</c> or <c>min</c>, <c>s</c>, <c>ms</c>, <c>us</c> or <c>µs</c>. The longest unit comes
/// first, each at most once. Only the last number may have a fraction, and a unit is required. Numbers have digits and
/// at most one decimal point, with digits on both sides, and no separators; a minus may precede the whole. Blanks are
/// allowed before units and numbers, and around the whole. Fractions of a byte, or of a tick of a
/// <see cref="TimeSpan"/> (100 ns), are rounded.
/// </remarks>
internal static class UnitText
{
    // Decimals have 28 digits: enough for 19 digits before the point and a long fraction.
    private const int MostDigits = 28;
    private const string SizeForm = "a size is a number of bytes, or one with a unit, as 64 KiB, 1.5 MiB or 10 MB";
    private const string TimeForm = "a time is written as 250 ms, 30 s, 2m30s or 1h";

    private static readonly (string Name, long Bytes)[] s_sizes =
    [
        ("EiB", 1L << 60), ("PiB", 1L << 50), ("TiB", 1L << 40), ("GiB", 1L << 30), ("MiB", 1L << 20),
        ("KiB", 1L << 10),
        ("EB", 1_000_000_000_000_000_000), ("PB", 1_000_000_000_000_000), ("TB", 1_000_000_000_000),
        ("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1000), ("KB", 1000), ("B", 1),
    ];

    private static readonly (string Name, long Ticks)[] s_times =
    [
        ("d", TimeSpan.TicksPerDay), ("h", TimeSpan.TicksPerHour), ("min", TimeSpan.TicksPerMinute),
        ("m", TimeSpan.TicksPerMinute), ("s", TimeSpan.TicksPerSecond), ("ms", TimeSpan.TicksPerMillisecond),
        ("us", TimeSpan.TicksPerMicrosecond), ("µs", TimeSpan.TicksPerMicrosecond),
    ];

    private enum Outcome
    {
        Read,
        Malformed,
        TooLarge,
    }

    /// <summary>Parses a size in bytes.</summary>
    /// <exception cref="FormatException">The text is not a size; the message has the text and an example.</exception>
    /// <exception cref="OverflowException">The size is larger than <see cref="long.MaxValue"/>.</exception>
    public static long ParseBytes(ReadOnlySpan<char> text) => ReadBytes(text, out long bytes) switch
    {
        Outcome.Read => bytes,
        Outcome.TooLarge => throw new OverflowException($"'{Shown(text)}' is more bytes than 64 bits can count."),
        _ => throw new FormatException($"'{Shown(text)}' is no size: {SizeForm}."),
    };

    /// <summary>
    /// Parses a size in bytes. Returns false, and 0, if the text is not a size or exceeds a <see cref="long"/>.
    /// </summary>
    public static bool TryParseBytes(ReadOnlySpan<char> text, out long bytes) =>
        ReadBytes(text, out bytes) == Outcome.Read;

    /// <summary>Parses a time.</summary>
    /// <exception cref="FormatException">The text is not a time; the message has the text and an example.</exception>
    /// <exception cref="OverflowException">The time is longer than <see cref="TimeSpan.MaxValue"/>, 29 000
    /// years.</exception>
    public static TimeSpan ParseTime(ReadOnlySpan<char> text) => ReadTime(text, out TimeSpan time) switch
    {
        Outcome.Read => time,
        Outcome.TooLarge => throw new OverflowException($"'{Shown(text)}' is longer than a time can be."),
        _ => throw new FormatException($"'{Shown(text)}' is no time: {TimeForm}."),
    };

    /// <summary>
    /// Parses a time. Returns false, and zero, if the text is not a time or exceeds a <see cref="TimeSpan"/>.
    /// </summary>
    public static bool TryParseTime(ReadOnlySpan<char> text, out TimeSpan time) =>
        ReadTime(text, out time) == Outcome.Read;

    /// <summary>
    /// Formats a number of bytes exactly, with the shortest unit: <c>1.5 KiB</c>, <c>10 MB</c>, <c>1234567 B</c>.
    /// <see cref="ParseBytes"/> returns the same number.
    /// </summary>
    public static string FormatBytes(long bytes)
    {
        foreach ((string name, long unit) in s_sizes)
        {
            decimal number = decimal.Round((decimal)bytes / unit, 2);
            if (Math.Abs(number) is >= 1 and < 1024 && number * unit == bytes)
                return string.Create(CultureInfo.InvariantCulture, $"{number:0.##} {name}");
        }

        return string.Create(CultureInfo.InvariantCulture, $"{bytes} B");
    }

    /// <summary>
    /// Formats a number of bytes approximately, for reading: <c>1023 B</c>, <c>1.5 KiB</c>, <c>12.3 MiB</c>, <c>4.25
    /// GiB</c>.
    /// </summary>
    public static string RoundBytes(long bytes)
    {
        // The smallest unit with a rounded number below 1024: never 1024.0 KiB.
        for (int i = 5; i >= 0 && Math.Abs((decimal)bytes) >= 1024; i--)
        {
            int decimals = i > 3 ? 1 : 2;
            decimal number = decimal.Round((decimal)bytes / s_sizes[i].Bytes, decimals);
            if (Math.Abs(number) < 1024) return string.Create(CultureInfo.InvariantCulture,
                $"{number.ToString(decimals == 1 ? "0.0" : "0.00", CultureInfo.InvariantCulture)} {s_sizes[i].Name}");
        }

        return string.Create(CultureInfo.InvariantCulture, $"{bytes} B");
    }

    /// <summary>
    /// Formats a time exactly: <c>250 ms</c>, <c>1.5 s</c>, <c>2m30s</c>, <c>1 h</c>, <c>3d4h</c>.
    /// <see cref="ParseTime"/> returns the same time.
    /// </summary>
    public static string FormatTime(TimeSpan time) => Format(time < TimeSpan.Zero, Magnitude(time));

    /// <summary>
    /// Formats a time approximately, for reading: its two largest units from a minute on, otherwise one number with one
    /// decimal: <c>3d4h</c>, <c>2m30s</c>, <c>1.5 s</c>, <c>12.3 ms</c>.
    /// </summary>
    public static string RoundTime(TimeSpan time)
    {
        ulong ticks = Magnitude(time);
        ulong grain = ticks switch
        {
            >= TimeSpan.TicksPerDay => TimeSpan.TicksPerHour,
            >= TimeSpan.TicksPerHour => TimeSpan.TicksPerMinute,
            >= TimeSpan.TicksPerMinute => TimeSpan.TicksPerSecond,
            >= TimeSpan.TicksPerSecond => TimeSpan.TicksPerSecond / 10,
            >= TimeSpan.TicksPerMillisecond => TimeSpan.TicksPerMillisecond / 10,
            _ => 1,
        };
        // Rounded before it is divided into units: 59.96 s become 1 min, not 60 s.
        return Format(time < TimeSpan.Zero, (ticks + (grain / 2)) / grain * grain);
    }

    private static ulong Magnitude(TimeSpan time) => time.Ticks < 0 ? (ulong)-(Int128)time.Ticks : (ulong)time.Ticks;

    private static string Format(bool isNegative, ulong ticks)
    {
        string sign = isNegative ? "-" : "";
        if (ticks == 0) return "0 s";
        if (ticks < TimeSpan.TicksPerMillisecond) return Alone(ticks, TimeSpan.TicksPerMicrosecond, "us");
        if (ticks < TimeSpan.TicksPerSecond) return Alone(ticks, TimeSpan.TicksPerMillisecond, "ms");
        if (ticks < TimeSpan.TicksPerMinute) return Alone(ticks, TimeSpan.TicksPerSecond, "s");

        List<string> parts = [];
        foreach ((string name, ulong unit) in (ReadOnlySpan<(string, ulong)>)[("d", TimeSpan.TicksPerDay),
            ("h", TimeSpan.TicksPerHour), ("m", TimeSpan.TicksPerMinute)])
        {
            if (ticks >= unit) parts.Add(string.Create(CultureInfo.InvariantCulture, $"{ticks / unit}{name}"));
            ticks %= unit;
        }

        if (ticks > 0)
            parts.Add(string.Create(CultureInfo.InvariantCulture,
                $"{ticks / (decimal)TimeSpan.TicksPerSecond:0.#######}s"));
        if (parts is not [string only]) return sign + string.Concat(parts);
        return $"{sign}{only[..^1]} {(only[^1] == 'm' ? "min" : only[^1..])}";

        string Alone(ulong ticks, long unit, string name) =>
            string.Create(CultureInfo.InvariantCulture, $"{sign}{ticks / (decimal)unit:0.#######} {name}");
    }

    private static Outcome ReadBytes(ReadOnlySpan<char> text, out long bytes)
    {
        bytes = 0;
        text = text.Trim(' ');
        bool isNegative = TakeMinus(ref text);
        Outcome outcome = TakeNumber(ref text, out decimal number, out bool isWhole);
        if (outcome != Outcome.Read) return outcome;
        long unit = text.IsEmpty ? 1 : UnitOf(s_sizes, text);
        // A fraction of a byte is an error.
        if (unit == 0 || (unit == 1 && !isWhole)) return Outcome.Malformed;
        return Whole(isNegative, number, unit, out bytes);
    }

    private static Outcome ReadTime(ReadOnlySpan<char> text, out TimeSpan time)
    {
        time = TimeSpan.Zero;
        text = text.Trim(' ');
        bool isNegative = TakeMinus(ref text);
        decimal sum = 0;
        long previous = long.MaxValue;
        bool isLast = false;
        do
        {
            Outcome outcome = TakeNumber(ref text, out decimal number, out bool isWhole);
            if (outcome != Outcome.Read) return outcome;
            if (isLast) return Outcome.Malformed;
            isLast = !isWhole;
            int length = 0;
            while (length < text.Length && char.IsLetter(text[length])) length++;
            long unit = UnitOf(s_times, text[..length]);
            if (unit == 0 || unit >= previous) return Outcome.Malformed;
            previous = unit;
            text = text[length..].TrimStart(' ');
            // Compared before the multiplication, because an overflow of a decimal throws.
            if (number > ((decimal)long.MaxValue / unit) + 1) return Outcome.TooLarge;
            sum += number * unit;
        }
        while (!text.IsEmpty);
        Outcome all = Whole(isNegative, sum, 1, out long ticks);
        time = new TimeSpan(ticks);
        return all;
    }

    private static Outcome Whole(bool isNegative, decimal number, long unit, out long whole)
    {
        whole = 0;
        if (number > long.MaxValue + 1m) return Outcome.TooLarge;
        decimal all = decimal.Round(number * unit, MidpointRounding.AwayFromZero) * (isNegative ? -1 : 1);
        if (all is > long.MaxValue or < long.MinValue) return Outcome.TooLarge;
        whole = (long)all;
        return Outcome.Read;
    }

    private static bool TakeMinus(ref ReadOnlySpan<char> text)
    {
        if (text.IsEmpty || text[0] != '-') return false;
        text = text[1..];
        return true;
    }

    /// <summary>Parses digits with an optional fraction, and skips blanks after them.</summary>
    private static Outcome TakeNumber(ref ReadOnlySpan<char> text, out decimal number, out bool isWhole)
    {
        number = 0;
        int length = Digits(text);
        isWhole = length == text.Length || text[length] != '.';
        int whole = length;
        if (!isWhole) length += 1 + Digits(text[(length + 1)..]);
        if (whole == 0 || length == whole + 1) return Outcome.Malformed;
        ReadOnlySpan<char> digits = text[..whole].TrimStart('0');
        if (digits.Length > MostDigits - 1) return Outcome.TooLarge;
        // Digits beyond the precision of a decimal are rounded.
        number = decimal.Parse(text[..length], NumberStyles.AllowDecimalPoint, CultureInfo.InvariantCulture);
        text = text[length..].TrimStart(' ');
        return Outcome.Read;
    }

    private static int Digits(ReadOnlySpan<char> text)
    {
        int other = text.IndexOfAnyExceptInRange('0', '9');
        return other < 0 ? text.Length : other;
    }

    private static long UnitOf(ReadOnlySpan<(string Name, long Of)> units, ReadOnlySpan<char> name)
    {
        foreach ((string each, long of) in units)
        {
            if (name.SequenceEqual(each)) return of;
        }

        return 0;
    }

    /// <summary>Shortens a text for a message.</summary>
    private static string Shown(ReadOnlySpan<char> text) => text.Length <= 40 ? text.ToString() : $"{text[..40]}...";
}
