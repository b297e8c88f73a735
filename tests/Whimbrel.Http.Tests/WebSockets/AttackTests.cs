using System.Text;
using Whimbrel.Http.Parsing;
using Whimbrel.Http.Tests.WebSockets.Cases;
using Whimbrel.Http.WebSockets;
using Whimbrel.Tests;

namespace Whimbrel.Http.Tests.WebSockets;

// Attacks on a WebSocket end with frames and compressed data: the response to each, and its cost.
public sealed class AttackTests
{
    private const int Limit = 64 * 1024;

    private static WebSocketOptions Packing(int limit = Limit, bool forgets = true) => new()
    {
        MessageLimitBytes = limit,
        Deflate = new WebSocketDeflate { Forgets = forgets, PeerForgets = forgets }
    };

    private static CaseLink Open(WebSocketRole role, WebSocketOptions options) =>
        new(role, options, role == WebSocketRole.Client && options.Deflate!.PeerForgets
            ? "permessage-deflate; server_no_context_takeover"
            : "permessage-deflate");

    private static void Send(CaseLink link, WebSocketRole role, int first, byte[] payload) =>
        link.Send(new CaseFrame((byte)first, payload).Bytes(role, 0x1234_5678));

    private static List<string> Events(CaseLink link, WebSocketRole role) => Case.Events(link.Received, role);

    private static byte[] Bomb(int length) => new PlainDeflate(15, forgets: true).Pack(new byte[length]);

    [Fact]
    public void A_bomb_ends_at_the_limit_whole_and_in_fragments_and_costs_no_more_than_that()
    {
        byte[] bomb = Bomb(50_000_000);
        Assert.InRange(bomb.Length, 1, 400_000);
        foreach (WebSocketRole role in Enum.GetValues<WebSocketRole>())
        {
            foreach (int fragment in (int[])[bomb.Length, 1000, 60_000])
            {
                // The frames must stay below the limit; otherwise the first one alone would be too large.
                byte[] sent = fragment == bomb.Length ? bomb[..60_000] : bomb;
                using CaseLink link = Open(role, Packing());
                long before = GC.GetAllocatedBytesForCurrentThread();
                for (int at = 0; at < sent.Length && link.Session.Cause is null && !link.Peer.IsSessionFinished;
                    at += fragment)
                {
                    bool isLast = at + fragment >= sent.Length;
                    Send(link, role, (isLast ? 0x80 : 0) | (at == 0 ? 0x42 : 0),
                        sent[at..Math.Min(at + fragment, sent.Length)]);
                }

                Assert.Equal(["Close 1009"], Events(link, role));
                Assert.Equal(0, link.Session.Messages);
                // most of it by the test itself
                Assert.InRange(GC.GetAllocatedBytesForCurrentThread() - before, 0, 4_000_000);
            }
        }
    }

    [Fact]
    public void A_compressed_message_of_the_limit_is_taken_and_one_byte_more_is_not()
    {
        foreach (WebSocketRole role in Enum.GetValues<WebSocketRole>())
        {
            using CaseLink link = Open(role, Packing());
            Send(link, role, 0xC2, Bomb(Limit));
            Assert.Equal(1, link.Session.Messages);
            Send(link, role, 0xC2, Bomb(Limit + 1));
            Assert.Equal("Close 1009", Events(link, role)[^1]);
            Assert.Equal(1, link.Session.Messages);
        }
    }

    [Fact]
    public void A_message_within_the_limit_is_taken_however_well_it_was_compressed()
    {
        // of browsers: 300 times as long as what was sent
        byte[] alphabet = [.. Enumerable.Range(0, 1024 * 1024).Select(static i => (byte)('a' + i % 26))];
        foreach (WebSocketRole role in Enum.GetValues<WebSocketRole>())
        {
            using CaseLink link = Open(role, new WebSocketOptions { Deflate = new WebSocketDeflate() });
            Send(link, role, 0xC2, new PlainDeflate(15, forgets: true).Pack(alphabet));
            Send(link, role, 0xC2, Bomb(1024 * 1024));
            Assert.Equal(2, link.Session.Messages);
            Assert.True(link.Peer.IsConnected);
        }
    }

