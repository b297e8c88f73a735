using System.Text;
using NetCoreServer;
using Whimbrel.Tests;
using WebSocket = NetCoreServer.WebSocket;

namespace Whimbrel.Compat.Tests.Messages;

// The protocol without a connection. W1 to W9 are rows of the known defects of the old library; these tests show that
// they do not exist here.
public sealed class WebSocketTests
{
    private const byte Fin = WebSocket.WS_FIN;

    [Fact]
    public void W1_the_payload_of_a_ping_comes_back_as_it_was_up_to_its_full_size()
    {
        foreach (int size in (int[])[0, 1, 124, 125])
        {
            (WebSocket client, WebSocket server, _, Recorder told) = Pair();
            Give(server, Frame(client, WebSocket.WS_PING, new string('p', size), mask: true));
            Assert.Equal($"ping {new string('p', size)}", told.Told[^1]);
            Assert.Equal(2 + size, Frame(server, WebSocket.WS_PONG, new string('p', size), mask: false).Length);
        }
    }

    [Fact]
    public void W2_a_control_frame_between_fragments_is_reported_by_itself_at_every_cut()
    {
        byte[] bytes = [0x01, 2, (byte)'a', (byte)'b', 0x89, 1, (byte)'p', 0x80, 1, (byte)'c', 0x82, 0];
        for (int cut = 0; cut <= bytes.Length; cut++)
        {
            for (int next = cut; next <= bytes.Length; next++)
            {
                (WebSocket client, _, Recorder told, _) = Pair();
                Give(client, bytes[..cut], bytes[cut..next], bytes[next..]);
                Assert.Equal(["connected", "ping p", "message abc", "message "], told.Told);
            }
        }
    }

    [Theory]
    [InlineData("82FFFFFFFFFFFFFFFFFF", "length of a frame has its first bit", 1002)]
    [InlineData("82FF0000000040000000", "too large", 1009)]
    [InlineData("8204", "A frame of the client is not masked", 1002)]
    [InlineData("C18000000000", "reserved bit", 1002)]
    [InlineData("838000000000", "opcode", 1002)]
    [InlineData("89FE0080", "more than 125", 1002)]
    [InlineData("818200000000FFFF", "UTF-8", 1007)]
    public void W3_W9_what_breaks_a_rule_is_refused_before_anything_is_kept_of_it(string hex, string words, int status)
    {
        (_, WebSocket server, _, Recorder told) = Pair();
        Give(server, Convert.FromHexString(hex));
        Assert.StartsWith("error Invalid WebSocket frame", told.Told[^1], StringComparison.Ordinal);
        Assert.Contains(words, told.Told[^1], StringComparison.Ordinal);
        Assert.Equal(status, (int)server.Verdict!);
        Give(server, [0x81, 0]);
        Assert.Equal(2, told.Told.Count);
    }

    [Fact]
    public void W5_each_frame_of_a_client_has_a_mask_of_its_own_and_each_handshake_a_key()
    {
        (WebSocket client, _, _, _) = Pair();
        HashSet<string> masks = [];
        for (int i = 0; i < 100; i++)
            masks.Add(Convert.ToHexString(Frame(client, WebSocket.WS_TEXT, "same", mask: true)[2..6]));
        Assert.InRange(masks.Count, 99, 100);
        HashSet<string> nonces = [];
        for (int i = 0; i < 100; i++)
        {
            client.InitWsNonce();
            nonces.Add(Convert.ToHexString(client.Nonce));
        }

        Assert.Equal(100, nonces.Count);
    }

    [Theory]
    [InlineData("Sec-WebSocket-Accept", "")]
    [InlineData("Sec-WebSocket-Accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")]
    [InlineData("Sec-WebSocket-Accept", null)]
    [InlineData("Upgrade", "h2c")]
    [InlineData("Connection", "keep-alive")]
    public void W6_an_answer_that_is_not_to_the_key_opens_nothing(string field, string? value)
    {
        Recorder told = new();
        WebSocket client = new(told);
        HttpResponse answer = new(101);
        foreach ((string name, string right) in ((string, string)[])[("Upgrade", "websocket"),
            ("Connection", "Upgrade"), ("Sec-WebSocket-Accept", AcceptFor(client))])
        {
            if (name != field) answer.SetHeader(name, right);
            else if (value is not null) answer.SetHeader(name, value);
        }

        Assert.False(client.PerformClientUpgrade(answer.SetBody(), Guid.NewGuid()));
        Assert.StartsWith("error Invalid WebSocket response", Assert.Single(told.Told), StringComparison.Ordinal);
        Assert.False(client.IsOpen);
    }

