using System.Text;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http.Tests.Parsing;

// Every vector, cut at every place, alone, after a valid message and before one. The result does not depend on the cut.
// A valid message before a broken one is read; one after it is not.
public sealed class VectorTests
{
    private const string Request = "PUT /good HTTP/1.1\r\nHost: b\r\nContent-Length: 2\r\n\r\nok";
    private const string Response = "HTTP/1.1 201 Good\r\nContent-Length: 2\r\n\r\nok";

    private static readonly HttpReaderLimits _limits = new(100, 400, 10, 1000);

    public static TheoryData<string> Sections() => [.. Vectors.All.Select(v => v.Section).Distinct()];

    [Fact]
    public void The_list_of_vectors_is_long() => Assert.True(Vectors.All.Count >= 900, $"{Vectors.All.Count} vectors");

    [Fact]
    public void Every_rule_has_a_vector_that_breaks_it_a_status_and_a_sentence()
    {
        HashSet<string> broken = [.. Vectors.All.Select(v => v.Outcome)];
        foreach (HttpRule rule in Enum.GetValues<HttpRule>())
        {
            // Rules about the end of the stream or about several responses do not apply to a single message;
            // AnswerTests covers them.
            if (rule is not (HttpRule.None or HttpRule.Truncated or HttpRule.TooManyInterims or HttpRule.BadSwitch
                or HttpRule.Unasked))
                Assert.Contains(rule.ToString(), broken);
            Assert.InRange(HttpRules.StatusOf(rule), 400, 599);
        }

        string[] texts = [.. Enum.GetValues<HttpRule>().Select(HttpRules.TextOf)];
        Assert.Equal(texts.Length, texts.Distinct().Count());
    }

    [Theory, MemberData(nameof(Sections))]
    public void Each_vector_is_judged_as_expected_at_every_cut(string section)
    {
        Each(section, static (vector, bytes) =>
        {
            MessageDriver whole = Run(vector, bytes);
            Assert.Equal(vector.Outcome, whole.Outcome);
            for (int cut = 0; cut <= bytes.Length; cut++) Same(whole, Run(vector, bytes[..cut], bytes[cut..]));
            Same(whole, Run(vector, [.. bytes.Select(b => new[] { b })]));
        });
    }

    [Theory, MemberData(nameof(Sections))]
    public void After_a_good_message_each_vector_is_judged_the_same(string section)
    {
        Each(section, static (vector, bytes) =>
        {
            byte[] good = Good(vector), both = [.. good, .. bytes];
            MessageDriver alone = Run(vector, bytes);
            for (int cut = 0; cut <= both.Length; cut += cut < good.Length ? 7 : 1)
            {
                MessageDriver behind = Run(vector, both[..cut], both[cut..]);
                Assert.Equal(vector.Outcome, bytes.Length == 0 ? "Wait" : behind.Outcome);
                Assert.Equal(alone.Messages, behind.Messages[1..]);
            }
        });
    }

    [Theory, MemberData(nameof(Sections))]
    public void Before_a_good_message_a_broken_one_is_the_last(string section)
    {
        Each(section, static (vector, bytes) =>
        {
            if (vector.Outcome == "Wait") return;
            byte[] good = Good(vector), both = [.. bytes, .. good];
            MessageDriver alone = Run(vector, bytes), expected = Run(vector, good);
            // After an upgrade, and after a body that is delimited by the end of the connection, no further message can
            // follow.
            for (int cut = 0; cut <= both.Length; cut++)
            {
                MessageDriver front = Run(vector, both[..cut], both[cut..]);
                Assert.Equal(vector.Outcome, front.Outcome);
                Assert.Equal(vector.Outcome == "Ok" ? [.. alone.Messages, .. expected.Messages] : alone.Messages,
                    front.Messages);
            }
        });
    }

    [Fact]
    public void A_broken_message_stays_broken_whatever_follows()
    {
        HttpReader head = new();
        head.BeginRequest(_limits);
        Assert.Equal(HttpReading.Broken, head.Read("GET / HTTP/1.1\n"u8));
        Assert.Equal(HttpReading.Broken, head.Read("GET / HTTP/1.1\r\nHost: a\r\n\r\n"u8));
        Assert.Equal(HttpRule.BareLf, head.Rule);
        head.BeginRequest(_limits);
        Assert.Equal(HttpReading.Done, head.Read("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"u8));
        HttpBodyReader body = new(head, _limits);
        Assert.Equal(HttpReading.Broken, body.Read("x\r\n"u8, out _));
        Assert.Equal(HttpReading.Broken, body.Read("0\r\n\r\n"u8, out int taken));
        Assert.Equal(0, taken);
        Assert.Equal(HttpReading.Broken, body.Finish());
        Assert.Equal(HttpRule.BadChunkSize, body.Rule);
    }

    [Theory]
    [InlineData("Content-Length: 3\r\n\r\nab", false)]
    [InlineData("Content-Length: 2\r\n\r\nab", true)]
    [InlineData("Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n", false)]
    [InlineData("Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", true)]
    [InlineData("X: y\r\n\r\nab", true)]
    public void A_truncated_body_is_reported_as_incomplete(string rest, bool isWhole)
    {
        byte[] bytes = Encoding.Latin1.GetBytes("HTTP/1.1 200 OK\r\n" + rest);
        HttpReader head = new();
        head.BeginResponse(_limits, answersHead: false);
        Assert.Equal(HttpReading.Done, head.Read(bytes));
        HttpBodyReader body = new(head, _limits);
        Span<byte> left = bytes.AsSpan(head.HeadLength);
        while (body.Read(left, out int taken) == HttpReading.Data) left = left[taken..];
        Assert.Equal(isWhole ? HttpReading.Done : HttpReading.Broken, body.Finish());
        Assert.Equal(isWhole ? HttpRule.None : HttpRule.Truncated, body.Rule);
    }

    [Fact]
    public void The_answer_to_HEAD_has_no_body_whatever_it_says()
    {
        foreach (string framing in (string[])["Content-Length: 5", "Transfer-Encoding: chunked", "X: y"])
        {
            HttpReader head = new();
            head.BeginResponse(_limits, answersHead: true);
            Assert.Equal(HttpReading.Done,
                head.Read(Encoding.Latin1.GetBytes($"HTTP/1.1 200 OK\r\n{framing}\r\n\r\n")));
            Assert.Equal(HttpFraming.None, head.Framing);
        }
    }

    private static byte[] Good(Vectors.Vector vector) =>
        Encoding.Latin1.GetBytes(vector.IsResponse ? Response : Request);

    private static MessageDriver Run(Vectors.Vector vector, params byte[][] pieces)
    {
        MessageDriver driver = new(_limits with { IsLenient = vector.IsLenient }, vector.IsResponse);
        foreach (byte[] piece in pieces) driver.Feed(piece);
        return driver;
    }

    private static void Same(MessageDriver expected, MessageDriver actual)
    {
        Assert.Equal(expected.Outcome, actual.Outcome);
        Assert.Equal(expected.Messages, actual.Messages);
    }

    private static void Each(string section, Action<Vectors.Vector, byte[]> judge)
    {
        List<string> wrong = [];
        foreach (Vectors.Vector vector in Vectors.All.Where(v => v.Section == section))
        {
            try
            {
                judge(vector, vector.Bytes);
            }
            catch (Exception e)
            {
                wrong.Add($"{vector}\n    {e.Message.ReplaceLineEndings(" ")}");
            }
        }

        Assert.True(wrong.Count == 0, $"{wrong.Count} wrong:\n{string.Join('\n', wrong)}");
    }
}