    [Theory]
    [InlineData("FF")] // a block of a kind that does not exist
    [InlineData("000500FAFE48656C6C6F00")] // a length and its complement disagree
    [InlineData("4B04A3E1FFFF")] // a copy from before the beginning
    [InlineData("F248CDC9")] // cut: more was to come
    // marked as the last block, and the empty one that must follow is missing: RFC 7692, 7.2.3.4
    [InlineData("F348CDC9C90700")]
    [InlineData("")]
    public void Invalid_DEFLATE_data_is_1007_and_nothing_of_the_connection_is_used_afterwards(string hex)
    {
        foreach (WebSocketRole role in Enum.GetValues<WebSocketRole>())
        {
            using CaseLink link = Open(role, Packing(forgets: false));
            Send(link, role, 0xC2, new PlainDeflate(15, true).Pack("before"u8));
            Send(link, role, 0xC2, Convert.FromHexString(hex));
            Send(link, role, 0xC2, new PlainDeflate(15, true).Pack("after"u8));
            Assert.Equal("Close 1007", Events(link, role)[^1]);
            Assert.Equal(1, link.Session.Messages);
        }
    }

    [Fact]
    public void A_copy_from_before_the_negotiated_window_is_malformed()
    {
        byte[] noise = new byte[2000];
        new Random(1).NextBytes(noise);
        using CaseLink link = new(WebSocketRole.Server,
            new WebSocketOptions { Deflate = new WebSocketDeflate { PeerForgets = false, PeerWindowBits = 9 } },
            "permessage-deflate; client_max_window_bits");
        Assert.Contains("client_max_window_bits=9", link.Head, StringComparison.Ordinal);
        PlainDeflate wide = new(15, forgets: false);
        Send(link, WebSocketRole.Server, 0xC2, wide.Pack(noise));
        Send(link, WebSocketRole.Server, 0xC2, wide.Pack(noise.AsSpan(1600)));
        Assert.Equal(2, link.Session.Messages); // 400 bytes before
        Send(link, WebSocketRole.Server, 0xC2, wide.Pack(noise.AsSpan(0, 100)));
        Assert.Equal("Close 1007", Events(link, WebSocketRole.Server)[^1]);
    }

    [Fact]
    public void A_final_block_ends_the_data_of_a_message_and_the_next_begins_after_it()
    {
        byte[] final = Convert.FromHexString("F348CDC9C9070000"); // RFC 7692, 7.2.3.4: Hello
        foreach (WebSocketRole role in Enum.GetValues<WebSocketRole>())
        {
            using CaseLink link = Open(role, Packing(forgets: false));
            Send(link, role, 0xC1, final);
            Send(link, role, 0xC1, final);
            // too short to be compressed on its way back
            Assert.Equal(["Text Hello", "Text Hello"], Events(link, role));
            Send(link, role, 0xC1, [.. final, 0xFF, 0xFF, 0xFF]);
            Assert.Equal("Close 1007", Events(link, role)[^1]);
        }
    }

    [Fact]
    public void Compressed_messages_may_be_empty()
    {
        foreach (WebSocketRole role in Enum.GetValues<WebSocketRole>())
        {
            using CaseLink link = Open(role, Packing());
            Send(link, role, 0xC1, [0]);
            Send(link, role, 0xC2, [0]);
            Send(link, role, 0xC1, [0x02, 0x00]); // an empty block with the fixed codes
            Assert.Equal(["Text ", "Binary ", "Text "], Events(link, role));
        }
    }

    [Fact]
    public void Compressed_text_is_judged_at_its_first_wrong_byte_when_the_compression_is_off()
    {
        foreach (WebSocketRole role in Enum.GetValues<WebSocketRole>())
        {
            using CaseLink link = Open(role, Packing());
            byte[] packed = new PlainDeflate(15, true).Pack([.. "abc"u8, 0xFF,
                .. Enumerable.Range(32, 90).Select(static i => (byte)i)]);
            Send(link, role, 0x41, packed[..10]); // the rest does not come
            Assert.Equal(["Close 1007"], Events(link, role));
        }
    }

    [Fact]
    public void Nothing_is_compressed_unless_it_is_asked_for()
    {
        using CaseLink server = new(WebSocketRole.Server, new WebSocketOptions(), "permessage-deflate");
        Assert.Equal("", Opening.Field(server.Head, "Sec-WebSocket-Extensions"));
        using CaseLink client = new(WebSocketRole.Client, new WebSocketOptions());
        Assert.Equal("", Opening.Field(client.Head, "Sec-WebSocket-Extensions"));
        using CaseLink plain = new(WebSocketRole.Server, Packing());
        Assert.Equal("", Opening.Field(plain.Head, "Sec-WebSocket-Extensions"));
        Send(plain, WebSocketRole.Server, 0xC1, [0]);
        Assert.Equal(["Close 1002"], Events(plain, WebSocketRole.Server));
    }

