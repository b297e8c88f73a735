using System.Buffers;
using System.Diagnostics;

namespace Whimbrel.Tests.Framing;

// Bytes in, frames out: at every split, compared with a slow reader, up to each limit and past it.
public sealed class FrameReaderTests
{
    private const int Executions = 5_000_000;
    private const int LongestInput = 32;

    [Fact]
    public void Every_split_of_a_stream_gives_the_same_frames()
    {
        foreach (int seed in Seeds.Some(3))
        {
            Random random = new(seed);
            foreach (SlowFrames slow in SlowFrames.All)
            {
                byte[] all = Stream(slow, random, 6);
                (int, int)[] places = new (int, int)[all.Length + 1];
                Assert.Equal(FrameError.None, slow.Find(all, places, out int count, out int rest));
                Assert.Equal((6, all.Length), (count, rest));
                for (int first = 0; first <= all.Length; first++)
                {
                    for (int second = first; second <= all.Length; second++)
                        Same(slow, all, [first, second, all.Length], seed);
                }

                Same(slow, all, [.. Enumerable.Range(0, all.Length + 1)], seed);
            }
        }
    }

    [Fact]
    public void Any_bytes_give_what_a_slow_reader_finds()
    {
        byte[] bytes = new byte[LongestInput];
        int[] ends = new int[3];
        foreach (int seed in Seeds.Some(2))
        {
            Random random = new(seed);
            for (int i = 0; i < Executions / 2; i++)
            {
                SlowFrames slow = SlowFrames.All[i % SlowFrames.All.Length];
                Span<byte> all = bytes.AsSpan(0, random.Next(LongestInput) + 1);
                random.NextBytes(all);
                // Few values, so that lengths are near the limit and delimiters are frequent.
                int kind = random.Next(8);
                foreach (ref byte b in all)
                    b = b < 24 ? (byte)0xFF : b < 48 ? (byte)0x80 : kind < 4 ? "aab\r\n\0"u8[b % 6]
                        : (byte)(b % (kind * 4));
                ends[2] = all.Length;
                ends[1] = random.Next(all.Length + 1);
                ends[0] = random.Next(ends[1] + 1);
                Same(slow, all, ends, seed);
            }
        }
    }

    [Theory]
    [InlineData(1, false)]
    [InlineData(2, false)]
    [InlineData(4, true)]
    [InlineData(8, true)]
    public void A_length_at_the_limit_is_read_and_one_more_is_too_long(int prefix, bool isLittle)
    {
        FrameFormat format = FrameFormat.LengthPrefix(prefix, isLittle, limitBytes: 100);
        FrameFormat larger = FrameFormat.LengthPrefix(prefix, isLittle, limitBytes: 101);
        Assert.Equal((1, FrameError.None), Read(format, Written(larger, new byte[100])));
        // No byte of the message needs to have arrived.
        Assert.Equal((0, FrameError.TooLong), Read(format, Written(larger, new byte[101]).AsSpan(0, prefix)));
    }

    [Fact]
    public void A_length_that_no_message_can_have_is_an_overflow()
    {
        Assert.Equal((0, FrameError.LengthOverflow), Read(FrameFormat.LengthPrefix(8), [0x80, 0, 0, 0, 0, 0, 0, 0]));
        Assert.Equal((0, FrameError.TooLong),
            Read(FrameFormat.LengthPrefix(8), [0x7F, 255, 255, 255, 255, 255, 255, 255]));
        Assert.Equal((0, FrameError.TooLong), Read(FrameFormat.LengthPrefix(4), [255, 255, 255, 255]));
        Assert.Equal((0, FrameError.LengthOverflow),
            Read(FrameFormat.VarintPrefix(), [.. Enumerable.Repeat((byte)0x80, 10)]));
        Assert.Equal((0, FrameError.TooLong),
            Read(FrameFormat.VarintPrefix(), [255, 255, 255, 255, 255, 255, 255, 255, 0x7F]));
        Assert.Equal((0, FrameError.LengthTooSmall),
            Read(FrameFormat.LengthPrefix(4, countsItself: true), [0, 0, 0, 3]));
        Assert.Equal((1, FrameError.None), Read(FrameFormat.LengthPrefix(4, countsItself: true), [0, 0, 0, 4]));
    }

