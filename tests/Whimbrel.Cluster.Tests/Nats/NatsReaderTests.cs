using System.Text;
using Whimbrel.Clusters;

namespace Whimbrel.Tests.Nats;

public sealed class NatsReaderTests
{
    private const int MostPayload = 1000;

    private const string Talk =
        "INFO {\"max_payload\":100}\r\n+OK\r\nPING\r\nPONG\r\nMSG a.b 7 5\r\nhello\r\nMSG a 18446744073709551615 "
        + "re.ply 0\r\n\r\n" +
        "HMSG a 2 12 15\r\nNATS/1.0\r\n\r\nxyz\r\nHMSG a 2 reply 12 12\r\nNATS/1.0\r\n\r\n\r\nmsg\ta  "
        + "3\t2\r\n\r\n\r\n-ERR 'Stale Connection'\r\npInG\r\n";

    private static readonly string[] s_said =
    [
        "Info {\"max_payload\":100}", "Ok", "Ping", "Pong", "Message 7 hello", "Message 18446744073709551615 ",
        "Message 2 xyz NATS/1.0\r\n\r\n", "Message 2  NATS/1.0\r\n\r\n", "Message 3 \r\n",
        "Error Stale Connection", "Ping",
    ];

    private static string Text(in NatsItem item)
    {
        string text = item.Kind == NatsItemKind.Message ? $"Message {item.Subscription} "
            : item.Body.IsEmpty ? $"{item.Kind}" : $"{item.Kind} ";
        return text + Encoding.Latin1.GetString(item.Body)
            + (item.Headers.IsEmpty ? "" : $" {Encoding.Latin1.GetString(item.Headers)}");
    }

    // Reads as a session does, which is given some bytes and then more.
    private static List<string> ReadAll(ReadOnlySpan<byte> bytes, params ReadOnlySpan<int> arrivals)
    {
        List<string> said = [];
        int at = 0;
        foreach (int arrived in arrivals)
        {
            while (at < arrived)
            {
                NatsItem item = NatsReader.Read(bytes[at..arrived], MostPayload);
                if (item.Kind == NatsItemKind.Incomplete)
                {
                    Assert.InRange(item.More, arrived - at + 1, NatsReader.MostInfoBytes);
                    break;
                }

                said.Add(Text(item));
                if (item.Kind == NatsItemKind.Malformed) return said;
                at += item.Length;
            }
        }

        return said;
    }

    [Fact]
    public void Any_bytes_of_a_server_are_read_the_same_at_every_split() =>
        Splits.AllGive(s_said, Encoding.Latin1.GetBytes(Talk), ReadAll);

    [Theory]
    [InlineData("HTTP/1.1 400 Bad Request\r\n")]
    [InlineData("PING\n")]
    [InlineData("\n")]
    [InlineData("\r\n")]
    [InlineData("MSG a 1\r\n")]
    [InlineData("MSG a 1 2 3 4\r\n")]
    [InlineData("MSG a x 2\r\n")]
    [InlineData("MSG a 1 -2\r\n")]
    [InlineData("MSG a 1 +2\r\n")]
    [InlineData("MSG a 1 1234567890\r\n")]
    [InlineData("MSG a 18446744073709551616 1\r\n")]
    [InlineData("MSG a 1 2\r\nabcd")]
    [InlineData("HMSG a 1 2\r\n")]
    [InlineData("HMSG a 1 3 2\r\nxx\r\n")]
    [InlineData("HMSG a 1 r 1 2 3\r\n")]
    [InlineData("SUB a 1\r\n")]
    public void An_unknown_command_of_a_server_is_detected(string text) =>
        Assert.Equal(NatsItemKind.Malformed, NatsReader.Read(Encoding.Latin1.GetBytes(text), MostPayload).Kind);

    [Fact]
    public void Lines_and_payloads_have_limits()
    {
        Assert.Equal(NatsItemKind.Incomplete,
            NatsReader.Read(new byte[NatsReader.MostLineBytes - 1], MostPayload).Kind);
        Assert.Equal(NatsItemKind.Malformed, NatsReader.Read(new byte[NatsReader.MostLineBytes], MostPayload).Kind);
        byte[] line = Encoding.ASCII.GetBytes("PING" + new string(' ', NatsReader.MostLineBytes - 6) + "\r\n");
        Assert.Equal(NatsItemKind.Ping, NatsReader.Read(line, MostPayload).Kind);
        Assert.Equal(NatsItemKind.Malformed, NatsReader.Read(Encoding.ASCII.GetBytes("PING "
            + new string(' ', NatsReader.MostLineBytes - 6) + "\r\n"), MostPayload).Kind);
        Assert.Equal(NatsItemKind.Info,
            NatsReader.Read(Encoding.ASCII.GetBytes($"INFO {new string('x', 60_000)}\r\n"), MostPayload).Kind);
        Assert.Equal(NatsItemKind.Malformed, NatsReader
            .Read(Encoding.ASCII.GetBytes($"INFO {new string('x', NatsReader.MostInfoBytes)}\r\n"), MostPayload).Kind);

        Assert.Equal(NatsItemKind.Incomplete, NatsReader.Read("MSG a 1 1000\r\n"u8, MostPayload).Kind);
        Assert.Equal(NatsItemKind.Message, NatsReader
            .Read(Encoding.ASCII.GetBytes($"MSG a 1 1000\r\n{new string('x', 1000)}\r\n"), MostPayload).Kind);
        NatsItem large = NatsReader.Read("MSG a 1 1001\r\nxxx"u8, MostPayload);
        Assert.Equal((NatsItemKind.TooLarge, 14, 1003), (large.Kind, large.Length, large.More));
    }

