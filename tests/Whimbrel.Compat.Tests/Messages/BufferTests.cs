using NetCoreServer;
using Buffer = NetCoreServer.Buffer;

namespace Whimbrel.Compat.Tests.Messages;

public sealed class BufferTests
{
    [Fact]
    public void Data_appended_in_any_form_is_in_the_buffer()
    {
        Buffer buffer = new();
        Assert.True(buffer.IsEmpty);
        Assert.Equal(1, buffer.Append((byte)'a'));
        Assert.Equal(2, buffer.Append("bc"u8.ToArray()));
        Assert.Equal(1, buffer.Append("xdx"u8.ToArray(), 1, 1));
        Assert.Equal(1, buffer.Append("e"u8));
        Assert.Equal(2, buffer.Append("é"));
        Assert.Equal(1, buffer.Append("f".AsSpan()));
        Assert.Equal(2, buffer.Append(new Buffer("gh"u8.ToArray())));
        Assert.Equal("abcdeéfgh", buffer.ToString());
        Assert.Equal(10, buffer.Size);
        Assert.Equal("bcd", buffer.ExtractString(1, 3));
        Assert.Equal((byte)'a', buffer[0]);
        Assert.True(buffer.Capacity >= buffer.Size && buffer.Data.Length == buffer.Capacity);
    }

    [Fact]
    public void A_part_is_taken_out_and_the_offset_goes_with_it()
    {
        Buffer buffer = new("abcdef"u8.ToArray());
        buffer.Shift(4);
        Assert.Equal("ef", new string([.. buffer.AsSpan().ToArray().Select(b => (char)b)]));
        buffer.Remove(1, 2);
        Assert.Equal(("adef", 2L), (buffer.ToString(), buffer.Offset));
        buffer.Remove(1, 2);
        Assert.Equal(("af", 1L), (buffer.ToString(), buffer.Offset));
        buffer.Unshift(1);
        Assert.Equal(0, buffer.Offset);
        foreach ((long to, long offset) in ((long, long)[])[(3, 1), (4, 0), (5, 0)]) // the offset is 4
        {
            Buffer other = new("abcdef"u8.ToArray());
            other.Shift(4);
            other.Remove(0, to);
            Assert.Equal(("abcdef"[(int)to..], offset), (other.ToString(), other.Offset));
        }

        buffer.Clear();
        Assert.True(buffer.IsEmpty);
        buffer.Resize(3);
        Assert.Equal(3, buffer.Size);
    }

    [Fact]
    public void Ranges_outside_the_buffer_throw()
    {
        Buffer buffer = new("abc"u8.ToArray());
        Assert.Throws<ArgumentException>(() => buffer.ExtractString(2, 2));
        Assert.Throws<ArgumentException>(() => buffer.ExtractString(-1, 1));
        Assert.Throws<ArgumentException>(() => buffer.Remove(3, 1));
        Assert.Throws<ArgumentException>(() => buffer.Remove(long.MaxValue, 1));
        Assert.Throws<ArgumentException>(() => buffer.Shift(4));
        Assert.Throws<ArgumentException>(() => buffer.Unshift(1));
        Assert.Throws<ArgumentException>(() => buffer.Reserve(-1));
        Assert.Throws<ArgumentException>(() => buffer.Append([1], 1, 1));
        Assert.Throws<ArgumentException>(() => new Buffer(-1));
    }

    [Theory]
    [InlineData(0, "0 bytes")]
    [InlineData(1023, "1023 bytes")]
    [InlineData(1024, "1.000 KiB")]
    [InlineData(1536, "1.512 KiB")]
    [InlineData(16752640, "15.1000 MiB")]
    [InlineData(1073741824, "1.000 GiB")]
    [InlineData(1099511627776d * 3000, "3000.000 TiB")]
    [InlineData(-1536, "-1.512 KiB")]
    public void A_size_is_shown_with_its_rest_in_the_next_unit(double bytes, string expected) =>
        Assert.Equal(expected, Utilities.GenerateDataSize(bytes));

    [Theory]
    [InlineData(0.000017, "17 ns")]
    [InlineData(0.0015, "1.500 mcs")]
    [InlineData(1.5, "1.500 ms")]
    [InlineData(2003, "2.003 s")]
    [InlineData(62500, "1:02.500 m")]
    [InlineData(10862500, "3:01:02.500 h")]
    [InlineData(-1.5, "-1.500 ms")]
    public void A_time_is_shown_in_a_suitable_unit(double milliseconds, string expected) =>
        Assert.Equal(expected, Utilities.GenerateTimePeriod(milliseconds));

    [Fact]
    public void Suffixes_and_white_space_are_taken_off()
    {
        Assert.Equal("ab", "ab/".RemoveSuffix('/'));
        Assert.Equal("ab", "ab".RemoveSuffix('/'));
        Assert.Equal("a", "abc".RemoveSuffix("bc"));
        Assert.Equal("ABC", "ABC".RemoveSuffix("bc"));
        Assert.Equal("abc", " a\tb\nc ".RemoveWhiteSpace());
    }

    [Fact]
    public void A_lock_is_left_once()
    {
        using ReaderWriterLockSlim locker = new();
        WriteLock write = new(locker);
        Assert.True(locker.IsWriteLockHeld);
        write.Dispose();
        write.Dispose();
        Assert.False(locker.IsWriteLockHeld);
        using (new ReadLock(locker)) Assert.Equal(1, locker.CurrentReadCount);
        Assert.Equal(0, locker.CurrentReadCount);
    }
}