    [Fact]
    public void A_line_without_an_end_is_too_long()
    {
        FrameFormat format = FrameFormat.Line(limitBytes: 10);
        Assert.Equal((1, FrameError.None), Read(format, "0123456789\r\n"u8));
        Assert.Equal((0, FrameError.TooLong), Read(format, "0123456789a\n"u8));
        Assert.Equal((0, FrameError.None), Read(format, "0123456789\r"u8));
        Assert.Equal((0, FrameError.TooLong), Read(format, "0123456789a\r"u8));
        Assert.Equal((0, FrameError.TooLong), Read(format, new byte[100_000]));
    }

    [Fact]
    public void Empty_frames_without_an_end_are_refused_and_a_message_between_them_restarts_the_count()
    {
        Assert.Equal((3, FrameError.None), Read(FrameFormat.Line(emptyLimit: 3), "\n\n\n"u8));
        Assert.Equal((3, FrameError.TooManyEmpty), Read(FrameFormat.Line(emptyLimit: 3), "\n\r\n\n\n"u8));
        Assert.Equal((7, FrameError.None), Read(FrameFormat.Line(emptyLimit: 3), "\n\n\na\n\n\n\n"u8));
        Assert.Equal((0, FrameError.TooManyEmpty), Read(FrameFormat.LengthPrefix(2, emptyLimit: 0), [0, 0]));
        Assert.Equal((1024, FrameError.TooManyEmpty), Read(FrameFormat.VarintPrefix(), new byte[100_000]));
    }

    [Fact]
    public void After_an_error_nothing_is_found()
    {
        FrameReader reader = new(FrameFormat.Line(limitBytes: 2));
        Assert.False(reader.TryRead("abc\n"u8, out _));
        Assert.False(reader.TryRead("a\n"u8, out _));
        Assert.Equal(FrameError.TooLong, reader.Error);
    }

    [Fact]
    public void A_message_that_a_reader_would_not_find_is_not_written()
    {
        Assert.Throws<ArgumentException>(() => Written(FrameFormat.Line(), "a\nb"u8));
        Assert.Throws<ArgumentException>(() => Written(FrameFormat.Line(), "a\r"u8));
        Assert.Throws<ArgumentException>(() => Written(FrameFormat.Delimited("aa"u8), "ba"u8));
        Assert.Throws<ArgumentException>(() => Written(FrameFormat.Delimited("aba"u8), "ab"u8));
        Assert.Equal("bab--"u8.ToArray(), Written(FrameFormat.Delimited("--"u8), "bab"u8));
        Assert.Throws<ArgumentException>(() => Written(FrameFormat.FixedSize(3), "ab"u8));
        Assert.Throws<ArgumentException>(() => Written(FrameFormat.LengthPrefix(1), new byte[256]));
        Assert.Throws<ArgumentException>(() => Written(FrameFormat.LengthPrefix(1, countsItself: true), new byte[255]));
        Assert.Throws<ArgumentException>(() => Written(FrameFormat.LengthPrefix(4, limitBytes: 5), new byte[6]));
        Assert.Throws<ArgumentException>(() => Written(FrameFormat.LengthPrefix(4, headerBytes: 2), new byte[6]));
    }

    [Fact]
    public void A_format_with_a_mistake_says_which()
    {
        Assert.Equal("prefixBytes",
            Assert.Throws<ArgumentOutOfRangeException>(() => FrameFormat.LengthPrefix(3)).ParamName);
        Assert.Equal("headerBytes",
            Assert.Throws<ArgumentOutOfRangeException>(() => FrameFormat.LengthPrefix(4, headerBytes: 65)).ParamName);
        Assert.Equal("delimiter",
            Assert.Throws<ArgumentOutOfRangeException>(() => FrameFormat.Delimited([])).ParamName);
        Assert.Equal("limitBytes",
            Assert.Throws<ArgumentOutOfRangeException>(() => FrameFormat.FixedSize(0)).ParamName);
        Assert.Equal("emptyLimit",
            Assert.Throws<ArgumentOutOfRangeException>(() => FrameFormat.Line(emptyLimit: -1)).ParamName);
    }