    [Fact]
    public void Any_bytes_yield_items_within_their_bounds()
    {
        string[] pieces = ["MSG ", "HMSG ", "INFO ", "PING", "PONG", "-ERR ", "+OK", "\r\n", "\n", " ", "a", "1", "12",
            "999999999", "\t", "\0", "{}"];
        foreach (int seed in Seeds.Some(300))
        {
            Random random = new(seed);
            for (int round = 0; round < 100; round++)
            {
                byte[] bytes = new byte[random.Next(60)];
                random.NextBytes(bytes);
                if (random.Next(4) > 0)
                    bytes = Encoding.Latin1.GetBytes(string.Concat(Enumerable.Range(0, random.Next(20))
                        .Select(_ => pieces[random.Next(pieces.Length)])));
                for (int at = 0; at < bytes.Length;)
                {
                    NatsItem item = NatsReader.Read(bytes.AsSpan(at), MostPayload);
                    if (item.Kind == NatsItemKind.Incomplete)
                        Assert.True(item.More > bytes.Length - at && item.More <= NatsReader.MostInfoBytes,
                            $"seed {seed}");
                    if (item.Kind is NatsItemKind.Incomplete or NatsItemKind.Malformed) break;
                    Assert.True(item.Length > 0 && item.Length <= bytes.Length - at, $"seed {seed}");
                    at += item.Length;
                }
            }
        }
    }

    [Theory]
    [InlineData("", false)]
    [InlineData("[]", false)]
    [InlineData("{", false)]
    [InlineData("{\"max_payload\":", false)]
    [InlineData("{}", true)]
    [InlineData("{\"max_payload\":\"x\",\"tls_required\":3}", false)]
    [InlineData("{\"max_payload\":-1}", true)]
    [InlineData("{\"max_payload\":99999999999}", true)]
    public void The_INFO_of_a_server_is_read_or_refused(string json, bool isRead)
    {
        Assert.Equal(isRead, NatsInfo.TryRead(Encoding.UTF8.GetBytes(json), out NatsInfo? info));
        if (isRead) Assert.Equal(new NatsInfo(1 << 20, false, false, false, false, false), info);
    }

    [Fact]
    public void Values_sent_to_a_server_cannot_inject_commands()
    {
        string connect = Encoding.UTF8.GetString(NatsLines.Connect("o'hara", "a\"b\r\nPUB x 0\\ü", null));
        Assert.EndsWith("}\r\nPING\r\n", connect, StringComparison.Ordinal);
        Assert.Equal(3, connect.Split("\r\n").Length);
        Assert.Contains("\"user\":\"o'hara\",\"pass\":\"a\\\"b\\r\\nPUB x 0\\\\ü\"", connect,
            StringComparison.Ordinal);
        Assert.DoesNotContain("auth_token", connect, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("nats://h", "nats://h:4222", null, null)]
    [InlineData("nats://u:p%40:x@h:1/", "nats://h:1", "u", "p@:x")]
    [InlineData("tls://tok%20en@[::1]:5", "tls://[::1]:5", "tok en", null)]
    [InlineData("nats://u:p@a,b:7,nats://c", "nats://a:4222,b:7,c:4222", "u", "p")]
    public void An_address_names_servers_and_credentials(string text, string plain, string? user, string? password)
    {
        NatsAddress address = NatsAddress.Parse(text);
        Assert.Equal((plain, user, password), (address.Text, address.User, address.Password));
        Assert.Equal(plain.Split(',').Length, address.Servers.Count);
        Assert.Equal(text.StartsWith("tls", StringComparison.Ordinal), address.WantsTls);
    }

    [Theory]
    [InlineData("127.0.0.1:4222")]
    [InlineData("redis://h")]
    [InlineData("nats://")]
    [InlineData("nats://u:secret@h/path")]
    [InlineData("nats://u:secret@h?x")]
    [InlineData("nats://h,tls://b")]
    [InlineData("nats://h:99999")]
    [InlineData("nats://u:secret@999.1.1.1")]
    public void An_invalid_address_is_refused_without_showing_its_password(string text)
    {
        ArgumentException e = Assert.Throws<ArgumentException>(() => new NatsBus(text));
        Assert.StartsWith("The address of the broker is wrong: ", e.Message, StringComparison.Ordinal);
        Assert.DoesNotContain("secret", e.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void Options_that_cannot_be_are_refused_by_name()
    {
        Assert.Contains("Token", Refusal(new NatsOptions { Token = "t", User = "u" }), StringComparison.Ordinal);
        Assert.Contains("User", Refusal(new NatsOptions { Password = "p" }), StringComparison.Ordinal);
        Assert.Contains("PingInterval", Refusal(new NatsOptions { PingInterval = TimeSpan.Zero }),
            StringComparison.Ordinal);
        Assert.Contains("ConnectTimeout", Refusal(new NatsOptions { ConnectTimeout = TimeSpan.Zero }),
            StringComparison.Ordinal);

        static string Refusal(NatsOptions options) =>
            Assert.Throws<ArgumentException>(() => new NatsBus("nats://h", options)).Message;
    }
}
