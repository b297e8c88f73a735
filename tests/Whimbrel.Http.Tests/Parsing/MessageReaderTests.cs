using System.Text;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http.Tests.Parsing;

// The public message reader follows the same rules as the sessions: same vectors, every cut.
public sealed class MessageReaderTests
{
    private static readonly HttpOptions _requests =
        new() { RequestLineLimitBytes = 100, HeadLimitBytes = 400, FieldLimit = 10, BodyLimitBytes = 1000 };
    private static readonly HttpClientOptions _answers =
        new() { HeadLimitBytes = 400, FieldLimit = 10, BodyLimitBytes = 1000 };

    [Fact]
    public void Every_vector_of_requests_is_judged_as_there_wherever_it_is_cut()
    {
        int count = 0;
        foreach (Vectors.Vector vector in Vectors.All.Where(v => !v.IsResponse))
        {
            byte[] bytes = vector.Bytes;
            string expected = vector.Outcome is "Ok" or "Wait"
                ? vector.Outcome
                : $"{HttpRules.TextOf(Enum.Parse<HttpRule>(vector.Outcome))}.";
            for (int cut = 0; cut <= bytes.Length; cut += cut < 40 ? 1 : 5)
                Assert.Equal($"{vector}: {expected}", $"{vector}: {Judge(bytes[..cut], bytes[cut..])}");
            count++;
        }

        Assert.True(count > 500, $"{count} vectors");
    }

    [Fact]
    public void A_request_without_Host_is_read_when_the_reader_does_not_require_it()
    {
        byte[] request = "GET / HTTP/1.1\r\n\r\n"u8.ToArray();
        HttpMessageReader strict = new(_requests), lenient = new(_requests) { RequireHost = false };
        Assert.Equal((true, false), (strict.RequireHost, lenient.RequireHost));
        Assert.Equal(HttpMessagePart.Broken, strict.Read(request, out _, out _));
        for (int i = 0; i < 2; i++)
        {
            Assert.Equal(HttpMessagePart.Head, lenient.Read(request, out int taken, out _));
            Assert.Equal((request.Length, "/"), (taken, Text(lenient.Target)));
            Assert.Equal(HttpMessagePart.Done, lenient.Read(default, out _, out _));
        }

        // A Host value that is present must be valid.
        Assert.Equal(HttpMessagePart.Broken, lenient.Read("GET / HTTP/1.1\r\nHost: a b\r\n\r\n"u8, out _, out _));
    }

    [Fact]
    public void Each_request_of_a_reader_has_the_same_limits()
    {
        HttpMessageReader reader = new(_requests);
        byte[] Request(int length) => Encoding.ASCII.GetBytes(
            $"GET / HTTP/1.1\r\nHost: h\r\nX: {new string('x', length - 32)}\r\n\r\n");
        for (int i = 0; i < 3; i++)
        {
            Assert.Equal(HttpMessagePart.Head, reader.Read(Request(400), out int taken, out _));
            Assert.Equal(400, taken);
            Assert.Equal(HttpMessagePart.Done, reader.Read(default, out _, out _));
        }

        Assert.Equal(HttpMessagePart.Broken, reader.Read(Request(401), out _, out _));
    }

    [Fact]
    public void Requests_are_read_with_their_parts_one_after_the_other()
    {
        HttpMessageReader reader = new(_requests);
        byte[] bytes =
        [
            .. "PUT /a?b HTTP/1.1\r\nHost: h\r\nX: y\r\nTransfer-Encoding: chunked\r\n\r\n"u8,
            .. "2\r\nhi\r\n0\r\n\r\nGET /c HTTP/1.0\r\n\r\n"u8,
        ];
        int taken = 0;
        Assert.Equal(HttpMessagePart.Head, Next(out _));
        Assert.Equal(("PUT", "/a?b", 1, 3, -1L, true), (Text(reader.Method), Text(reader.Target), reader.MinorVersion,
            reader.FieldCount, reader.BodyLength, reader.IsPersistent));
        Assert.Equal("X y", $"{Text(reader.NameAt(1))} {Text(reader.ValueAt(1))}");
        Assert.Equal(HttpMessagePart.Data, Next(out string piece));
        Assert.Equal("hi", piece);
        Assert.True(reader.IsInMessage);
        Assert.Equal(HttpMessagePart.Done, Next(out _));
        Assert.False(reader.IsInMessage);
        Assert.Equal(HttpMessagePart.Head, Next(out _));
        Assert.Equal(("GET", "/c", 0, 0, 0L, false), (Text(reader.Method), Text(reader.Target), reader.MinorVersion,
            reader.FieldCount, reader.BodyLength, reader.IsPersistent));
        Assert.Equal(HttpMessagePart.Done, Next(out _));
        Assert.Equal(HttpMessagePart.NeedMore, Next(out _));
        Assert.Equal("/c", Text(reader.Target));
        Assert.Equal(bytes.Length, taken);
        Assert.Equal(HttpMessagePart.NeedMore, reader.Finish());

        HttpMessagePart Next(out string text)
        {
            HttpMessagePart part = reader.Read(bytes.AsSpan(taken), out int count, out ReadOnlySpan<byte> piece);
            text = Text(piece);
            taken += count;
            return part;
        }
    }