    [Theory]
    [InlineData("Upgrade", "websocket")]
    [InlineData("keep-alive, Upgrade", "websocket")]
    [InlineData("keep-alive,upgrade", "WebSocket")]
    [InlineData("foo, UPGRADE , bar", "h2c, websocket")]
    public void W7_every_legal_list_asks_for_the_upgrade(string connection, string upgrade)
    {
        Recorder told = new();
        HttpResponse answer = new();
        Assert.True(new WebSocket(told).PerformServerUpgrade(Asking(connection, upgrade), answer));
        Assert.Equal("connected /chat", Assert.Single(told.Told));
        Assert.Same(answer, told.Answer);
        Assert.Equal("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "
            + "websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n", answer.Cache.ToString());
    }

    [Fact]
    public void A_wrong_upgrade_gets_an_error_and_an_ordinary_request_is_left_alone()
    {
        Refused(Asking("close", "websocket"), "'Connection'");
        Refused(Asking("Upgrade", "h2c"), "'Upgrade'");
        Refused(Asking("Upgrade", "websocket", key: "c2hvcnQ="), "'Sec-WebSocket-Key'");
        Refused(Asking("Upgrade", "websocket", version: "8"), "'Sec-WebSocket-Version'");
        Recorder told = new();
        Assert.False(new WebSocket(told).PerformServerUpgrade(new HttpRequest().MakeGetRequest("/"),
            new HttpResponse()));
        Assert.Null(told.Answer);

        Recorder unwilling = new() { Accepts = false };
        HttpResponse answer = new();
        Assert.False(new WebSocket(unwilling).PerformServerUpgrade(Asking("Upgrade", "websocket"), answer));
        Assert.True(answer.IsEmpty && unwilling.Answer is null);

        static void Refused(HttpRequest request, string words)
        {
            Recorder told = new();
            WebSocket socket = new(told);
            Assert.False(socket.PerformServerUpgrade(request, new HttpResponse()));
            Assert.Equal(400, told.Answer!.Status);
            Assert.Contains(words, told.Answer.Body, StringComparison.Ordinal);
            Assert.False(socket.IsOpen);
        }
    }

    [Fact]
    public void A_close_has_its_status_and_reason_and_messages_after_ours_are_not_reported()
    {
        (WebSocket client, WebSocket server, _, Recorder told) = Pair();
        byte[] close = Frame(client, WebSocket.WS_CLOSE, "bye", mask: true, 1001);
        Give(server, close);
        Assert.Equal("close 1001 bye", told.Told[^1]);
        (client, server, _, told) = Pair();
        Give(server, Frame(client, WebSocket.WS_CLOSE, "", mask: true));
        Assert.Equal("close 1000 ", told.Told[^1]);
        Assert.True(client.IsClosing);
        Assert.ThrowsAny<ArgumentException>(() => client.PrepareSendFrame(WebSocket.WS_PING, true, new byte[126]));

        (client, server, Recorder heard, _) = Pair();
        Frame(client, WebSocket.WS_CLOSE, "", mask: true, 1000);
        Give(client, [0x81, 1, (byte)'x', 0x88, 0]);
        Assert.Equal(["connected", "close 1000 "], heard.Told);
    }

    [Fact]
    public void A_later_WebSocket_is_read_after_one_that_broke_a_rule_or_closed()
    {
        (WebSocket client, WebSocket server, _, Recorder told) = Pair();
        for (int i = 0; i < 3; i++)
        {
            Give(server, i % 2 == 0 ? [0xC1, 0x80] : Frame(client, WebSocket.WS_CLOSE, "", mask: true));
            if (i % 2 == 0) Assert.NotNull(server.Verdict);
            server.ClearWsBuffers();
            client.ClearWsBuffers();
            Assert.False(server.IsOpen || server.IsClosing || client.IsClosing || server.Verdict is not null);
            Assert.True(server.PerformServerUpgrade(Asking("Upgrade", "websocket"), new HttpResponse()));
            Give(server, Frame(client, WebSocket.WS_TEXT, $"again {i}", mask: true));
            Assert.Equal($"message again {i}", told.Told[^1]);
        }
    }

