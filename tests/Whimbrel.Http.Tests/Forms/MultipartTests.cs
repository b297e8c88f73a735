using System.Text;
using System.Text.RegularExpressions;
using Whimbrel.Http.Parsing;
using Whimbrel.Http.Tests.Serving;
using Whimbrel.Testing;
using Whimbrel.Tests;

namespace Whimbrel.Http.Tests.Forms;

// Forms with files: the reader at every cut, against a plain one, and what handlers get of it.
public sealed partial class MultipartTests
{
    private const string B = "B0undary";
    private const string Name = "Content-Disposition: form-data; name=\"a\"\r\n";

    private static string Part(string head, string data) => $"--{B}\r\n{head}\r\n{data}\r\n";

    private static string Whole(params string[] parts) => $"{string.Concat(parts)}--{B}--\r\n";

    /// <summary>The rule and the parts that the reader reports for a body received in these pieces.</summary>
    private static (MultipartRule Rule, List<string> Parts) Feed(string body, string boundary, int partLimit,
        params int[] cuts)
    {
        MultipartReader reader = new(Encoding.Latin1.GetBytes(boundary), partLimit);
        List<string> parts = [];
        byte[] all = Encoding.Latin1.GetBytes(body);
        int start = 0;
        foreach (int end in (int[])[.. cuts, all.Length])
        {
            while (true)
            {
                ReadOnlySpan<byte> unread = all.AsSpan(start, end - start);
                MultipartReading reading = reader.Read(unread, out int taken);
                if (reading == MultipartReading.Part)
                {
                    parts.Add($"{Text(unread, reader.Name)}|{(reader.FileName is { } f ? Text(unread, f) : "-")}|"
                        + $"{(reader.ContentType is { } t ? Text(unread, t) : "-")}|");
                }
                else if (reading == MultipartReading.Data)
                {
                    Assert.True(reader.Length > 0);
                    parts[^1] += Encoding.Latin1.GetString(unread.Slice(reader.Start, reader.Length));
                }

                start += taken;
                if (reading == MultipartReading.Broken) return (reader.Rule, parts);
                if (reading == MultipartReading.NeedMore) break;
            }
        }

        reader.Finish();
        return (reader.Rule, parts);
    }

    private static string Text(ReadOnlySpan<byte> unread, Range place) => Encoding.Latin1.GetString(unread[place]);

