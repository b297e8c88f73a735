using System.Buffers.Text;
using System.Globalization;
using System.Text;

namespace Whimbrel.Http.Parsing;

/// <summary>Dates of fields, in seconds since 1970: the written format, and two older ones that must be
/// accepted.</summary>
internal static class HttpTime
{
    /// <summary>Length of the written format in bytes.</summary>
    internal const int Length = 29;

    private static readonly string[] s_months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct",
        "Nov", "Dec"];
    private static readonly string[] s_days = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday",
        "Saturday"];

    internal static void Write(long seconds, Span<byte> into) =>
        Utf8Formatter.TryFormat(DateTimeOffset.FromUnixTimeSeconds(seconds), into, out _, 'R');

    internal static string TextOf(long seconds) =>
        DateTimeOffset.FromUnixTimeSeconds(seconds).ToString("R", CultureInfo.InvariantCulture);

    /// <summary>Reads a date. Returns false if it is malformed: the condition is then ignored.</summary>
    /// <param name="text">Value of a field.</param>
    /// <param name="nowSeconds">Current time, for years of two digits: a date more than 50 years ahead is of the
    /// previous century.</param>
    /// <param name="seconds">Seconds since 1970.</param>
    internal static bool TryRead(ReadOnlySpan<byte> text, long nowSeconds, out long seconds)
    {
        seconds = 0;
        if (text.Length == Length && Utf8Parser.TryParse(text, out DateTimeOffset moment, out int used, 'R')
            && used == Length)
        {
            seconds = moment.ToUnixTimeSeconds();
            return true;
        }

        return text.Contains((byte)',')
            ? TryReadRfc850(text, nowSeconds, out seconds)
            : TryReadAsctime(text, out seconds);
    }

    // Sunday, 06-Nov-94 08:49:37 GMT
    private static bool TryReadRfc850(ReadOnlySpan<byte> text, long nowSeconds, out long seconds)
    {
        seconds = 0;
        int comma = text.IndexOf((byte)',');
        ReadOnlySpan<byte> rest = text[(comma + 1)..];
        if (rest.Length != 23 || rest[0] != ' ' || rest[3] != '-' || rest[7] != '-' || rest[10] != ' '
            || !rest.EndsWith(" GMT"u8))
            return false;
        if (!TryTwoDigits(rest[8..], out int shortYear)) return false;
        int thisYear = DateTimeOffset.FromUnixTimeSeconds(nowSeconds).Year;
        int year = thisYear - thisYear % 100 + shortYear;
        if (year > thisYear + 50) year -= 100;
        return TryDay(rest[1..3], out int day)
            && TryMake(year, rest[4..7], day, rest[11..19], out seconds, out DayOfWeek weekDay)
            && Ascii.Equals(text[..comma], s_days[(int)weekDay]);
    }

    // Sun Nov  6 08:49:37 1994
    private static bool TryReadAsctime(ReadOnlySpan<byte> text, out long seconds)
    {
        seconds = 0;
        if (text.Length != 24 || text[3] != ' ' || text[7] != ' ' || text[10] != ' ' || text[19] != ' ') return false;
        ReadOnlySpan<byte> dayText = text[8] == ' ' ? text[9..10] : text[8..10];
        if (!TryTwoDigits(text[20..], out int century) || !TryTwoDigits(text[22..], out int year)) return false;
        return TryDay(dayText, out int day)
            && TryMake(century * 100 + year, text[4..7], day, text[11..19], out seconds, out DayOfWeek weekDay)
            && Ascii.Equals(text[..3], s_days[(int)weekDay].AsSpan(0, 3));
    }

    private static bool TryDay(ReadOnlySpan<byte> text, out int day)
    {
        if (text.Length == 2) return TryTwoDigits(text, out day);
        day = text[0] - '0';
        return day is >= 1 and <= 9;
    }

    private static bool TryTwoDigits(ReadOnlySpan<byte> text, out int value)
    {
        int tens = text[0] - '0', ones = text[1] - '0';
        value = tens * 10 + ones;
        return tens is >= 0 and <= 9 && ones is >= 0 and <= 9;
    }

    private static bool TryMake(int year, ReadOnlySpan<byte> monthText, int day, ReadOnlySpan<byte> time,
        out long seconds, out DayOfWeek weekDay)
    {
        seconds = 0;
        weekDay = default;
        int month = 0;
        for (int i = 0; i < s_months.Length; i++)
        {
            if (Ascii.Equals(monthText, s_months[i])) month = i + 1;
        }

        if (month == 0 || year is < 1 or > 9999 || day < 1 || day > DateTime.DaysInMonth(year, month)) return false;
        if (time[2] != ':' || time[5] != ':' || !TryTwoDigits(time, out int hour)
            || !TryTwoDigits(time[3..], out int minute) || !TryTwoDigits(time[6..], out int second))
            return false;
        if (hour > 23 || minute > 59 || second > 59) return false;
        DateTimeOffset moment = new(year, month, day, hour, minute, second, TimeSpan.Zero);
        seconds = moment.ToUnixTimeSeconds();
        weekDay = moment.DayOfWeek;
        return true;
    }
}
