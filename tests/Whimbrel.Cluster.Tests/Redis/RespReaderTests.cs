using System.Text;
using Whimbrel.Clusters;

namespace Whimbrel.Tests.Redis;

public sealed class RespReaderTests
{
    private const int MostBulk = 1000;

    // Each type, nested, empty, and with attributes before values on both levels.
    private const string Talk =
        "+OK\r\n-ERR no\r\n:-12\r\n$5\r\nhe\r\no\r\n$0\r\n\r\n$-1\r\n*-1\r\n*0\r\n*2\r\n:1\r\n*1\r\n$1\r\nx\r\n_\r\n,"
        + "1.5e3\r\n,-inf\r\n,nan\r\n#t\r\n#f\r\n!5\r\nE\r\nno\r\n=7\r\ntxt:a\r\n\r\n" +
        "(-3492890328409238509324850943850943825024385\r\n%2\r\n+a\r\n:1\r\n+b\r\n~1\r\n#t\r\n~0\r\n>3\r\n$7\r\n"
        + "message\r\n$1\r\nc\r\n$2\r\n\r\n\r\n|1\r\n+ttl\r\n:5\r\n*1\r\n|1\r\n+k\r\n%1\r\n:1\r\n:2\r\n+v\r\n|"
        + "0\r\n+last\r\n";

    private static readonly string[] s_said =
    [
        "+OK", "-ERR no", ":-12", "$he\r\no", "$", "_", "_", "*[]", "*[:1|*[$x|]|]", "_", ",1.5e3", ",-inf", ",nan",
        "#t", "#f", "-E\r\nno", "=txt:a\r\n", "(-3492890328409238509324850943850943825024385",
        "%[+a|:1|+b|~[#t|]|]", "~[]", ">[$message|$c|$\r\n|]", "*[+v|]", "+last",
    ];

    private static string Text(in RespItem item)
    {
        string body = Encoding.Latin1.GetString(item.Body);
        return item.Kind switch
        {
            RespKind.Null => "_",
            RespKind.Text => $"+{body}",
            RespKind.Error => $"-{body}",
            RespKind.Number => $":{body}",
            RespKind.BigNumber => $"({body}",
            RespKind.Double => $",{body}",
            RespKind.Boolean => $"#{body}",
            RespKind.Bulk => $"${body}",
            RespKind.Verbatim => $"={body}",
            RespKind.Array => $"*[{Elements(item)}]",
            RespKind.Map => $"%[{Elements(item)}]",
            RespKind.Set => $"~[{Elements(item)}]",
            RespKind.Push => $">[{Elements(item)}]",
            _ => throw new InvalidOperationException($"{item.Kind}"),
        };
    }

    private static string Elements(in RespItem item)
    {
        StringBuilder all = new();
        ReadOnlySpan<byte> rest = item.Body;
        for (int i = 0; i < item.Count; i++) all.Append(Text(RespReader.Next(ref rest))).Append('|');
        Assert.True(rest.IsEmpty);
        return all.ToString();
    }

    // Reads as a session does, which is given some bytes and then more. Fails if the reader requires more bytes than
    // there are.
    private static List<string> ReadAll(ReadOnlySpan<byte> bytes, params ReadOnlySpan<int> arrivals)
    {
        List<string> said = [];
        int at = 0;
        foreach (int arrived in arrivals)
        {
            while (at < arrived)
            {
                RespItem item = RespReader.Read(bytes[at..arrived], MostBulk);
                if (item.Kind == RespKind.Incomplete)
                {
                    Assert.InRange(item.More, arrived - at + 1, bytes.Length - at);
                    break;
                }

                said.Add(Text(item));
                at += item.Length;
            }
        }

        return said;
    }

    private static RespItem Read(string text) => RespReader.Read(Encoding.Latin1.GetBytes(text), MostBulk);

    private static string Nested(int depth, string core) => string.Concat(Enumerable.Repeat("*1\r\n", depth)) + core;

    [Fact]
    public void Any_bytes_of_a_server_are_read_the_same_at_every_split() =>
        Splits.AllGive(s_said, Encoding.Latin1.GetBytes(Talk), ReadAll);