    public static TheoryData<string, string> Bodies() => new()
    {
        { Whole(Part(Name, "x")), "a|-|-|x" },
        { Whole(Part(Name, "")), "a|-|-|" },
        { Whole(Part(Name, "x"), Part(Name, "y")), "a|-|-|x;a|-|-|y" },
        { Whole(), "" },
        { $"--{B}--", "" },
        { Whole(Part("Content-Disposition: form-data; name=a; filename=\"b.txt\"\r\nContent-Type: text/plain; x=y\r\n",
            "x")), "a|b.txt|text/plain; x=y|x" },
        { Whole(Part("content-disposition:FORM-DATA;name=\"\";filename=\"\"\r\n", "x")),
            "|||x".Replace("|||", "||-|", StringComparison.Ordinal) },
        { Whole(Part("Content-Disposition: form-data; name=\"a\\\"b\"; filename=\"C:\\dir\\c\"\r\nX-Y: z\r\n", "x")),
            "a\\\"b|C:\\dir\\c|-|x" },
        { Whole(Part("Content-Disposition: form-data; name=a; filename=b; "
            + "filename*=utf-8''c\r\nContent-Transfer-Encoding: Binary\r\n", "x")), "a|b|-|x" },
        { Whole(Part(Name, $"\r\n--B0undar\r\n-\r\n--\r\r\n\n--{B}")), $"a|-|-|\r\n--B0undar\r\n-\r\n--\r\r\n\n--{B}" },
        { Whole(Part(Name, "\r"), Part(Name, "\r\n"), Part(Name, "\r\n-")), "a|-|-|\r;a|-|-|\r\n;a|-|-|\r\n-" },
        { $"\r\n{Whole(Part(Name, "x"))}", "Start" },
        { "x" + Whole(Part(Name, "x")), "Start" },
        { "--B0undarx\r\n", "Start" },
        { $"--{B}\n{Name}\r\nx\r\n--{B}--", "BoundaryEnd" },
        { $"--{B} \r\n{Name}\r\nx\r\n--{B}--", "BoundaryEnd" },
        { $"--{B}\r\n{Name}\r\nx\r\n--{B}-\r\n", "BoundaryEnd" },
        { $"--{B}\r\n{Name}\r\nx\r\n--{B}a\r\n--{B}--", "BoundaryEnd" },
        { Whole(Part("", "x")), "BadDisposition" },
        { Whole(Part("Content-Type: a/b\r\n", "x")), "BadDisposition" },
        { Whole(Part(Name + Name, "x")), "BadDisposition" },
        { Whole(Part("Content-Disposition: form-data\r\n", "x")), "BadDisposition" },
        { Whole(Part("Content-Disposition: attachment; name=a\r\n", "x")), "BadDisposition" },
        { Whole(Part("Content-Disposition: form-data; filename=a\r\n", "x")), "BadDisposition" },
        { Whole(Part("Content-Disposition: form-data; name=a; name=b\r\n", "x")), "BadDisposition" },
        { Whole(Part("Content-Disposition: form-data; name=a; filename=b; FileName=c\r\n", "x")), "BadDisposition" },
        { Whole(Part("Content-Disposition: form-data; name=\"a\r\n", "x")), "BadDisposition" },
        { Whole(Part("Content-Disposition: form-data; name=\"a\\\"\r\n", "x")), "BadDisposition" },
        { Whole(Part("Content-Disposition: form-data; name=a b\r\n", "x")), "BadDisposition" },
        { Whole(Part("Content-Disposition: form-data; name=\r\n", "x")), "BadDisposition" },
        { Whole(Part("Content-Disposition: form-data; name =a\r\n", "x")), "BadDisposition" },
        { Whole(Part("Content-Disposition: form-data; name=a;\r\n", "x")), "BadDisposition" },
        { Whole(Part(Name + "Content-Type: a/b\r\nContent-Type: a/b\r\n", "x")), "BadHead" },
        { Whole(Part(Name + "X : y\r\n", "x")), "BadHead" },
        { Whole(Part(Name + " folded\r\n", "x")), "BadHead" },
        { Whole(Part(Name + "X\r\n", "x")), "BadHead" },
        { Whole(Part(Name + "X: y\n", "x")), "BadHead" },
        { Whole(Part("Content-Disposition: form-data; name=\"a\0\"\r\n", "x")), "BadHead" },
        { Whole(Part(Name + "Content-Transfer-Encoding: base64\r\n", "x")), "Encoded" },
        { Whole(Part(Name + string.Concat(Enumerable.Repeat("X: y\r\n", 15)), "x")), "a|-|-|x" },
        { Whole(Part(Name + string.Concat(Enumerable.Repeat("X: y\r\n", 16)), "x")), "HeadTooLarge" },
        { Whole(Part(Name + $"X: {new string('y', 4096 - 2 - Name.Length - 5)}\r\n", "x")), "a|-|-|x" },
        { Whole(Part(Name + $"X: {new string('y', 4096 - 1 - Name.Length - 5)}\r\n", "x")), "HeadTooLarge" },
        { Whole(Part(Name, "1"), Part(Name, "2"), Part(Name, "3"), Part(Name, "4")),
            "a|-|-|1;a|-|-|2;a|-|-|3;a|-|-|4" },
        { Whole(Part(Name, "1"), Part(Name, "2"), Part(Name, "3"), Part(Name, "4"), Part(Name, "5")), "TooManyParts" },
        { Whole(Part(Name, "x")) + "x", "Rest" },
        { Whole(Part(Name, "x")) + "\r\n", "Rest" },
        { $"--{B}--\n", "Rest" },
        { $"--{B}--\r", "Truncated" },
        { $"--{B}-", "Truncated" },
        { $"--{B}", "Truncated" },
        { "", "Truncated" },
        { $"--{B}\r\n{Name}", "Truncated" },
        { $"--{B}\r\n{Name}\r\nx", "Truncated" },
        { $"--{B}\r\n{Name}\r\nx\r\n--{B}", "Truncated" },
    };

    [Theory, MemberData(nameof(Bodies))]
    public void Each_body_is_judged_the_same_wherever_it_is_cut(string body, string expected)
    {
        (MultipartRule rule, List<string> parts) = Feed(body, B, 4);
        Assert.Equal(expected, rule == MultipartRule.None ? string.Join(';', parts) : rule.ToString());
        Assert.Equal(rule == MultipartRule.None, MultipartReader.TextOf(rule) == "Nothing is wrong");
        for (int cut = 0; cut <= body.Length; cut++)
        {
            (MultipartRule ruleThere, List<string> partsThere) = Feed(body, B, 4, cut);
            Assert.True(rule == ruleThere && parts.SequenceEqual(partsThere),
                $"cut at {cut}: {ruleThere} {string.Join(';', partsThere)}");
        }

        Assert.Equal(rule, Feed(body, B, 4, [.. Enumerable.Range(0, body.Length)]).Rule);
    }