    [Fact]
    public void A_million_fragments_of_one_byte_cost_what_their_bytes_do()
    {
        const int Fragments = 1_000_000, AtOnce = 10_000;
        foreach (WebSocketRole role in Enum.GetValues<WebSocketRole>())
        {
            using CaseLink link = new(role, new WebSocketOptions { MessageLimitBytes = Fragments });
            Send(link, role, 0x02, [1]);
            byte[] frame = new CaseFrame(0x00, [1]).Bytes(role, 7);
            byte[] many = [.. Enumerable.Repeat(frame, AtOnce).SelectMany(static f => f)];
            link.Send(many); // allocates what is made only once
            long before = GC.GetAllocatedBytesForCurrentThread();
            for (int i = 2 * AtOnce; i < Fragments; i += AtOnce) link.Peer.Send(many);
            // The arrays of a growing message, and the copies of the test network.
            Assert.InRange(GC.GetAllocatedBytesForCurrentThread() - before, 0, 40_000_000);
            link.Send([.. Enumerable.Repeat(frame, AtOnce - 2).SelectMany(static f => f)]);
            Assert.Equal(0, link.Session.Messages);
            Send(link, role, 0x80, [1]);
            Assert.Equal(1, link.Session.Messages);
            Send(link, role, 0x02, [1]);
            for (int i = 0; i <= Fragments && !link.Peer.IsSessionFinished; i += AtOnce) link.Send(many);
            Assert.Equal("Close 1009", Events(link, role)[^1]);
        }
    }

    private sealed class Choosy : WebSocketSession
    {
        internal bool Refuses { get; set; }

        protected override bool OnSending(long bytes) => !Refuses;
    }

    [Fact]
    public void A_message_that_was_refused_leaves_nothing_in_the_context_of_the_next_ones()
    {
        byte[] secret = new byte[1500], common = new byte[1500]; // both together fit into the retained window
        Random random = new(7);
        random.NextBytes(secret);
        random.NextBytes(common);
        foreach (bool isAsync in (bool[])[false, true])
        {
            using Serving.Web web = new();
            Choosy? session = null;
            web.Server.WebSocket("/ws", () => session = new Choosy(), new WebSocketOptions
            {
                Deflate = new WebSocketDeflate { Forgets = false, PeerForgets = false, WindowBits = 15 }
            });
            Whimbrel.Testing.TestPeer peer = web.Connect();
            peer.Send(Opening.Request("permessage-deflate"));
            peer.Receive();
            List<byte[]> sent = [];
            List<byte> received = [];
            foreach (byte[] message in (byte[][])[common, secret, secret, common, [.. secret, .. common], secret])
            {
                session!.Refuses = sent.Count == 1 && !session.Refuses; // the first secret
                peer.OnLoop(() =>
                {
                    ValueTask<SendResult> sending =
                        isAsync ? session.SendBinaryAsync(message) : new(session.SendBinary(message));
                    Assert.Equal(session.Refuses ? SendResult.Refused : SendResult.Queued, sending.Result);
                });
                if (!session.Refuses) sent.Add(message);
                received.AddRange(peer.Receive());
            }

            // A reference decoder that received only what was sent can decode all of it: no back-reference points to
            // bytes that were never sent.
            PlainInflate inflate = new(15, forgets: false);
            List<string> frames = PlainFrames.Read([.. received], isServer: false, long.MaxValue, mayCompress: true);
            Assert.Equal(5, sent.Count);
            Assert.Equal(sent.Count, frames.Count);
            for (int i = 0; i < sent.Count; i++)
            {
                Assert.StartsWith("Binary* ", frames[i], StringComparison.Ordinal);
                Assert.True(sent[i].AsSpan()
                    .SequenceEqual(inflate.Unpack(Encoding.Latin1.GetBytes(frames[i]["Binary* ".Length..]))),
                    $"message {i}");
            }

            Assert.InRange(frames[^1].Length, 1, 500); // and there is a context again
        }
    }

    [Fact]
    public void A_flood_of_pings_with_unread_pongs_costs_a_short_queue_and_the_last_is_answered()
    {
        using CaseLink link = new(WebSocketRole.Server, new WebSocketOptions());
        link.Peer.IsReading = false;
        byte[] pings = [.. Enumerable.Range(0, 500)
            .SelectMany(static i => new CaseFrame(0x89, new byte[125]).Bytes(WebSocketRole.Server, (uint)i))];
        for (int i = 0; i < 40; i++) link.Peer.Send(pings); // 2.6 MB
        link.Peer.Send(new CaseFrame(0x89, "last"u8.ToArray()).Bytes(WebSocketRole.Server, 0));
        Assert.True(link.Peer.IsConnected);
        Assert.InRange(link.Session.BytesPending, 1, 200_000);
        link.Peer.IsReading = true;
        link.Peer.Run();
        List<string> events = Events(link, WebSocketRole.Server);
        Assert.InRange(events.Count, 100, 20_000);
        Assert.Equal("Pong last", events[^1]);
    }

