using System.Text;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http.Tests.Parsing;

// Values that would split a message, change its framing or frame it twice are rejected at the call.
public sealed class WriterTests
{
    public static TheoryData<string> BadValues() => ["a\r\nb", "\r", "\n", "\0", "a\rb", "a\nb", "a\0b", "\x01", "\x1F",
        "\x7F", "\x0B", " a", "a ", "\ta", "a\t", "a\r\nX: y", "\r\n\r\nHTTP/1.1 200 OK"];

    public static TheoryData<string> BadNames() => ["", " ", "a b", "a:", ":", "a\r\nb", "a\n", "\0", "a\t", "(a)",
        "a/b", "ä", "a,b", "a;b", "\x7F", "Content-Length", "content-length", "Transfer-Encoding",
        "TRANSFER-ENCODING"];

    [Theory, MemberData(nameof(BadValues))]
    public void A_value_that_would_end_its_line_is_refused(string value)
    {
        byte[] bytes = Encoding.Latin1.GetBytes(value);
        Assert.Throws<ArgumentException>(() => Writer().Field("X"u8, bytes));
        Assert.Throws<ArgumentException>(() => Writer().Field(HttpField.Location, bytes));
        Assert.Throws<ArgumentException>(() => HttpWriter.TryWriteField(new byte[100], "X", value, out _));
        Assert.Throws<ArgumentException>(() => new HttpWriter(new byte[100]).StatusLine(200, bytes));
    }

    [Theory, MemberData(nameof(BadNames))]
    public void A_name_that_is_no_token_and_one_that_frames_are_refused(string name)
    {
        byte[] bytes = Encoding.Latin1.GetBytes(name);
        Assert.Throws<ArgumentException>(() => Writer().Field(bytes, "v"u8));
        Assert.Throws<ArgumentException>(() => HttpWriter.TryWriteField(new byte[100], name, "v", out _));
    }

    [Fact]
    public void Letters_that_are_not_ASCII_are_refused_in_text()
    {
        Assert.Throws<ArgumentException>(() => HttpWriter.TryWriteField(new byte[100], "X", "Grüße", out _));
        // Cut down to a byte these would be CR and LF.
        Assert.Throws<ArgumentException>(() => HttpWriter.TryWriteField(new byte[100], "X", "a\u010D\u010Ab", out _));
        Assert.Throws<ArgumentException>(() => HttpWriter.TryWriteField(new byte[100], "X\u0100", "v", out _));
    }

    [Theory]
    [InlineData("GET", "/ HTTP/1.1\r\nX: y")]
    [InlineData("GET", "/a b")]
    [InlineData("GET", "/#a")]
    [InlineData("GET", "")]
    [InlineData("GET", "/ä")]
    [InlineData("G T", "/")]
    [InlineData("", "/")]
    [InlineData("GET\r\n", "/")]
    public void A_request_line_that_would_be_another_is_refused(string method, string target) =>
        Assert.Throws<ArgumentException>(() => new HttpWriter(new byte[100]).RequestLine(
            Encoding.Latin1.GetBytes(method), Encoding.Latin1.GetBytes(target)));

    [Fact]
    public void A_message_is_framed_once_and_not_at_all_where_it_has_no_body()
    {
        Assert.Throws<InvalidOperationException>(
            static () => { HttpWriter w = Writer(); w.ContentLength(1); w.ContentLength(1); });
        Assert.Throws<InvalidOperationException>(
            static () => { HttpWriter w = Writer(); w.ContentLength(1); w.Chunked(); });
        Assert.Throws<InvalidOperationException>(
            static () => { HttpWriter w = Writer(); w.Chunked(); w.ContentLength(1); });
        foreach (int status in (int[])[100, 101, 199, 204])
        {
            Assert.Throws<InvalidOperationException>(
                () => { HttpWriter w = new(new byte[100]); w.StatusLine(status); w.ContentLength(0); });
            Assert.Throws<InvalidOperationException>(
                () => { HttpWriter w = new(new byte[100]); w.StatusLine(status); w.Chunked(); });
        }

        Assert.Throws<InvalidOperationException>(
            static () => { HttpWriter w = new(new byte[100]); w.StatusLine(304); w.Chunked(); });
        Assert.Throws<ArgumentOutOfRangeException>(static () => Writer().ContentLength(-1));
    }

    [Fact]
    public void The_parts_come_in_their_order()
    {
        Assert.Throws<InvalidOperationException>(static () => new HttpWriter(new byte[100]).Field("X"u8, "y"u8));
        Assert.Throws<InvalidOperationException>(static () => new HttpWriter(new byte[100]).EndHead());
        Assert.Throws<InvalidOperationException>(static () => Writer().StatusLine(200));
        Assert.Throws<InvalidOperationException>(static () => Writer().Body("x"u8));
        Assert.Throws<InvalidOperationException>(
            static () => { HttpWriter w = Writer(); w.EndHead(); w.Field("X"u8, "y"u8); });
        Assert.Throws<ArgumentOutOfRangeException>(static () => new HttpWriter(new byte[100]).StatusLine(99));
        Assert.Throws<ArgumentOutOfRangeException>(static () => new HttpWriter(new byte[100]).StatusLine(600));
    }

    [Fact]
    public void A_value_that_does_not_fit_is_reported_and_nothing_is_written_past_the_end()
    {
        byte[] whole = new byte[200];
        int length = Write(whole, out bool isFull);
        Assert.False(isFull);
        Assert.Equal("HTTP/1.1 404 Not Found\r\nContent-Type: a/b\r\nX: y\r\nContent-Length: 12\r\n\r\nhello, world",
            Encoding.Latin1.GetString(whole, 0, length));
        for (int room = 0; room < length; room++)
        {
            byte[] bytes = new byte[room + 1];
            bytes[room] = 0xEE;
            Write(bytes.AsSpan(0, room), out isFull);
            Assert.True(isFull);
            Assert.Equal(0xEE, bytes[room]);
        }
    }

    [Fact]
    public void A_chunk_line_is_the_length_in_hexadecimal()
    {
        Span<byte> room = stackalloc byte[10];
        foreach (int length in (int[])[1, 9, 10, 15, 16, 255, 4096, int.MaxValue])
            Assert.Equal($"{length:x}\r\n", Encoding.Latin1.GetString(room[..HttpWriter.WriteChunkLine(room, length)]));
        Assert.Throws<ArgumentOutOfRangeException>(static () => HttpWriter.WriteChunkLine(new byte[10], 0));
    }

    private static HttpWriter Writer()
    {
        HttpWriter writer = new(new byte[100]);
        writer.StatusLine(200);
        return writer;
    }

    private static int Write(Span<byte> room, out bool isFull)
    {
        HttpWriter writer = new(room);
        writer.StatusLine(404);
        writer.Field(HttpField.ContentType, "a/b"u8);
        writer.Field("X"u8, "y"u8);
        writer.ContentLength(12);
        writer.EndHead();
        writer.Body("hello, world"u8);
        isFull = writer.IsFull;
        return writer.Length;
    }
}