    [Fact] // slow growth: a connection that once sent a large message
    public void The_memory_of_a_large_frame_is_not_kept_for_the_next_one()
    {
        (WebSocket client, _, _, _) = Pair();
        foreach (int size in (int[])[1_000_000, 10, 200_000, 10])
        {
            Frame(client, WebSocket.WS_TEXT, new string('x', size), mask: true);
            Assert.InRange(SentOf(client).Capacity, size, Math.Max(2 * size, 512 * 1024));
        }
    }

    [System.Runtime.CompilerServices.UnsafeAccessor(System.Runtime.CompilerServices.UnsafeAccessorKind.Field,
        Name = "_sent")]
    private static extern ref NetCoreServer.Buffer SentOf(WebSocket socket);

    [Fact]
    public void The_number_of_missing_bytes_is_reported()
    {
        (WebSocket client, _, Recorder told, _) = Pair();
        byte[] frame = [0x82, 126, 0x01, 0x00, .. new byte[256]];
        int at = 0, calls = 0;
        while (at < frame.Length)
        {
            int required = (int)client.RequiredReceiveFrameSize();
            Give(client, frame[at..(at + required)]);
            at += required;
            calls++;
        }

        Assert.Equal((frame.Length, 3), (at, calls));
        Assert.Equal(2, told.Told.Count);
    }

    [Fact]
    public void Messages_make_no_new_arrays()
    {
        Silent silent = new();
        WebSocket client = new(silent), server = new(silent);
        HttpResponse answer = new();
        Assert.True(server.PerformServerUpgrade(Asking("Upgrade", "websocket"), answer));
        byte[] message = new byte[100_000], copy = new byte[200_000];
        Exchange();
        // Code that is not fully optimized yet may box a number, which is not an array.
        Assert.InRange(Allocated.By(() =>
        {
            for (int i = 0; i < 1000; i++) Exchange();
        }), 0, 1_000_000);

        void Exchange()
        {
            client.PrepareSendFrame(Fin | WebSocket.WS_BINARY, true, message);
            client.Frame.CopyTo(copy);
            server.PrepareReceiveFrame(copy, 0, 3);
            server.PrepareReceiveFrame(copy, 3, client.Frame.Length - 3);
        }
    }

    private sealed class Silent : IWebSocket;

    private static (WebSocket Client, WebSocket Server, Recorder OfClient, Recorder OfServer) Pair()
    {
        Recorder ofClient = new(), ofServer = new();
        WebSocket client = new(ofClient), server = new(ofServer);
        Assert.True(server.PerformServerUpgrade(Asking("Upgrade", "websocket", Convert.ToBase64String(client.Nonce)),
            new HttpResponse()));
        Assert.True(client.PerformClientUpgrade(ofServer.Answer!, Guid.NewGuid()));
        return (client, server, ofClient, ofServer);
    }

    private static string AcceptFor(WebSocket client)
    {
        HttpResponse answer = new();
        Assert.True(new WebSocket(new Recorder()).PerformServerUpgrade(
            Asking("Upgrade", "websocket", Convert.ToBase64String(client.Nonce)), answer));
        return answer.Header(2).Item2;
    }

    private static HttpRequest Asking(string connection, string upgrade, string key = "dGhlIHNhbXBsZSBub25jZQ==",
        string version = "13") => new HttpRequest("GET", "/chat")
            .SetHeader("Host", "h").SetHeader("Connection", connection).SetHeader("Upgrade", upgrade)
            .SetHeader("Sec-WebSocket-Key", key).SetHeader("Sec-WebSocket-Version", version).SetBody();

    private static byte[] Frame(WebSocket socket, byte opcode, string payload, bool mask, int status = 0)
    {
        socket.PrepareSendFrame((byte)(Fin | opcode), mask, Encoding.UTF8.GetBytes(payload), status);
        return socket.Frame.ToArray();
    }

    private static void Give(WebSocket socket, params byte[][] pieces)
    {
        foreach (byte[] piece in pieces) socket.PrepareReceiveFrame([0, .. piece, 0], 1, piece.Length);
    }
}
