using System.Buffers;
using System.Diagnostics;
using System.Text;
using Whimbrel.Http.Parsing;
using Whimbrel.Tests;

namespace Whimbrel.Http.Tests.Parsing;

// Seeded messages, valid ones and ones with a few bytes changed: the reader agrees with a slow reference reader at
// every cut, and messages of the writer are read back unchanged.
public sealed class ModelTests
{
    private static readonly HttpReaderLimits _limits = new(60, 200, 6, 300);

    private static readonly string[] _lines = ["GET / HTTP/1.1", "POST /a/b?c=d HTTP/1.1", "PUT /%41%20 HTTP/1.1",
        "GET http://h:80/x HTTP/1.1", "OPTIONS * HTTP/1.1", "CONNECT h:80 HTTP/1.1", "GET / HTTP/1.0",
        "X-Y /z HTTP/1.1", "HEAD https://h?q HTTP/1.1", "POST / HTTP/1.0", "PATCH /a HTTP/1.0", "GET / HTTP/1.7"];
    private static readonly string[] _fields = ["Host: h:80", "Host: h", "host: [::1]:8", "Content-Length: 3",
        "content-length: 0", "Content-Length: 12", "Transfer-Encoding: chunked", "Accept: */*", "X:", "Y: a b\tc",
        "Connection: close", "Expect: 100-continue", "Content-Type: a/b", "Z:   \xE4  ", "TE: trailers"];
    private static readonly string[] _chunks = ["3\r\nabc\r\n", "1;a=b\r\nx\r\n", "0a\r\n0123456789\r\n",
        "2;c=\"d \\\" e\"\r\n\r\n\r\n", "1;q\r\n0\r\n"];
    private static readonly string[] _strange = ["\r", "\n", "\r\n", " ", "\t", "\0", ":", ";",
        ",", "%", "#", "\x7F", "\xFF", "0", "f", "\"", "=", "/", "HTTP/1.1", "Host: h\r\n",
        "Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n", "%00", "\r\n\r\n", "99999999999999999999",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"];

    private static readonly SearchValues<byte> _delimiters = SearchValues.Create("(),/:;<=>?@[\\]{}\""u8);

    private static readonly int s_runs = Depth.Of(250_000, deep: 5_000_000);

    [Fact]
    public void It_agrees_with_a_plain_reader_about_every_message()
    {
        foreach (int seed in Seeds.Some(2))
        {
            Random random = new(seed);
            int[] outcomes = new int[3];
            for (int run = 0; run < s_runs / 2; run++)
            {
                string text = SomeMessages(random);
                PlainReader plain = new(text, _limits);
                string expected = plain.Read();
                MessageDriver driver = new(_limits);
                byte[] bytes = Encoding.Latin1.GetBytes(text);
                int cut = random.Next(bytes.Length + 1);
                driver.Feed(bytes.AsSpan(0, cut));
                driver.Feed(bytes.AsSpan(cut));
                string outcome = driver.Rule == HttpRule.None ? driver.Outcome : "Refused";
                if (outcome != expected || !plain.Messages.SequenceEqual(driver.Messages))
                    Assert.Fail($"seed {seed}, run {run}: {outcome} ({driver.Rule}), expected "
                        + $"{expected}, of {Escape(text)}\n{Escape(string.Join('\n', driver.Messages))}\n"
                        + $"{Escape(string.Join('\n', plain.Messages))}");
                outcomes[outcome switch { "Ok" => 0, "Wait" => 1, _ => 2 }]++;
            }

            Assert.All(outcomes,
                count => Assert.True(count > s_runs / 100, $"one-sided: {string.Join(' ', outcomes)}"));
        }
    }

    /// <summary>Two readings of each message: five million in all.</summary>
    private static readonly int s_samples = Depth.Of(2_500_000, deep: 50_000_000);

    [Fact]
    public void Five_million_readings_end_the_same_wherever_they_are_cut_and_give_nothing_that_splits_a_message()
    {
        HttpReader head = new();
        foreach (int seed in Seeds.Some(2))
        {
            Random random = new(seed);
            ByteMessages messages = new(random, _lines, _fields, _chunks, _strange);
            int[] outcomes = new int[3];
            for (int run = 0; run < s_samples / 2; run++)
            {
                ReadOnlySpan<byte> bytes = messages.Next();
                int cut = random.Next(bytes.Length + 1);
                Reading whole = Read(head, bytes, bytes.Length), inTwo = Read(head, bytes, cut);
                if (whole != inTwo)
                    Assert.Fail($"seed {seed}, run {run}: {whole}, and cut at {cut} {inTwo}, of "
                        + $"{Escape(Encoding.Latin1.GetString(bytes))}");
                outcomes[whole.Rule != HttpRule.None ? 2 : whole.IsWhole ? 0 : 1]++;
                // Because the reference reader is slow, it reads only every fiftieth message.
                if (run % 50 != 0) continue;
                PlainReader plain = new(Encoding.Latin1.GetString(bytes), _limits);
                string outcome = whole.Rule != HttpRule.None ? "Refused" : whole.IsWhole ? "Ok" : "Wait",
                    expected = plain.Read();
                int begun = plain.Messages.Count - whole.Messages; // a message with an incomplete body counts as well
                if (outcome != expected || begun < 0 || begun > (whole.IsWhole ? 0 : 1))
                    Assert.Fail($"seed {seed}, run {run}: {whole}, expected {expected} and {plain.Messages.Count} "
                        + $"messages, of {Escape(Encoding.Latin1.GetString(bytes))}");
            }

            Assert.All(outcomes,
                count => Assert.True(count > s_samples / 200, $"one-sided: {string.Join(' ', outcomes)}"));
        }
    }

    /// <summary>Result of reading: number of complete messages, the broken rule, whether nothing is left over, and a
    /// checksum of everything reported.</summary>
    private readonly record struct Reading(int Messages, HttpRule Rule, bool IsWhole, ulong Sum);

    /// <summary>Reads as a session does: unconsumed bytes are passed again, followed by new ones. Copies and allocates
    /// nothing, so that millions take seconds.</summary>
    private static Reading Read(HttpReader head, ReadOnlySpan<byte> bytes, int cut)
    {
        int at = 0, messages = 0;
        bool hasBegun = false, isInBody = false;
        HttpBodyReader body = default;
        ulong sum = 0;
        for (int end = cut; ; end = bytes.Length)
        {
            HttpReading reading = HttpReading.Data;
            while (reading is HttpReading.Data or HttpReading.Done && (isInBody || at < end))
            {
                ReadOnlySpan<byte> rest = bytes[at..end];
                if (isInBody)
                {
                    reading = body.Read(rest, out int taken);
                    if (reading is HttpReading.Data or HttpReading.Done)
                        sum = Add(sum, rest.Slice(body.Start, body.Length));
                    if (reading == HttpReading.Broken) return new Reading(messages, body.Rule, false, sum);
                    at += taken;
                    if (reading != HttpReading.Done) continue;
                    messages++;
                    isInBody = hasBegun = false;
                    continue;
                }

                if (!hasBegun) head.BeginRequest(_limits);
                hasBegun = true;
                reading = head.Read(rest);
                if (reading == HttpReading.Broken) return new Reading(messages, head.Rule, false, sum);
                if (reading != HttpReading.Done) continue;
                sum = AddHead(sum, head, rest[..head.HeadLength]);
                at += head.HeadLength;
                body = new HttpBodyReader(head, _limits);
                isInBody = true;
            }

            if (end == bytes.Length)
                return new Reading(messages, HttpRule.None, !isInBody && at == end && messages > 0, sum);
        }
    }

    private static ulong AddHead(ulong sum, HttpReader head, ReadOnlySpan<byte> bytes)
    {
        if (!bytes.EndsWith("\r\n\r\n"u8)) Assert.Fail("A head ends with an empty line.");
        sum = Add(Add(sum, bytes[head.Method]), bytes[head.Target])
            + (ulong)(head.MinorVersion + 2 * (int)head.Framing + 8 * head.Count) + (ulong)head.ContentLength;
        for (int i = 0; i < head.Count; i++)
        {
            HttpFieldPlace place = head[i];
            ReadOnlySpan<byte> name = bytes.Slice(place.NameStart, place.NameLength),
                value = bytes.Slice(place.ValueStart, place.ValueLength);
            if (name.IsEmpty || name.IndexOfAnyExceptInRange((byte)'!', (byte)'~') >= 0
                || name.IndexOfAny(_delimiters) >= 0)
                Assert.Fail("A name is a token.");
            if (value.IndexOfAny("\r\n\0"u8) >= 0
                || (value.Length > 0 && (value[0] is (byte)' ' or (byte)'\t' || value[^1] is (byte)' ' or (byte)'\t')))
                Assert.Fail("A value has no line end in it and no space around it.");
            sum = Add(Add(sum, name), value);
        }

        return sum;
    }

    private static ulong Add(ulong sum, ReadOnlySpan<byte> bytes)
    {
        foreach (byte b in bytes) sum = (sum ^ b) * 0x100000001B3;
        return sum;
    }

    private static string Escape(string text) => string.Concat(text.Select(c =>
        c switch { '\r' => "\\r", '\n' => "\\n", _ when c is < ' ' or > '~' => $"\\x{(int)c:X2}", _ => c.ToString() }));

    [Fact]
    public void A_lenient_reader_reads_an_irregular_answer_as_the_regular_one_that_it_stands_for()
    {
        HttpReaderLimits strict = new(400, 400, 12, 300), lenient = strict with { IsLenient = true };
        foreach (int seed in Seeds.Some(2))
        {
            Random random = new(seed);
            int[] outcomes = new int[3];
            for (int run = 0; run < s_runs / 8; run++)
            {
                (string sent, string meant) = SomeAnswer(random);
                MessageDriver read = Drive(lenient, sent, random), regular = Drive(strict, meant, random);
                string expected = $"Ok {string.Join('\n', regular.Messages)}",
                    actual = $"{read.Outcome} {string.Join('\n', read.Messages.Select(OneLength))}";
                if (actual != expected)
                    Assert.Fail(
                        $"seed {seed}, run {run}: {Escape(actual)}, expected {Escape(expected)}, of {Escape(sent)}");

                // With a few bytes changed the message may mean anything. The result must not depend on the cut, and
                // the lenient reader must agree with the strict one on every message that the strict one accepts.
                StringBuilder text = new(sent);
                Change(text, random, random.Next(1, 4));
                string changed = text.ToString();
                MessageDriver one = Drive(lenient, changed, random), other = Drive(lenient, changed, random),
                    plain = Drive(strict, changed, random);
                if (one.Outcome != other.Outcome || !one.Messages.SequenceEqual(other.Messages))
                    Assert.Fail($"seed {seed}, run {run}: {one.Outcome} and {other.Outcome} of {Escape(changed)}");
                if (plain.Rule == HttpRule.None
                    && (one.Outcome != plain.Outcome || !one.Messages.SequenceEqual(plain.Messages)))
                    Assert.Fail($"seed {seed}, run {run}: {one.Outcome}, strict {plain.Outcome} of {Escape(changed)}");
                outcomes[one.Outcome switch { "Ok" => 0, "Wait" => 1, _ => 2 }]++;
            }

            Assert.All(outcomes,
                count => Assert.True(count > s_runs / 800, $"one-sided: {string.Join(' ', outcomes)}"));
        }
    }

    private static MessageDriver Drive(HttpReaderLimits limits, string text, Random random)
    {
        MessageDriver driver = new(limits, isResponse: true);
        byte[] bytes = Encoding.Latin1.GetBytes(text);
        int cut = random.Next(bytes.Length + 1);
        driver.Feed(bytes.AsSpan(0, cut));
        driver.Feed(bytes.AsSpan(cut));
        return driver;
    }

    /// <summary>A response with irregular syntax, and the regular one with the same meaning.</summary>
    private static (string Sent, string Meant) SomeAnswer(Random random)
    {
        StringBuilder sent = new(), meant = new();
        int minor = random.Next(6), status = random.Next(4) == 0 ? random.Next(600, 1000) : random.Next(200, 600);
        if (status is 204 or 304) status = 200;
        string reason = random.Next(2) == 0 ? "" : " Some reason";
        sent.Append($"HTTP/1.{Math.Max(1, minor)} "
            + $"{status}{reason}{(reason.Length == 0 && random.Next(2) == 0 ? " " : "")}\r\n");
        // The strict reader rejects a status of 600 or more, so it is given one of the same length; the comparison
        // ignores the status.
        meant.Append($"HTTP/1.1 {(status > 599 ? 500 : status)}{(reason.Length == 0 ? " " : reason)}\r\n");
        for (int fields = random.Next(4); fields > 0; fields--)
        {
            string value = "", regular = "";
            for (int lines = random.Next(1, 4); lines > 0; lines--)
            {
                string word = random.Next(5) == 0 ? "" : "word:" + lines;
                value += word;
                regular += word;
                if (lines == 1) break;
                value += "\r\n" + " \t"[random.Next(2)];
                regular += "  " + value[^1];
            }

            string name = random.Next(3) switch { 0 => "X-Y", 1 => "Server", _ => "Set-Cookie" };
            sent.Append($"{name}: {value}\r\n");
            meant.Append($"{name}: {regular}\r\n");
        }

        if (random.Next(3) == 0)
        {
            sent.Append("Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX: y\r\n z\r\n\r\n");
            meant.Append("Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX: y   z\r\n\r\n");
            return (sent.ToString(), meant.ToString());
        }

        string length = random.Next(3) == 0 ? "Content-Length: 2\r\n"
            : random.Next(2) == 0 ? "Content-Length: 2,2 , 2\r\n" : "Content-Length: 2\r\nContent-Length: 2, 2\r\n";
        sent.Append(length).Append("\r\nok");
        meant.Append("Content-Length: 2\r\n\r\nok");
        return (sent.ToString(), meant.ToString());
    }

    /// <summary>What was read, with one length, and a status of those that are regular.</summary>
    private static string OneLength(string message)
    {
        message = System.Text.RegularExpressions.Regex.Replace(message,
            "~Content-Length=2[^~|]*(~Content-Length=2[^~|]*)?", "~Content-Length=2");
        return message[0] > '5' ? "500" + message[3..] : message;
    }

    private static string SomeMessages(Random random)
    {
        StringBuilder text = new();
        for (int count = random.Next(1, 3); count > 0; count--) text.Append(SomeMessage(random));
        Change(text, random, random.Next(4) - 1);
        return text.ToString();
    }

    private static void Change(StringBuilder text, Random random, int changes)
    {
        for (; changes > 0; changes--)
        {
            int at = random.Next(text.Length);
            switch (random.Next(4))
            {
                case 0: text.Remove(at, Math.Min(random.Next(1, 4), text.Length - at)); break;
                case 1: text.Insert(at, _strange[random.Next(_strange.Length)]); break;
                case 2: text.Length = at; break;
                default: text[at] = (char)random.Next(256); break;
            }

            if (text.Length == 0) text.Append('G');
        }
    }

    private static string SomeMessage(Random random)
    {
        StringBuilder text = new();
        if (random.Next(10) == 0) text.Append("\r\n");
        text.Append(_lines[random.Next(random.Next(2) == 0 ? 3 : _lines.Length)]).Append("\r\n");
        List<string> fields = [.. Enumerable.Range(0, random.Next(4))
            .Select(_ => _fields[random.Next(_fields.Length)])];
        if (random.Next(8) > 0 && !fields.Any(f => f.StartsWith("Host", StringComparison.OrdinalIgnoreCase)))
            fields.Add("Host: h:80");
        foreach (string field in fields) text.Append(field).Append("\r\n");
        text.Append("\r\n");
        if (fields.Contains("Content-Length: 3")) text.Append("a\r\n");
        if (fields.Contains("Content-Length: 12")) text.Append("GET / HTTP/1");
        if (!fields.Contains("Transfer-Encoding: chunked")) return text.ToString();
        for (int chunks = random.Next(4); chunks > 0; chunks--) text.Append(_chunks[random.Next(_chunks.Length)]);
        return text.Append("0\r\n").Append(random.Next(3) == 0 ? "X-T: 1\r\n" : "").Append("\r\n").ToString();
    }

    [Fact]
    public void A_written_message_is_read_as_it_was_meant()
    {
        const string TokenLetters = "!#$%&'*+-.^_`|~0189AZaz";
        foreach (int seed in Seeds.Some(3))
        {
            Random random = new(seed);
            for (int run = 0; run < 5_000; run++)
            {
                byte[] room = new byte[4096];
                HttpWriter writer = new(room);
                int status = random.Next(200, 600);
                writer.StatusLine(status);
                StringBuilder expected = new();
                for (int fields = random.Next(5); fields > 0; fields--)
                {
                    string name = "x" + string.Concat(Enumerable.Range(0, random.Next(9))
                        .Select(_ => TokenLetters[random.Next(TokenLetters.Length)]));
                    string value = string.Concat(Enumerable.Range(0, random.Next(20))
                        .Select(_ => (char)random.Next(' ', 256)).Where(c => c != '\x7F')).Trim(' ');
                    writer.Field(Encoding.Latin1.GetBytes(name), Encoding.Latin1.GetBytes(value));
                    expected.Append('~').Append(name).Append('=').Append(value);
                }

                string body = new('b', random.Next(50));
                bool hasBody = status is not (204 or 304);
                if (hasBody)
                {
                    writer.ContentLength(body.Length);
                    expected.Append("~Content-Length=").Append(body.Length);
                }

                writer.EndHead();
                if (hasBody) writer.Body(Encoding.Latin1.GetBytes(body));
                MessageDriver driver = new(HttpReaderLimits.Default, isResponse: true);
                driver.Feed(room.AsSpan(0, writer.Length));
                Assert.Equal("Ok", driver.Outcome);
                string message = Assert.Single(driver.Messages);
                Assert.StartsWith($"{status} ", message, StringComparison.Ordinal);
                Assert.EndsWith($" 1.1{expected}|{(hasBody ? body : "")}|", message, StringComparison.Ordinal);
            }
        }
    }

    // ------------------------------------------------------------------ cost

    public static TheoryData<string> Shapes() => ["one long value", "many fields", "byte by byte", "many chunks",
        "many extensions", "long trailers", "spaces", "many options"];

    // A quadratic algorithm would take 64 times as long. A long input exceeds the L1 cache, so a third more time per
    // byte is tolerated.
    [Theory, MemberData(nameof(Shapes)), Trait("Runs", "alone")]
    public void Eight_times_the_input_takes_at_most_about_eight_times_the_time(string shape)
    {
        byte[] small = Encoding.Latin1.GetBytes(Shape(shape, 7_500)),
            large = Encoding.Latin1.GetBytes(Shape(shape, 60_000));
        HttpReader reader = new();
        double smallUs = double.MaxValue, largeUs = double.MaxValue;

        // Short and long input alternate, until the code has been recompiled by the JIT: a machine that is slow for a
        // while slows both.
        long begun = Stopwatch.GetTimestamp();
        for (int run = 0; run < 100 || Stopwatch.GetElapsedTime(begun).TotalMilliseconds < 300; run++)
        {
            smallUs = Math.Min(smallUs, Once(reader, shape, small));
            largeUs = Math.Min(largeUs, Once(reader, shape, large));
        }

        Assert.True(largeUs / smallUs < 13, $"{shape}: {largeUs / smallUs:F2} times as long for eight times the input");
    }

    /// <summary>In microseconds.</summary>
    private static double Once(HttpReader reader, string shape, byte[] text)
    {
        HttpReaderLimits limits = new(65_000, 65_000, 30_000, long.MaxValue);
        long start = Stopwatch.GetTimestamp();
        for (int again = 0; again < 3; again++)
            ReadAll(reader, limits, text, shape == "byte by byte" ? 1 : text.Length);
        return Stopwatch.GetElapsedTime(start).TotalMicroseconds;
    }

    private static string Shape(string shape, int bytes) => shape switch
    {
        "one long value" or "byte by byte" => $"GET / HTTP/1.1\r\nHost: h\r\nX: {new string('x', bytes)}\r\n\r\n",
        "spaces" => $"GET / HTTP/1.1\r\nHost: h\r\nX: {new string(' ', bytes)}\r\n\r\n",
        "many options" =>
            $"GET / HTTP/1.1\r\nHost: h\r\nConnection: {string.Concat(Enumerable.Repeat("a,", bytes / 2))}\r\n\r\n",
        "many fields" => $"GET / HTTP/1.1\r\nHost: h\r\n{string.Concat(Enumerable.Repeat("X: y\r\n", bytes / 6))}\r\n",
        "many chunks" => $"GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: "
            + $"chunked\r\n\r\n{string.Concat(Enumerable.Repeat("1\r\nx\r\n", bytes / 6))}0\r\n\r\n",
        "many extensions" => $"GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: "
            + $"chunked\r\n\r\n{string.Concat(Enumerable.Repeat("1;a\r\n \r\n", bytes / 48))}"
            + $"{string.Concat(Enumerable.Repeat("1\r\nx\r\n", bytes / 6))}0\r\n\r\n",
        _ => $"GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: {new string('x', bytes)}\r\n\r\n",
    };

    private static void ReadAll(HttpReader head, HttpReaderLimits limits, byte[] text, int step)
    {
        head.BeginRequest(limits);
        int length = 0;
        HttpReading reading;
        do
        {
            length = Math.Min(text.Length, length + step);
            reading = head.Read(text.AsSpan(0, length));
        }
        while (reading == HttpReading.NeedMore && length < text.Length);
        Assert.True(reading == HttpReading.Done);
        HttpBodyReader body = new(head, limits);
        int at = head.HeadLength;
        do
        {
            reading = body.Read(text.AsSpan(at), out int taken);
            at += taken;
        }
        while (reading == HttpReading.Data);
        Assert.True(reading == HttpReading.Done);
    }

    [Fact, Trait("Runs", "alone")]
    public void Reading_and_writing_allocate_nothing()
    {
        byte[] text = Encoding.Latin1.GetBytes(Shape("many chunks", 600)), room = new byte[1024];
        HttpReader head = new();
        long bytes = Allocated.By(() =>
        {
            for (int i = 0; i < 1_000; i++)
            {
                ReadAll(head, HttpReaderLimits.Default, text, 100);
                HttpWriter writer = new(room);
                writer.StatusLine(200);
                writer.Field(HttpField.ContentType, "text/plain"u8);
                writer.ContentLength(2);
                writer.EndHead();
                writer.Body("ok"u8);
            }
        });
        Assert.Equal(0, bytes);
    }
}