    [Theory]
    [InlineData("H")] // of HTTP, before its line is complete
    [InlineData("+OK\n")]
    [InlineData("+a\rb\r\n")]
    [InlineData("\r\n")]
    [InlineData(":\r\n")]
    [InlineData(":+-1\r\n")]
    [InlineData(":9223372036854775808\r\n")]
    [InlineData("(x\r\n")]
    [InlineData(",1,5\r\n")]
    [InlineData(",\r\n")]
    [InlineData("#x\r\n")]
    [InlineData("_x\r\n")]
    [InlineData("$-2\r\n")]
    [InlineData("$+1\r\n")]
    [InlineData("$?\r\n")]
    [InlineData("$1234567890\r\n")]
    [InlineData("$1\r\nabc")]
    [InlineData("$1001\r\n")]
    [InlineData("!-1\r\n")]
    [InlineData("=3\r\ntxt\r\n")]
    [InlineData("=5\r\ntext:\r\n")]
    [InlineData("*-2\r\n")]
    [InlineData("*4096\r\n")]
    [InlineData("%2048\r\n")]
    [InlineData("%-1\r\n")]
    [InlineData(">2\r\n$1001\r\n")]
    [InlineData("*1\r\n$1001\r\n")]
    [InlineData(">1\r\n*1\r\n$1001\r\n")]
    public void An_invalid_or_too_large_value_is_detected(string text) =>
        Assert.Equal(RespKind.Malformed, Read(text).Kind);

    [Fact]
    public void Depth_elements_lines_and_bulks_are_read_up_to_their_limits()
    {
        Assert.Equal(RespKind.Array, Read(Nested(RespReader.MostDepth, "+x\r\n")).Kind);
        Assert.Equal(RespKind.Malformed, Read(Nested(RespReader.MostDepth + 1, "+x\r\n")).Kind);
        Assert.Equal(RespKind.Array, Read($"*4095\r\n{string.Concat(Enumerable.Repeat("_\r\n", 4095))}").Kind);
        Assert.Equal(RespKind.Malformed, Read($"*4096\r\n{string.Concat(Enumerable.Repeat("_\r\n", 4096))}").Kind);
        Assert.Equal(RespKind.Malformed,
            Read($"*2\r\n*2000\r\n{string.Concat(Enumerable.Repeat("_\r\n", 2000))}*2094\r\n").Kind);
        Assert.Equal(RespKind.Text, Read($"+{new string('x', RespReader.MostLineBytes - 3)}\r\n").Kind);
        Assert.Equal(RespKind.Malformed, Read($"+{new string('x', RespReader.MostLineBytes - 2)}\r\n").Kind);
        Assert.Equal(RespKind.Malformed, Read($"+{new string('x', RespReader.MostLineBytes)}").Kind);
        Assert.Equal(RespKind.Bulk, Read($"$1000\r\n{new string('x', 1000)}\r\n").Kind);
        Assert.Equal(7 + 1000 + 2, Read("$1000\r\nxxx").More);
        // A number of bulks that are each within the limit, but not all together.
        Assert.Equal(RespKind.Malformed,
            Read($"*100\r\n{string.Concat(Enumerable.Repeat($"$1000\r\n{new string('x', 1000)}\r\n", 66))}").Kind);
    }

    [Fact]
    public void A_message_that_is_too_large_reports_the_number_of_bytes_to_skip()
    {
        RespItem large = Read(">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1001\r\nxxx");
        Assert.Equal((RespKind.TooLarge, 31, 1003), (large.Kind, large.Length, large.More));
    }

    [Fact]
    public void Any_bytes_are_read_as_the_slow_reader_reads_them()
    {
        string[] pieces = ["+", "-", ":", "$", "*", "_", ",", "#", "!", "=", "(", "%", "~", ">", "|", "\r\n", "\r\n",
            "\r\n", "_\r\n", ":1\r\n", "$1\r\nx\r\n", "*2\r\n", "%1\r\n", "|1\r\n", "\n", "0", "1", "2", "t", "a:",
            "1.5", "-1", "txt:", "$1001\r\n"];
        int read = 0;
        foreach (int seed in Seeds.Some(100))
        {
            Random random = new(seed);
            for (int round = 0; round < 200; round++)
            {
                string text = string.Concat(Enumerable.Range(0, random.Next(12)).Select(_ =>
                    random.Next(8) == 0 ? ((char)random.Next(256)).ToString() : pieces[random.Next(pieces.Length)]));
                if (random.Next(2) == 0) text = Value(random, 0);
                if (random.Next(4) == 0 && text.Length > 0) text = text.Remove(random.Next(text.Length), 1);
                RespItem item = Read(text);
                if (item.Kind == RespKind.TooLarge) continue;
                SlowRespReader slow = new(text, MostBulk);
                string? expected;
                try
                {
                    expected = slow.Read();
                }
                catch (FormatException)
                {
                    // The fast reader may detect the error later: it has not examined what follows an incomplete value.
                    Assert.True(item.Kind == RespKind.Malformed, $"seed {seed}: {text}");
                    continue;
                }

                Assert.True(expected is null == item.Kind is RespKind.Incomplete,
                    $"seed {seed}: {text} is {item.Kind}");
                if (expected is null) continue;
                read++;
                Assert.True(expected == Text(item) && slow.Length == item.Length, $"seed {seed}: {text}");
            }
        }

        Assert.True(read > 1000);
    }