    [Fact]
    [Trait("Runs", "alone")]
    public void Twice_the_bytes_take_twice_the_time_also_one_by_one()
    {
        FrameFormat format = FrameFormat.Delimited("\r\n\r\n"u8, limitBytes: 1 << 20);
        byte[] bytes = new byte[1 << 19];
        Array.Fill(bytes, (byte)'\r');
        ReadAll(bytes.Length / 2);
        double once = Enumerable.Range(0, 5).Min(_ => ReadAll(bytes.Length / 2)),
            twice = Enumerable.Range(0, 5).Min(_ => ReadAll(bytes.Length));
        // With a search from the start each time it takes minutes.
        Assert.True(twice < 3.5 * once, $"{once} ms, then {twice} ms");

        double ReadAll(int length)
        {
            FrameReader reader = new(format);
            long began = Stopwatch.GetTimestamp();
            for (int i = 1; i <= length; i++) Assert.False(reader.TryRead(bytes.AsSpan(0, i), out _));
            Assert.Equal(FrameError.None, reader.Error);
            return Stopwatch.GetElapsedTime(began).TotalMilliseconds;
        }
    }

    [Fact]
    public void A_message_costs_no_memory()
    {
        foreach (SlowFrames slow in SlowFrames.All)
        {
            byte[] all = Stream(slow, new Random(1), 100);
            FrameReader reader = new(slow.Format);
            Assert.Equal(0, Allocated.By(() =>
            {
                int at = 0;
                while (reader.TryRead(all.AsSpan(at), out Frame frame)) at += frame.Bytes;
            }));
        }
    }

    private static void Same(SlowFrames slow, ReadOnlySpan<byte> all, ReadOnlySpan<int> ends, int seed)
    {
        Span<(int Start, int Length)> places = stackalloc (int, int)[LongestInput * 8];
        FrameError expected = slow.Find(all, places, out int count, out int rest);
        FrameReader reader = new(slow.Format);
        int taken = 0, found = 0;
        bool isSame = true;
        foreach (int end in ends)
        {
            while (reader.TryRead(all[taken..end], out Frame frame))
            {
                ReadOnlySpan<byte> message =
                    found < count ? all.Slice(places[found].Start, places[found].Length) : default;
                isSame &= found++ < count && frame.Message.SequenceEqual(message)
                    && frame.Header.SequenceEqual(all.Slice(taken, slow.Header));
                taken += frame.Bytes;
            }
        }

        if (!isSame || found != count || taken != rest || reader.Error != expected)
        {
            Assert.Fail(
                $"seed {seed}, {slow.Name}, {Convert.ToHexString(all)} in [{string.Join(' ', ends.ToArray())}]: "
                + $"{found} frames and {reader.Error}, not {count} and {expected}");
        }
    }

    private static byte[] Stream(SlowFrames slow, Random random, int messages)
    {
        ArrayBufferWriter<byte> all = new();
        for (int i = 0; i < messages; i++)
        {
            byte[] message = new byte[slow.Name == "fixed" ? 5 : random.Next(1, 10)];
            Array.Fill(message, (byte)('c' + i % 20));
            slow.Format.Write(all, message, "head"u8[..slow.Header]);
        }

        return all.WrittenSpan.ToArray();
    }

    private static byte[] Written(FrameFormat format, ReadOnlySpan<byte> message)
    {
        ArrayBufferWriter<byte> to = new();
        format.Write(to, message);
        return to.WrittenSpan.ToArray();
    }

    private static (int Frames, FrameError Error) Read(FrameFormat format, ReadOnlySpan<byte> bytes)
    {
        FrameReader reader = new(format);
        int count = 0;
        for (; reader.TryRead(bytes, out Frame frame); count++) bytes = bytes[frame.Bytes..];
        return (count, reader.Error);
    }
}