    [Theory]
    [InlineData("multipart/form-data; boundary=abc", "abc")]
    [InlineData("Multipart/Form-Data ;  charset=utf-8; BOUNDARY=\"a b\"", "a b")]
    [InlineData("multipart/form-data; boundary=----WebKitFormBoundary7MA4YWxkTrZu0gW",
        "----WebKitFormBoundary7MA4YWxkTrZu0gW")]
    [InlineData("multipart/form-data", null)]
    [InlineData("multipart/form-data; boundary=", null)]
    [InlineData("multipart/form-data; boundary=\"\"", null)]
    [InlineData("multipart/form-data; boundary=\"a \"", null)]
    [InlineData("multipart/form-data; boundary=\"a\\\"b\"", null)]
    [InlineData("multipart/form-data; boundary=a; boundary=b", null)]
    [InlineData("multipart/form-data; boundary=a b", null)]
    [InlineData("multipart/form-data; boundary=0123456789012345678901234567890123456789012345678901234567890123456789",
        "0123456789012345678901234567890123456789012345678901234567890123456789")]
    [InlineData("multipart/form-data; boundary=01234567890123456789012345678901234567890123456789012345678901234567890",
        null)]
    [InlineData("multipart/mixed; boundary=a", null)]
    [InlineData("application/x-www-form-urlencoded", null)]
    public void A_boundary_is_found_or_its_absence_reported(string type, string? boundary)
    {
        bool isFound = MultipartReader.TryFindBoundary(Encoding.ASCII.GetBytes(type), out ReadOnlySpan<byte> found);
        Assert.Equal(boundary, isFound ? Encoding.ASCII.GetString(found) : null);
    }

    // ------------------------------------------------------------------ a plain reader

    [GeneratedRegex("""\A(?:(?<field>[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\0-\x08\x0A-\x1F\x7F]*)\r\n){0,16}\r\n""",
        RegexOptions.Singleline)]
    private static partial Regex Head();

    [GeneratedRegex(
        """\A[ \t]*form-data[ \t]*(?:[ \t]*;[ \t]*(?<name>[!#$%&'*+.^_`|~0-9A-Za-z-]+)=(?<value>"(?>(?:\\["\\]|[^"])*)"|[!#$%&'*+.^_`|~0-9A-Za-z-]+))+[ \t]*\z""",
        RegexOptions.Singleline | RegexOptions.IgnoreCase)]
    private static partial Regex Disposition();

    /// <summary>Reference reader: the parts, or null for a rejected body. Simple and slow, works on the whole
    /// body.</summary>
    private static List<string>? Plain(string body, int partLimit)
    {
        List<string> parts = [];
        if (!body.StartsWith("--b", StringComparison.Ordinal)) return null;
        for (string rest = body[3..]; ;)
        {
            if (rest is "--" or "--\r\n") return parts;
            if (!rest.StartsWith("\r\n", StringComparison.Ordinal) || parts.Count == partLimit) return null;
            Match head = Head().Match(rest[2..]);
            if (!head.Success || head.Length > MultipartReader.HeadLimitBytes) return null;
            string[] fields = [.. head.Groups["field"].Captures.Select(static c => c.Value)];
            string[] dispositions = [.. Values(fields, "Content-Disposition")],
                types = [.. Values(fields, "Content-Type")];
            if (dispositions.Length != 1 || types.Length > 1 || Values(fields, "Content-Transfer-Encoding")
                .Any(static e => e.Trim(' ', '\t').ToUpperInvariant() is not ("BINARY" or "8BIT" or "7BIT")))
                return null;
            Match disposition = Disposition().Match(dispositions[0]);
            if (!disposition.Success) return null;
            string[] names = [.. Parameters(disposition, "name")], files = [.. Parameters(disposition, "filename")];
            if (names.Length != 1 || files.Length > 1) return null;
            string data = rest[(2 + head.Length)..];
            int end = data.IndexOf("\r\n--b", StringComparison.Ordinal);
            if (end < 0) return null;
            parts.Add(
                $"{names[0]}|{files.FirstOrDefault("-")}|{types.FirstOrDefault("-").Trim(' ', '\t')}|{data[..end]}");
            rest = data[(end + 5)..];
        }
    }