    private static string Value(Random random, int depth)
    {
        int count = random.Next(4);
        string Values(int times) =>
            string.Concat(Enumerable.Range(0, count * times).Select(_ => Value(random, depth + 1)));
        return random.Next(depth >= RespReader.MostDepth ? 7 : 12) switch
        {
            0 => $"+{random.Next()}\r\n",
            1 => $":{random.Next()}\r\n",
            2 => $"${count}\r\n{new string('\r', count)}\r\n",
            3 => "#t\r\n",
            4 => $"!{count}\r\n{new string('\n', count)}\r\n",
            5 => ",.5\r\n",
            6 => "$-1\r\n",
            7 => $"*{count}\r\n{Values(1)}",
            8 => $"~{count}\r\n{Values(1)}",
            9 => $">{count}\r\n{Values(1)}",
            10 => $"%{count}\r\n{Values(2)}",
            _ => $"|{count}\r\n{Values(2)}{Value(random, depth)}",
        };
    }

    [Fact]
    public void Values_sent_to_a_server_cannot_inject_commands()
    {
        byte[] buffer = new byte[200];
        int length = RedisCommands.WritePublish(buffer, "p:", "app.group.x", 123);
        Assert.Equal("*3\r\n$7\r\nPUBLISH\r\n$13\r\np:app.group.x\r\n$123\r\n",
            Encoding.ASCII.GetString(buffer, 0, length));
        Assert.Equal("*2\r\n$4\r\nAUTH\r\n$8\r\nü\r\n*1\r\n\r\n",
            Encoding.UTF8.GetString(RedisCommands.Write("AUTH", "ü\r\n*1\r\n")));
    }

    [Theory]
    [InlineData("redis://h", "redis://h:6379", null, null)]
    [InlineData("redis://:p%40:x@h:1/3", "redis://h:1", null, "p@:x")]
    [InlineData("rediss://u:p@[::1]:5/", "rediss://[::1]:5", "u", "p")]
    [InlineData("redis://u:p@a,b:7", "redis://a:6379,b:7", "u", "p")]
    public void An_address_names_servers_and_credentials(string text, string plain, string? user, string? password)
    {
        RedisAddress address = RedisAddress.Parse(text);
        Assert.Equal((plain, user, password), (address.Text, address.User, address.Password));
        Assert.Equal(plain.Split(',').Length, address.Servers.Count);
        Assert.Equal(text.StartsWith("rediss", StringComparison.Ordinal), address.WantsTls);
    }

    [Theory]
    [InlineData("127.0.0.1:6379")]
    [InlineData("nats://h")]
    [InlineData("redis://")]
    [InlineData("redis://secret@h")]
    [InlineData("redis://u:secret@h/path")]
    [InlineData("redis://u:secret@h?x")]
    [InlineData("redis://h:99999")]
    [InlineData("redis://u:secret@999.1.1.1")]
    public void An_invalid_address_is_refused_without_showing_its_password(string text)
    {
        ArgumentException e = Assert.Throws<ArgumentException>(() => new RedisBus(text));
        Assert.StartsWith("The address of the broker is wrong: ", e.Message, StringComparison.Ordinal);
        Assert.DoesNotContain("secret", e.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void Options_that_cannot_be_are_refused_by_name()
    {
        Assert.Contains("Password", Refusal(new RedisOptions { User = "u" }), StringComparison.Ordinal);
        Assert.Contains("Prefix", Refusal(new RedisOptions { Prefix = "a b" }), StringComparison.Ordinal);
        Assert.Contains("PingInterval", Refusal(new RedisOptions { PingInterval = TimeSpan.Zero }),
            StringComparison.Ordinal);
        Assert.Contains("ConnectTimeout", Refusal(new RedisOptions { ConnectTimeout = TimeSpan.Zero }),
            StringComparison.Ordinal);

        static string Refusal(RedisOptions options) =>
            Assert.Throws<ArgumentException>(() => new RedisBus("redis://h", options)).Message;
    }
}