    [Fact]
    public void A_request_truncated_in_its_body_is_reported_when_the_sender_has_finished()
    {
        HttpMessageReader reader = new(_requests);
        Assert.Equal(HttpMessagePart.Head,
            reader.Read("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n"u8, out _, out _));
        Assert.Equal(HttpMessagePart.Data, reader.Read("abc"u8, out _, out _));
        Assert.Equal(HttpMessagePart.Broken, reader.Finish());
        Assert.Contains("not finished", reader.Failure!.Message, StringComparison.Ordinal);
        Assert.Equal(HttpMessagePart.Broken, reader.Read("abc"u8, out _, out _));
    }

    [Fact]
    public void An_answer_is_read_by_what_was_asked_and_may_end_with_the_connection()
    {
        HttpMessageReader reader = new(_answers);
        Assert.Throws<InvalidOperationException>(() => new HttpMessageReader(_requests).ExpectAnswer(toHead: false));
        reader.ExpectAnswer(toHead: true);
        ReadOnlySpan<byte> rest =
            "HTTP/1.1 100 \r\n\r\nHTTP/1.1 200 Fine\r\nContent-Length: 5\r\n\r\nHTTP/1.1 200 \r\n\r\nend"u8;
        Assert.Equal(HttpMessagePart.Interim, Next(ref rest, out _));
        Assert.Equal(HttpMessagePart.Head, Next(ref rest, out _));
        Assert.Equal("200 Fine", $"{reader.Status} {Text(reader.Reason)}");
        Assert.Throws<InvalidOperationException>(() => reader.ExpectAnswer(toHead: false));
        Assert.Equal(HttpMessagePart.Done, Next(ref rest, out _));
        Assert.True(reader.IsPersistent);
        reader.ExpectAnswer(toHead: false);
        Assert.Equal(HttpMessagePart.Head, Next(ref rest, out _));
        Assert.Equal(-1, reader.BodyLength);
        Assert.Equal(HttpMessagePart.Data, Next(ref rest, out string piece));
        Assert.Equal("end", piece);
        Assert.Equal(HttpMessagePart.Done, reader.Finish());
        Assert.False(reader.IsPersistent);

        HttpMessagePart Next(ref ReadOnlySpan<byte> unread, out string text)
        {
            HttpMessagePart part = reader.Read(unread, out int taken, out ReadOnlySpan<byte> piece);
            text = Text(piece);
            unread = unread[taken..];
            return part;
        }
    }

    private static string Judge(params byte[][] pieces)
    {
        HttpMessageReader reader = new(_requests);
        byte[] unread = [];
        int messages = 0;
        foreach (byte[] piece in pieces)
        {
            unread = [.. unread, .. piece];
            int taken = 0;
            HttpMessagePart part;
            do
            {
                part = reader.Read(unread.AsSpan(taken), out int count, out _);
                taken += count;
                if (part == HttpMessagePart.Done) messages++;
            }
            while (part is not (HttpMessagePart.NeedMore or HttpMessagePart.Broken));

            if (part == HttpMessagePart.Broken) return reader.Failure!.Message;
            unread = unread[taken..];
        }

        return reader.IsInMessage || unread.Length > 0 || messages == 0 ? "Wait" : "Ok";
    }

    private static string Text(ReadOnlySpan<byte> bytes) => Encoding.Latin1.GetString(bytes);
}
