using System.Numerics;
using System.Text;
using Whimbrel.Http.Parsing;
using Whimbrel.Tests;

namespace Whimbrel.Http.Tests.Files;

// Range fields: fixed cases, and a comparison with a slow implementation of the RFC that uses big integers.
public sealed class RangeTests
{
    [Theory]
    [InlineData("bytes=0-0", "0+1")]
    [InlineData("bytes=0-99", "0+100")]
    [InlineData("bytes=99-99", "99+1")]
    [InlineData("bytes=0-", "0+100")]
    [InlineData("bytes=50-", "50+50")]
    [InlineData("bytes=50-1000", "50+50")]
    [InlineData("bytes=-1", "99+1")]
    [InlineData("bytes=-100", "0+100")]
    [InlineData("bytes=-1000", "0+100")]
    [InlineData("BYTES=1-2", "1+2")]
    [InlineData("bytes=0-0,-1", "0+1 99+1")]
    [InlineData("bytes= 5-6 ,\t10-11, ", "5+2 10+2")]
    [InlineData("bytes=10-11,0-1", "10+2 0+2")]
    [InlineData("bytes=0-9,200-300", "0+10")]
    [InlineData("bytes=0-9,0-9", "0+10 0+10")]
    [InlineData("bytes=0-99999999999999999999999999", "0+100")]
    [InlineData("bytes=-99999999999999999999999999", "0+100")]
    [InlineData("bytes=00000000000000000000000001-2", "1+2")]
    [InlineData("bytes=9223372036854775807-9223372036854775807", "none")]
    [InlineData("bytes=99999999999999999999999999-", "none")]
    [InlineData("bytes=100-", "none")]
    [InlineData("bytes=100-200", "none")]
    [InlineData("bytes=-0", "none")]
    [InlineData("bytes=100-,-0", "none")]
    [InlineData("", "whole")]
    [InlineData("bytes", "whole")]
    [InlineData("bytes=", "whole")]
    [InlineData("bytes=,", "whole")]
    [InlineData("bytes=-", "whole")]
    [InlineData("bytes=5", "whole")]
    [InlineData("bytes=a-b", "whole")]
    [InlineData("bytes=5-4", "whole")]
    [InlineData("bytes=+5-6", "whole")]
    [InlineData("bytes=5-+6", "whole")]
    [InlineData("bytes=--5", "whole")]
    [InlineData("bytes=5--", "whole")]
    [InlineData("bytes=0x5-6", "whole")]
    [InlineData("bytes=5 - 6", "whole")]
    [InlineData("bytes=1-2;3-4", "whole")]
    [InlineData("bytes=0-1,x", "whole")]
    [InlineData("bytes =0-1", "whole")]
    [InlineData("lines=0-1", "whole")]
    [InlineData("bytes=0-99,0-0", "whole")] // more than there is
    [InlineData("bytes=0-,0-,0-,0-", "whole")]
    [InlineData("bytes=0-0,2-2,4-4,6-6,8-8,10-10,12-12,14-14,16-16,18-18,20-20,22-22,24-24,26-26,28-28,30-30",
        "0+1 2+1 4+1 6+1 8+1 10+1 12+1 14+1 16+1 18+1 20+1 22+1 24+1 26+1 28+1 30+1")]
    [InlineData("bytes=0-0,2-2,4-4,6-6,8-8,10-10,12-12,14-14,16-16,18-18,20-20,22-22,24-24,26-26,28-28,30-30,32-32",
        "whole")]
    public void A_field_asks_for_these_parts_of_a_hundred_bytes(string value, string expected) =>
        Assert.Equal(expected, Read(value, 100));

    [Fact]
    public void A_body_without_bytes_has_no_parts() => Assert.All((string[])["bytes=0-", "bytes=0-0", "bytes=-1"],
        static value => Assert.Equal("whole", Read(value, 0)));

