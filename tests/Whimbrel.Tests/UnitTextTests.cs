using System.Globalization;

namespace Whimbrel.Tests;

public sealed class UnitTextTests
{
    [Theory]
    [InlineData("512", 512)]
    [InlineData("0", 0)]
    [InlineData("512 B", 512)]
    [InlineData("64 KiB", 65536)]
    [InlineData("64KiB", 65536)]
    [InlineData(" 1.5  MiB ", 1_572_864)]
    [InlineData("10 MB", 10_000_000)]
    [InlineData("1 kB", 1000)]
    [InlineData("1 KB", 1000)]
    [InlineData("1.3 KiB", 1331)]
    [InlineData("0.0005 kB", 1)]
    [InlineData("-1 MiB", -1_048_576)]
    [InlineData("9223372036854775807", long.MaxValue)]
    [InlineData("-8 EiB", long.MinValue)]
    [InlineData("00000000000000000000000000000000000007", 7)]
    [InlineData("1.00000000000000000000000000000000000000 KiB", 1024)]
    public void A_size_is_read_with_and_without_its_unit(string text, long bytes)
    {
        Assert.Equal(bytes, UnitText.ParseBytes(text));
        Assert.True(UnitText.TryParseBytes(text, out long read));
        Assert.Equal(bytes, read);
    }

    [Theory]
    [InlineData("250 ms", 2_500_000)]
    [InlineData("30 s", 300_000_000)]
    [InlineData("0 s", 0)]
    [InlineData("2m30s", 1_500_000_000)]
    [InlineData("2 min 30.5 s", 1_505_000_000)]
    [InlineData("1h", TimeSpan.TicksPerHour)]
    [InlineData("1.5h", TimeSpan.TicksPerHour * 3 / 2)]
    [InlineData("3d4h", TimeSpan.TicksPerHour * 76)]
    [InlineData("10 us", 100)]
    [InlineData("10µs", 100)]
    [InlineData("0.06 us", 1)]
    [InlineData("-1 ms", -10_000)]
    public void A_time_is_read_with_its_units(string text, long ticks)
    {
        Assert.Equal(ticks, UnitText.ParseTime(text).Ticks);
        Assert.True(UnitText.TryParseTime(text, out TimeSpan read));
        Assert.Equal(ticks, read.Ticks);
    }