    private static IEnumerable<string> Values(string[] fields, string name) => fields
        .Where(f => f.StartsWith(name + ":", StringComparison.OrdinalIgnoreCase)).Select(f => f[(name.Length + 1)..]);

    private static IEnumerable<string> Parameters(Match disposition, string name) =>
        disposition.Groups["name"].Captures.Zip(disposition.Groups["value"].Captures)
            .Where(p => p.First.Value.Equals(name, StringComparison.OrdinalIgnoreCase))
            .Select(static p => p.Second.Value).Select(static v => v[0] == '"' ? v[1..^1] : v);

    [Fact]
    public void It_agrees_with_a_plain_reader_about_every_body()
    {
        string[] pieces = ["--b", "\r\n--b", "\r\n--b--", "\r\n", "Content-Disposition: form-data; name=\"a\"\r\n",
            "content-disposition:form-data;name=x; filename=\"y\\\"z\"\r\n", "Content-Type: a/b\r\n", "\r", "\n", "-",
            "b", "data", "\"", ";", "=", "Content-Transfer-Encoding: base64\r\n", "X: y\r\n", "\0", " ", "\\", "--"];
        int runs = Depth.Of(60_000, deep: 2_000_000);
        foreach (int seed in Seeds.Some(2))
        {
            Random random = new(seed);
            int good = 0, refused = 0;
            for (int run = 0; run < runs / 2; run++)
            {
                StringBuilder text = new();
                for (int parts = random.Next(4); parts > 0; parts--)
                    text.Append("--b\r\n").Append(pieces[random.Next(4, 6)])
                        .Append(random.Next(3) == 0 ? pieces[6] : "").Append("\r\n")
                        .Append(pieces[random.Next(pieces.Length)]).Append(pieces[random.Next(7, 12)]).Append("\r\n");
                text.Append("--b--").Append(random.Next(2) == 0 ? "\r\n" : "");
                for (int changes = random.Next(4) - 1; changes > 0; changes--)
                {
                    int at = random.Next(text.Length);
                    if (random.Next(2) == 0) text.Insert(at, pieces[random.Next(pieces.Length)]);
                    else text.Remove(at, Math.Min(random.Next(1, 4), text.Length - at));
                    if (text.Length == 0) text.Append('-');
                }

                string body = text.ToString();
                List<string>? expected = Plain(body, 3);
                int cut = random.Next(body.Length + 1);
                (MultipartRule rule, List<string> read) = Feed(body, "b", 3, cut, random.Next(cut, body.Length + 1));
                if ((rule == MultipartRule.None) != (expected is not null)
                    || (expected is not null && !expected.SequenceEqual(read)))
                    Assert.Fail($"seed {seed}, run {run}: {rule} {string.Join(';', read)}, expected "
                        + $"{(expected is null ? "a refusal" : string.Join(';', expected))}, of "
                        + body.Replace("\r", "\\r", StringComparison.Ordinal)
                            .Replace("\n", "\\n", StringComparison.Ordinal));
                if (expected is null) refused++;
                else good++;
            }

            Assert.True(good > runs / 20 && refused > runs / 20, $"one-sided: {good} {refused}");
        }
    }

    // ------------------------------------------------------------------ what a handler gets

    private static string Post(string body, string fields = "") =>
        Web.Post("/", body, $"Content-Type: multipart/form-data; boundary={B}\r\n{fields}");

    private static Web Listing(HttpOptions? options = null)
    {
        Web web = new(options);
        web.Server.Post("/", static async (request, response, stop) =>
        {
            StringBuilder list = new();
            await foreach (HttpPart part in request.ReadPartsAsync(stop))
            {
                if (part.Name == "skipped") continue;
                if (part.Name == "first") Assert.Equal(1, await part.Body.ReadAsync(new byte[1], stop));
                list.Append($"{part.Name},{part.FileName},{part.ContentType},{await part.ReadTextAsync(10, stop)};");
            }

            response.Text(list.ToString());
        });
        return web;
    }

    private static string Field(string name, string data, string more = "") =>
        Part($"Content-Disposition: form-data; name=\"{name}\"{more}\r\n", data);

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void A_handler_reads_part_for_part_and_passes_over_what_it_does_not_want(bool isSplit)
    {
        using Web web = Listing();
        TestPeer peer = web.Connect();
        peer.SplitEveryByte = isSplit;
        string large = new('x', isSplit ? 100 : 100_000);
        peer.Send(Post(Whole(Field("skipped", large), Field("a", "0123456789"), Field("first", "x123"),
            Field("f", "", "; filename=\"..\\..\\c:d/e.txt\""), Field("skipped", large))) + Post(Whole()));
        Assert.Equal(["200 a,,,0123456789;first,,,123;f,e.txt,,;", "200 "], Web.Answers(peer));
    }