    [Fact]
    public void The_longest_body_can_be_divided()
    {
        Assert.Equal($"{long.MaxValue - 1}+1", Read($"bytes={long.MaxValue - 1}-", long.MaxValue));
        Assert.Equal($"0+{long.MaxValue}", Read("bytes=0-", long.MaxValue));
        Assert.Equal("whole", Read("bytes=0-,0-,0-", long.MaxValue));
    }

    [Fact]
    public void Random_fields_come_to_what_a_slow_reading_says()
    {
        int parted = 0;
        foreach (int seed in Seeds.Some(4))
        {
            Random random = new(seed);
            for (int i = 0; i < 20_000; i++)
            {
                long length = random.Next(6) switch
                {
                    0 => 0,
                    1 => 1,
                    2 => random.Next(20),
                    3 => random.Next(10_000),
                    4 => random.NextInt64(),
                    _ => long.MaxValue
                };
                string value = Field(random, length);
                string expected = Slowly(value, length);
                Assert.True(expected == Read(value, length),
                    $"seed {seed}, {value} of {length}: {Read(value, length)} and not {expected}");
                if (expected.Contains('+', StringComparison.Ordinal)) parted++;
            }
        }

        Assert.InRange(parted, 10_000, 80_000);
    }

    private static string Field(Random random, long length)
    {
        List<string> parts = [];
        for (int left = random.Next(1, random.Next(8) == 0 ? 20 : 4); left > 0; left--)
        {
            BigInteger from = Number(random, length),
                to = random.Next(3) == 0 ? Number(random, length) : from + random.Next(5);
            parts.Add(random.Next(6) switch
            {
                0 => $"-{from}",
                1 => $"{from}-",
                2 when random.Next(10) == 0 => $"{from}{to}",
                _ => $"{from}-{to}"
            });
        }

        return "bytes=" + string.Join(random.Next(2) == 0 ? "," : " , ", parts);
    }

    private static BigInteger Number(Random random, long length) => random.Next(5) switch
    {
        0 => random.Next(5),
        1 => new BigInteger(length) + random.Next(-2, 3) is var near && near < 0 ? 0 : near,
        2 => new BigInteger(long.MaxValue) * random.Next(1, 4),
        _ => random.NextInt64(Math.Max(1, length)),
    };

    private static string Slowly(string value, long length)
    {
        string[] elements = value["bytes=".Length..].Split(',', StringSplitOptions.TrimEntries);
        if (length == 0 || elements.Length > HttpRanges.Most) return "whole";
        BigInteger sum = 0;
        List<string> found = [];
        foreach (string element in elements)
        {
            int dash = element.IndexOf('-', StringComparison.Ordinal);
            if (dash < 0) return "whole";
            BigInteger from, to = length - 1;
            if (dash == 0) from = BigInteger.Max(0, length - BigInteger.Parse(element[1..], null));
            else // numbers that no body reaches are all the same
            {
                from = BigInteger.Min(long.MaxValue, BigInteger.Parse(element[..dash], null));
                if (dash + 1 < element.Length)
                {
                    BigInteger last = BigInteger.Min(long.MaxValue, BigInteger.Parse(element[(dash + 1)..], null));
                    if (last < from) return "whole";
                    to = BigInteger.Min(to, last);
                }
            }

            if (from > to) continue;
            sum += to - from + 1;
            found.Add($"{from}+{to - from + 1}");
        }

        return found.Count == 0 ? "none" : sum > length ? "whole" : string.Join(' ', found);
    }

    private static string Read(string value, long length)
    {
        HttpRange[] parts = new HttpRange[HttpRanges.Most];
        RangeWish wish = HttpRanges.Read(Encoding.ASCII.GetBytes(value), length, parts, out int count);
        Assert.Equal(wish == RangeWish.Parts, count > 0);
        return wish switch
        {
            RangeWish.Whole => "whole",
            RangeWish.Unsatisfiable => "none",
            _ => string.Join(' ', parts[..count].Select(static part => $"{part.Start}+{part.Length}")),
        };
    }
}