    [Theory]
    [InlineData("")]
    [InlineData(" ")]
    [InlineData("KiB")]
    [InlineData("-")]
    [InlineData("--1")]
    [InlineData("+1")]
    [InlineData("- 1")]
    [InlineData("1,5 KiB")]
    [InlineData("1_000")]
    [InlineData("1e3")]
    [InlineData("0x10")]
    [InlineData(".5 KiB")]
    [InlineData("5. KiB")]
    [InlineData("1.2.3 KiB")]
    [InlineData("0.5")]
    [InlineData("0.5 B")]
    [InlineData("1 K")]
    [InlineData("1 mib")]
    [InlineData("1 Mb")]
    [InlineData("1 KiB 5")]
    [InlineData("1 MiB 512 KiB")]
    [InlineData("١ KiB")]
    [InlineData("1\tKiB")]
    [InlineData("1 KiB\0")]
    public void An_invalid_size_is_refused_and_quoted(string text)
    {
        Assert.False(UnitText.TryParseBytes(text, out long bytes));
        Assert.Equal(0, bytes);
        Assert.StartsWith($"'{text}' is no size: a size is a number of bytes",
            Assert.Throws<FormatException>(() => UnitText.ParseBytes(text)).Message, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("")]
    [InlineData("5")]
    [InlineData("s")]
    [InlineData("5 seconds")]
    [InlineData("5 S")]
    [InlineData("1s2m")]
    [InlineData("1m2m")]
    [InlineData("1m 2min")]
    [InlineData("1.5h30m")]
    [InlineData("1h-30m")]
    [InlineData("1h30")]
    [InlineData("00:00:05")]
    [InlineData("1h,30m")]
    [InlineData("NaN s")]
    public void An_invalid_time_is_refused_and_quoted(string text)
    {
        Assert.False(UnitText.TryParseTime(text, out TimeSpan time));
        Assert.Equal(TimeSpan.Zero, time);
        Assert.StartsWith($"'{text}' is no time: a time is written as",
            Assert.Throws<FormatException>(() => UnitText.ParseTime(text)).Message, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("9223372036854775808")]
    [InlineData("8 EiB")]
    [InlineData("-8.1 EiB")]
    [InlineData("79228162514264337593543950335 EiB")]
    [InlineData("99999999999999999999999999999999999999999999")]
    public void More_than_a_number_holds_is_an_overflow_of_sizes(string text)
    {
        Assert.False(UnitText.TryParseBytes(text, out _));
        Assert.Throws<OverflowException>(() => UnitText.ParseBytes(text));
    }

    [Theory]
    [InlineData("10675200 d")]
    [InlineData("9223372036854775807 d 9223372036854775807 h")]
    [InlineData("10675199d10675199h")]
    [InlineData("79228162514264337593543950335 s")]
    [InlineData("99999999999999999999999999999999999999999999 us")]
    public void More_than_a_time_holds_is_an_overflow(string text)
    {
        Assert.False(UnitText.TryParseTime(text, out _));
        Assert.Throws<OverflowException>(() => UnitText.ParseTime(text));
    }

    [Theory]
    [InlineData(0, "0 B", "0 B")]
    [InlineData(1023, "1023 B", "1023 B")]
    [InlineData(1024, "1 KiB", "1.0 KiB")]
    [InlineData(1000, "1 kB", "1000 B")]
    [InlineData(1536, "1.5 KiB", "1.5 KiB")]
    [InlineData(1_234_567, "1234567 B", "1.2 MiB")]
    [InlineData(10_000_000, "10 MB", "9.5 MiB")]
    [InlineData(5_000_000_000, "5 GB", "4.66 GiB")]
    [InlineData(1_048_575, "1048575 B", "1.0 MiB")]
    [InlineData(-1536, "-1.5 KiB", "-1.5 KiB")]
    [InlineData(long.MaxValue, "9223372036854775807 B", "8.00 EiB")]
    [InlineData(long.MinValue, "-8 EiB", "-8.00 EiB")]
    public void A_size_is_written_exactly_or_about(long bytes, string exactly, string about)
    {
        Assert.Equal(exactly, UnitText.FormatBytes(bytes));
        Assert.Equal(about, UnitText.RoundBytes(bytes));
    }

    [Theory]
    [InlineData(0, "0 s", "0 s")]
    [InlineData(1, "0.1 us", "0.1 us")]
    [InlineData(2_500_000, "250 ms", "250 ms")]
    [InlineData(123_456, "12.3456 ms", "12.3 ms")]
    [InlineData(15_000_000, "1.5 s", "1.5 s")]
    [InlineData(599_600_000, "59.96 s", "1 min")]
    [InlineData(1_500_000_000, "2m30s", "2m30s")]
    [InlineData(TimeSpan.TicksPerHour, "1 h", "1 h")]
    [InlineData(TimeSpan.TicksPerHour + TimeSpan.TicksPerSecond, "1h1s", "1 h")]
    [InlineData(TimeSpan.TicksPerDay - 1, "23h59m59.9999999s", "1 d")]
    [InlineData(-1_500_000_001, "-2m30.0000001s", "-2m30s")]
    public void A_time_is_written_exactly_or_about(long ticks, string exactly, string about)
    {
        Assert.Equal(exactly, UnitText.FormatTime(new TimeSpan(ticks)));
        Assert.Equal(about, UnitText.RoundTime(new TimeSpan(ticks)));
    }

    [Fact]
    public void An_exactly_written_value_is_read_back_unchanged()
    {
        CultureInfo before = CultureInfo.CurrentCulture;
        try
        {
            // A comma in its numbers, and a special minus sign.
            CultureInfo.CurrentCulture =
                new CultureInfo("") { NumberFormat = { NumberDecimalSeparator = ",", NegativeSign = "~" } };
            Random random = new(19);
            List<long> numbers = [0, 1, -1, long.MaxValue, long.MaxValue - 1, long.MinValue, long.MinValue + 1];
            for (int i = 0; i < 20_000; i++)
            {
                long number = random.NextInt64(long.MinValue, long.MaxValue) >> random.Next(63);
                numbers.Add(number);
                // Round ones, too.
                numbers.Add(number / 1_000_000 * 1_000_000);
                numbers.Add(number & ~0xFFFFF);
            }

            foreach (long number in numbers)
            {
                Assert.Equal(number, UnitText.ParseBytes(UnitText.FormatBytes(number)));
                Assert.Equal(number, UnitText.ParseTime(UnitText.FormatTime(new TimeSpan(number))).Ticks);
                Assert.True(UnitText.TryParseBytes(UnitText.RoundBytes(number), out _)
                    || Math.Abs((decimal)number) > long.MaxValue - (1L << 53));
                Assert.NotEmpty(UnitText.RoundTime(new TimeSpan(number)));
            }
        }
        finally
        {
            CultureInfo.CurrentCulture = before;
        }
    }

    [Fact]
    public void A_message_quotes_no_more_than_the_beginning_of_a_long_text()
    {
        string message = Assert.Throws<FormatException>(() => UnitText.ParseBytes(new string('x', 100_000))).Message;
        Assert.InRange(message.Length, 40, 200);
    }
}