    [Theory]
    [InlineData("a.txt", "a.txt")]
    [InlineData("/etc/passwd", "passwd")]
    [InlineData("..", "")]
    [InlineData("../..", "")]
    [InlineData("C:\\dir\\a b.txt", "a b.txt")]
    [InlineData("a:b", "b")]
    [InlineData("a.txt. . ", "a.txt")]
    [InlineData("dir/", "")]
    [InlineData("", "")]
    [InlineData("a\\\"b", "a\"b")]
    public void A_file_name_is_never_a_path(string sent, string expected)
    {
        using Web web = Listing();
        TestPeer peer = web.Connect();
        peer.Send(Post(Whole(Field("f", "x", $"; filename=\"{sent}\""))));
        Assert.Equal($"200 f,{expected},,x;", Assert.Single(Web.Answers(peer)));
    }

    [Fact]
    public void An_invalid_form_or_one_above_its_limits_is_refused_and_counted()
    {
        using Web web = Listing(new HttpOptions { FormFieldLimit = 2 });
        foreach ((string request, int status) in ((string, int)[])
        [
            (Post(Whole(Field("a", "x"), Field("b", "x"))), 200),
            (Post(Whole(Field("a", "x"), Field("b", "x"), Field("c", "x"))), 413),
            (Post(Whole(Field("a", "0123456789"))), 200), (Post(Whole(Field("a", "0123456789x"))), 413),
            (Post(Whole(Part($"{Name}X: {new string('y', 5000)}\r\n", "x"))), 413),
            (Post("x"), 400), (Post($"--{B}\r\n{Name}\r\nx"), 400),
            (Web.Post("/", "x", "Content-Type: text/plain\r\n"), 415), (Web.Post("/", "x"), 415),
        ])
        {
            TestPeer peer = web.Connect();
            peer.Send(request);
            Answer answer = Web.One(peer);
            Assert.Equal((request, status), (request, answer.Status));
            Assert.Equal(status == 200, peer.IsConnected);
        }

        Assert.Equal((4L, 3L, 0L), (web.Counters.Refused, web.Counters.TooLarge, web.Counters.HandlerErrors));
    }

    [Fact]
    public void A_part_is_read_as_it_comes_and_lets_the_client_wait()
    {
        using Web web = new();
        List<int> seen = [];
        TaskCompletionSource go = new();
        web.Server.Post("/", async (request, response, stop) =>
        {
            await foreach (HttpPart part in request.ReadPartsAsync(stop))
            {
                byte[] piece = new byte[4096];
                for (int count; (count = await part.Body.ReadAsync(piece, stop)) > 0;)
                {
                    seen.Add(count);
                    if (seen.Count == 1) await go.Task;
                }
            }

            response.Text($"{seen.Sum()}");
        });
        TestPeer peer = web.Connect();
        string body = Whole(Field("f", new string('x', 3_000_000), "; filename=\"f\""));
        peer.Send(Post(body)[..^10]);
        Assert.Single(seen);
        Assert.True(peer.BytesUnsent > 2_000_000, $"{peer.BytesUnsent}");
        peer.OnLoop(go.SetResult);
        Assert.InRange(seen.Sum(), 2_999_000, 3_000_000);
        peer.Send(body[^10..]);
        Assert.Equal(["200 3000000"], Web.Answers(peer));
    }

    [Fact]
    public void A_part_is_over_with_its_form()
    {
        using Web web = new();
        HttpPart? kept = null, first = null;
        web.Server.Post("/", async (request, response, stop) =>
        {
            await foreach (HttpPart part in request.ReadPartsAsync(stop))
            {
                if (first is not null) Assert.Equal(0, await first.Body.ReadAsync(new byte[9], stop));
                first ??= part;
                kept = part;
            }

            response.Text("ok");
        });
        TestPeer peer = web.Connect();
        peer.Send(Post(Whole(Field("a", "x"), Field("b", "y"))));
        Assert.Equal(["200 ok"], Web.Answers(peer));
        Assert.Throws<InvalidOperationException>(() => kept!.Body.Read(new byte[9], 0, 9));
    }
}
