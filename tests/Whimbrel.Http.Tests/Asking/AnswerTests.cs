using System.Text;
using Whimbrel.Http.Parsing;
using Whimbrel.Http.Tests.Parsing;

namespace Whimbrel.Http.Tests.Asking;

// Responses on a connection, request by request, cut at every place. Requests are given as letters: G is GET, H is
// HEAD. The expected text has one word per event; a body is shown as its bytes, regardless of the pieces it was
// received in.
public sealed class AnswerTests
{
    private static readonly HttpReaderLimits _limits = new(400, 400, 10, 1000);

    public static TheoryData<string, string, string> Vectors => new()
    {
        // what frames an answer
        { "G", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "200 ok. reusable" },
        { "G", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "200 . reusable" },
        { "G", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "200 ok. reusable" },
        { "G", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1;a=b\r\nk\r\n0\r\nX: y\r\n\r\n",
            "200 ok.(X: y) reusable" },
        { "G", "HTTP/1.1 200 OK\r\n\r\nok$", "200 ok. closes" },
        { "G", "HTTP/1.1 200 OK\r\n\r\n$", "200 . closes" },
        { "G", "HTTP/1.0 200 OK\r\n\r\nok$", "200 ok. closes" },
        { "G", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", "200 ok. closes" },
        { "G", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", "200 ok. reusable" },
        { "G", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", "200 ok. closes" },
        { "H", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "200 . reusable" },
        { "H", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "200 . reusable" },
        { "H", "HTTP/1.1 200 OK\r\n\r\n", "200 . reusable" },
        { "G", "HTTP/1.1 204 No Content\r\n\r\n", "204 . reusable" },
        { "G", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", "304 . reusable" },
        { "GHG", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\naHTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nHTTP/1.1 "
            + "201 Created\r\nContent-Length: 1\r\n\r\nb", "200 a. reusable 200 . reusable 201 b. reusable" },

        // interim answers
        { "G", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "100? 200 ok. reusable" },
        { "G", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 102 \r\n\r\nHTTP/1.1 204 \r\n\r\n",
            "103? 102? 204 . reusable" },
        { "G", "HTTP/1.1 100 \r\n\r\nHTTP/1.1 100 \r\n\r\nHTTP/1.1 100 \r\n\r\nHTTP/1.1 204 \r\n\r\n",
            "100? 100? 100? 204 . reusable" },
        { "G",
            "HTTP/1.1 100 \r\n\r\nHTTP/1.1 100 \r\n\r\nHTTP/1.1 100 \r\n\r\nHTTP/1.1 100 \r\n\r\nHTTP/1.1 204 \r\n\r\n",
            "100? 100? 100? TooManyInterims" },
        { "G", "HTTP/1.1 100 Continue\r\nContent-Length: 2\r\n\r\nok", "ForbiddenBody" },
        { "G", "HTTP/1.1 100 Continue\r\nTransfer-Encoding: chunked\r\n\r\n", "ForbiddenBody" },
        { "G", "HTTP/1.1 100 Continue\r\n\r\n$", "100? Truncated" },
        { "G", "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n", "101!" },
        { "G", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\n\r\n", "BadSwitch" },
        { "G", "HTTP/1.1 101 Switching Protocols\r\n\r\n", "BadSwitch" },

        // responses that two readers could interpret differently
        { "G", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok", "DuplicateField" },
        { "G", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 40\r\n\r\nok", "DuplicateField" },
        { "G", "HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok", "BadContentLength" },
        { "G", "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok", "BadContentLength" },
        { "G", "HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok", "BadContentLength" },
        { "G", "HTTP/1.1 200 OK\r\nContent-Length: 0x2\r\n\r\nok", "BadContentLength" },
        { "G", "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n", "BadContentLength" },
        { "G", "HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok", "SpaceInName" },
        { "G", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            "TwoFramings" },
        { "G", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "DuplicateField" },
        { "G", "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\nok", "BadTransferEncoding" },
        { "G", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "UnsupportedTransferEncoding" },
        { "G", "HTTP/1.1 200 OK\r\nTransfer-Encoding: \u000bchunked\r\n\r\n", "ControlCharacter" },
        { "G", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "TransferEncodingIn10" },
        { "G", "HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nok", "ForbiddenBody" },
        { "G", "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "ForbiddenBody" },
        { "G", "HTTP/1.1 200 OK\nContent-Length: 2\n\nok", "BareLf" },
        { "G", "HTTP/1.1 200 OK\r\nA: b\rContent-Length: 2\r\n\r\nok", "BareCr" },
        { "G", "HTTP/1.1 200 OK\r\n Content-Length: 2\r\n\r\nok", "LeadingSpace" },
        { "G", "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", "FoldedField" },
        { "G", "HTTP/1.1 200 OK\r\nA\r\n\r\n", "NoColon" },
        { "G", "\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "EmptyLines" },
        { "G", "HTTP/2.0 200 OK\r\n\r\n", "UnsupportedVersion" },
        { "G", "ICY 200 OK\r\n\r\n", "BadVersion" },
        { "G", "HTTP/1.1 20 OK\r\n\r\n", "BadStatusLine" },
        { "G", "HTTP/1.1 600 OK\r\n\r\n", "BadStatusLine" },
        { "G", "<html>hello</html>\r\n", "BadVersion" },

        // chunks
        { "G", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2 \r\nok\r\n0\r\n\r\n", "200 BadChunkSize" },
        { "G", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", "200 BadChunkSize" },
        { "G", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000000\r\n", "200 BadChunkSize" },
        { "G", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nokX\r\n", "200 ok BadChunkEnd" },
        { "G", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\nok\n0\n\n", "200 BareLf" },
        { "G", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 2\r\n\r\n",
            "200 ForbiddenTrailer" },
        { "G", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n", "200 BodyTooLarge" },

        // incomplete responses, and unsolicited bytes
        { "G", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok$", "200 ok Truncated" },
        { "G", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n$", "200 ok Truncated" },
        { "G", "HTTP/1.1 200 OK\r\nA: b$", "Truncated" },
        { "G", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokX", "200 ok. reusable Unasked" },
        { "G", "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            "204 . reusable Unasked" },
        { "H", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "200 . reusable Unasked" },
        { "", "HTTP/1.1 408 Request Timeout\r\n\r\n", "Unasked" },
        { "G", "HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n", "BodyTooLarge" },
        { "G", "HTTP/1.1 200 OK\r\nA: " + new string('a', 400) + "\r\n\r\n", "HeadTooLarge" },
        { "G", "HTTP/1.1 200 " + new string('a', 400) + "\r\n\r\n", "HeadTooLarge" },
        { "G", "HTTP/1.1 200 OK\r\n" + string.Concat(Enumerable.Repeat("A: b\r\n", 11)) + "\r\n", "TooManyFields" },
    };

    [Theory, MemberData(nameof(Vectors))]
    public void Each_answer_is_reported_the_same_at_every_cut(string requests, string answers, string told)
    {
        bool isFinished = answers.EndsWith('$');
        byte[] bytes = Encoding.Latin1.GetBytes(isFinished ? answers[..^1] : answers);
        Assert.Equal(told, Tell(requests, isFinished, bytes));
        for (int cut = 1; cut < bytes.Length; cut++)
            Assert.Equal(told, Tell(requests, isFinished, bytes[..cut], bytes[cut..]));
        Assert.Equal(told, Tell(requests, isFinished, [.. bytes.Select(b => new[] { b })]));
    }

    [Fact]
    public void Every_vector_of_the_readers_is_judged_as_there()
    {
        HttpReaderLimits limits = new(100, 400, 10, 1000);
        int count = 0;
        foreach (Vectors.Vector vector in Parsing.Vectors.All.Where(v => v.IsResponse && v.Outcome is not "Wait"))
        {
            HttpAnswerReader reader = new(limits with { IsLenient = vector.IsLenient }, 3);
            reader.Begin(answersHead: false);
            ReadOnlySpan<byte> rest = vector.Bytes;
            HttpMessagePart part = HttpMessagePart.NeedMore;
            while (part is not (HttpMessagePart.Broken or HttpMessagePart.Switched))
            {
                part = reader.Read(rest, out int taken);
                rest = rest[taken..];
                if (part == HttpMessagePart.NeedMore || (part == HttpMessagePart.Done && rest.IsEmpty)) break;
                if (part == HttpMessagePart.Done) reader.Begin(answersHead: false);
            }

            // After a 101 the bytes belong to another protocol, which readers of single messages do not check.
            if (reader.Rule == HttpRule.BadSwitch) continue;
            Assert.Equal($"{vector}: {(vector.Outcome == "Ok" ? HttpRule.None.ToString() : vector.Outcome)}",
                $"{vector}: {reader.Rule}");
            count++;
        }

        Assert.True(count > 50, $"{count} vectors");
    }

    private static string Tell(string requests, bool isFinished, params byte[][] pieces)
    {
        HttpAnswerReader reader = new(_limits, 3);
        StringBuilder told = new();
        byte[] unread = [];
        int next = 0;
        if (requests.Length > 0) reader.Begin(requests[next++] == 'H');
        foreach (byte[] piece in pieces)
        {
            unread = [.. unread, .. piece];
            int taken = 0;
            while (reader.Rule == HttpRule.None)
            {
                ReadOnlySpan<byte> rest = unread.AsSpan(taken);
                HttpMessagePart part = reader.Read(rest, out int count);
                taken += count;
                if (part is HttpMessagePart.NeedMore or HttpMessagePart.Broken) break;
                Add(part, part is HttpMessagePart.Data or HttpMessagePart.Done
                    ? rest.Slice(reader.Start, reader.Length)
                    : default);
                if (part == HttpMessagePart.Switched) return told.ToString().TrimEnd();
            }

            unread = unread[taken..];
        }

        if (isFinished && reader.Rule == HttpRule.None && reader.Finish() == HttpMessagePart.Done)
            Add(HttpMessagePart.Done, default);
        if (reader.Rule != HttpRule.None)
            told.Append(told.Length > 0 && told[^1] != ' ' ? " " : "").Append(reader.Rule);
        return told.ToString().TrimEnd();

        void Add(HttpMessagePart part, ReadOnlySpan<byte> bytes)
        {
            string text = Encoding.Latin1.GetString(bytes);
            switch (part)
            {
                case HttpMessagePart.Interim:
                    told.Append(reader.Head.Reader.Status).Append("? ");
                    break;
                case HttpMessagePart.Switched:
                    told.Append(reader.Head.Reader.Status).Append('!');
                    break;
                case HttpMessagePart.Head:
                    told.Append(reader.Head.Reader.Status).Append(' ');
                    break;
                case HttpMessagePart.Data:
                    told.Append(text);
                    break;
                default:
                    told.Append('.').Append(text.Length > 0 ? $"({text.TrimEnd()})" : "")
                        .Append(reader.IsReusable ? " reusable " : " closes ");
                    if (next < requests.Length) reader.Begin(requests[next++] == 'H');
                    break;
            }
        }
    }
}