    [Fact]
    public void Fields_of_a_request_are_never_reflected_in_an_error()
    {
        foreach (string field in (string[])["Sec-WebSocket-Protocol: a\rX: b", "Sec-WebSocket-Protocol: a\0b",
            "Sec-WebSocket-Extensions: permessage-deflate; a=\"b\nX: c\"", "Sec-WebSocket-Protocol: zzz",
            "Sec-WebSocket-Extensions: zzz", "Origin: http://zzz"])
        {
            using Serving.Web web = new();
            web.Server.WebSocket("/ws", static () => new WsSession(), new WebSocketOptions
            {
                SubProtocols = ["a"],
                Deflate = new WebSocketDeflate(),
                Origins = WebSocketOrigins.Any
            });
            Whimbrel.Testing.TestPeer peer = web.Connect();
            peer.Send(Encoding.Latin1.GetBytes(WsPeer.Ask(fields: field + "\r\n")));
            string answer = Encoding.Latin1.GetString(peer.Receive());
            Assert.DoesNotContain("zzz", answer, StringComparison.Ordinal);
            Assert.DoesNotContain("X: ", answer, StringComparison.Ordinal);
            Assert.DoesNotContain('\0', answer);
        }
    }

    [Fact]
    public void Any_frames_at_all_do_to_a_session_what_the_plain_reader_says()
    {
        int runs = Depth.Of(6000, deep: 500_000);
        byte[] firsts = [0x81, 0x82, 0x01, 0x02, 0x00, 0x80, 0x89, 0x8A, 0x88, 0xC1, 0x08, 0x83, 0x90];
        byte[][] payloads = [[], "a"u8.ToArray(), [0xF0, 0x9F], [0x98, 0x80], [0x03, 0xE8], [0xFF], new byte[125],
            new byte[126], [0xCE, 0xBA], [0x0F, 0xA0, 0x6F, 0x6B], new byte[400]];
        foreach (int seed in Seeds.Some(2))
        {
            Random random = new(seed);
            for (int run = 0; run < runs / 2; run++)
            {
                WebSocketRole role = (WebSocketRole)random.Next(2);
                List<byte> all = [];
                for (int i = random.Next(1, 7); i > 0; i--)
                    all.AddRange(new CaseFrame(firsts[random.Next(random.Next(3) > 0 ? 8 : firsts.Length)],
                        payloads[random.Next(payloads.Length)]).Bytes(role, (uint)random.Next()));
                byte[] bytes = [.. all];
                for (int changes = random.Next(4) - 1; changes > 0; changes--)
                    bytes[random.Next(bytes.Length)] = (byte)random.Next(256);
                int cut = random.Next(bytes.Length + 1), early = random.Next(3) == 0 ? random.Next(cut + 1) : 0;
                using CaseLink link = new(role, new WebSocketOptions { MessageLimitBytes = 300 },
                    behind: bytes[..early]);
                link.Send(bytes[early..cut]);
                link.Send(bytes[cut..]);
                List<string> expected = Expected(PlainFrames.Read(bytes, role == WebSocketRole.Server, 300,
                    mayCompress: false));
                List<string> got = Events(link, role);
                if (!expected.SequenceEqual(got) || link.Session.Mistakes.Count > 0)
                    Assert.Fail($"seed {seed}, run {run}, {role}, cut {early} {cut}: "
                        + $"{Convert.ToHexString(bytes)}\n{string.Join(';', expected)}\n{string.Join(';', got)}\n"
                        + $"{string.Join(';', link.Session.Mistakes)}");
            }
        }
    }

    // The events that an echo sends back for the received ones.
    private static List<string> Expected(List<string> told)
    {
        List<string> said = [];
        foreach (string each in told)
        {
            if (each.StartsWith("Ping ", StringComparison.Ordinal)) said.Add($"Pong {each[5..]}");
            else if (each[0] == '!')
                said.Add($"Close {(int)WebSocketRules.StatusOf(Enum.Parse<WebSocketRule>(each[2..]))}");
            else if (each.StartsWith("Close ", StringComparison.Ordinal))
                said.Add($"Close {(each.Length == 6 ? 1005 : each[6] * 256 + each[7])}");
            else if (!each.StartsWith("Pong ", StringComparison.Ordinal)) said.Add(each);
        }

        return said;
    }
}
