using System.Net;
using System.Text;
using Whimbrel.Http.Parsing;
using Whimbrel.Http.Tests.WebSockets.Cases;
using Whimbrel.Http.WebSockets;
using Whimbrel.Testing;

namespace Whimbrel.Http.Tests.WebSockets;

// The client's reaction to the response to its upgrade request, whole and byte by byte.
public sealed class ClientHandshakeTests
{
    private static (string Failure, WsSession? Session, byte[] Received) ConnectPeer(Func<string, string> answer,
        WebSocketOptions? options = null, bool splits = false, TimeSpan? wait = null, TimeSpan? connectTimeout = null)
    {
        using TestNetwork network = new() { RethrowsExceptions = false };
        WsSession? session = null;
        IPEndPoint there = (IPEndPoint)network.NewEndPoint();
        WebSocketClient client = new($"ws://a:{there.Port}/ws", new ClientOptions
        {
            Engine = network.Engine,
            EndPoint = there,
            Timeouts = new() { Connect = connectTimeout ?? TimeSpan.FromSeconds(15) }
        }, () => session = new WsSession(), options);
        TestPeer peer = network.Accept(client);
        WebSocketConnect connect = (WebSocketConnect)peer.Session;
        peer.SplitEveryByte = splits;
        string request = peer.ReceiveText();
        Assert.EndsWith("\r\n\r\n", request, StringComparison.Ordinal); // and no frame before the server has agreed
        peer.Send(Encoding.Latin1.GetBytes(answer(request)));
        if (wait is { } time) peer.Advance(time);
        else if (!connect.IsOver) peer.Finish();
        return (connect.Failure ?? "", session, peer.Receive());
    }

    [Theory]
    [InlineData("", "", "")]
    [InlineData("Connection: Upgrade", "connection: keep-alive, UPGRADE", "")] // any list with the token
    [InlineData("Connection: Upgrade", "Connection: keep-alive\r\nConnection: Upgrade", "")]
    [InlineData("Upgrade: websocket", "Upgrade: WebSocket", "")]
    [InlineData("Switching Protocols", "", "")]
    [InlineData("101 Switching Protocols", "200 OK", "answered 200")]
    [InlineData("101 Switching Protocols", "301 Moved\r\nLocation: ws://b/ws", "Redirects are not followed")]
    [InlineData("101 Switching Protocols", "401 Unauthorized", "answered 401")]
    [InlineData("101 Switching Protocols", "426 Upgrade Required", "answered 426")]
    [InlineData("HTTP/1.1", "HTTP/1.0", "")]
    [InlineData("HTTP/1.1", "HTCPCP/1.0", "no HTTP")]
    [InlineData("Connection: Upgrade\r\n", "", "another protocol")]
    [InlineData("Connection: Upgrade", "Connection: close", "another protocol")]
    [InlineData("Upgrade: websocket\r\n", "", "another protocol")]
    [InlineData("Upgrade: websocket", "Upgrade: h2c", "another protocol")]
    [InlineData("Upgrade: websocket", "Upgrade: websockets", "another protocol")]
    [InlineData("Sec-WebSocket-Accept: ", "X-Accept: ", "Sec-WebSocket-Accept")]
    [InlineData("Sec-WebSocket-Accept: ", "Sec-WebSocket-Accept: \r\nSec-WebSocket-Accept: ", "Sec-WebSocket-Accept")]
    [InlineData("Sec-WebSocket-Accept: ", "Sec-WebSocket-Accept: x", "Sec-WebSocket-Accept")]
    [InlineData("=\r\n", "\r\n", "Sec-WebSocket-Accept")] // a beginning is not the whole
    [InlineData("=\r\n", "=\r\nSec-WebSocket-Protocol: chat\r\n", "sub-protocol")]
    [InlineData("=\r\n", "=\r\nSec-WebSocket-Protocol: \r\n", "sub-protocol")]
    [InlineData("=\r\n", "=\r\nSec-WebSocket-Extensions: permessage-deflate\r\n", "extension")]
    [InlineData("=\r\n", "=\r\nSec-WebSocket-Extensions: x-other\r\n", "extension")]
    [InlineData("=\r\n", "=\r\nBad Name: x\r\n", "no HTTP")]
    public void An_answer_is_judged_field_by_field(string replaced, string by, string failure)
    {
        foreach (bool splits in (bool[])[false, true])
        {
            (string told, WsSession? session, byte[] received) = ConnectPeer(request => Change(Answer(request)),
                splits: splits);
            if (failure.Length == 0) Assert.Equal("", told);
            else Assert.Contains(failure, told, StringComparison.Ordinal);
            Assert.Equal(failure.Length == 0, session is not null);
            Assert.Empty(received);
        }

        string Change(string answer) =>
            replaced.Length == 0 ? answer : answer.Replace(replaced, by, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        "The server answered 404 (Not Found) and no WebSocket")]
    [InlineData("HTTP/1.1 503 Later\r\nContent-Length: 0\r\n\r\n", "The server answered 503 (Later) and no WebSocket")]
    [InlineData("nonsense\r\n\r\n", "The answer is no HTTP")]
    public void A_handshake_that_fails_ends_the_connection_for_that_reason(string answer, string why)
    {
        using TestNetwork network = new() { RethrowsExceptions = false };
        IPEndPoint there = (IPEndPoint)network.NewEndPoint();
        WebSocketClient client = new($"ws://a:{there.Port}/ws",
            new ClientOptions { Engine = network.Engine, EndPoint = there }, static () => new WsSession());
        TestPeer peer = network.Accept(client);
        peer.ReceiveText();
        peer.Send(Encoding.ASCII.GetBytes(answer));
        CloseReason reason = peer.CloseReason!.Value;
        Assert.Equal((CloseCause.ProtocolError, ErrorCategory.Protocol), (reason.Cause, reason.Error.Category));
        Assert.Contains(why, reason.ToString(), StringComparison.Ordinal);
    }

    private static string Answer(string request, string fields = "") =>
        Encoding.ASCII.GetString(Opening.Answer(request, "", fields));

    [Fact]
    public void The_nonce_is_compared_case_sensitively()
    {
        // In base64, changing the case changes the value.
        (string told, _, _) = ConnectPeer(static request =>
        {
            string answer = Answer(request);
            int at = answer.IndexOf("Accept: ", StringComparison.Ordinal) + 8;
            int letter = at + answer[at..].TakeWhile(static c => !char.IsAsciiLetter(c)).Count();
            char other = char.IsAsciiLetterUpper(answer[letter])
                ? char.ToLowerInvariant(answer[letter])
                : char.ToUpperInvariant(answer[letter]);
            return answer[..letter] + other + answer[(letter + 1)..];
        });
        Assert.Contains("Sec-WebSocket-Accept", told, StringComparison.Ordinal);
    }

    [Fact]
    public void Data_after_the_servers_answer_in_one_packet_is_not_lost_and_is_bytes()
    {
        foreach (bool splits in (bool[])[false, true])
        {
            string frames = Encoding.Latin1.GetString(FrameTests.Frames("82 \\FF\\00\\80|81 welcome|89 x",
                WebSocketRole.Client));
            (string told, WsSession? session, byte[] received) = ConnectPeer(request => Answer(request) + frames,
                splits: splits);
            Assert.Equal("", told);
            Assert.Equal(["connected", "binary \u00FF\0\u0080", "text welcome", "ping x"], session!.Events.Take(4));
            Assert.Equal(["Pong x"], Case.Events(received, WebSocketRole.Client));
        }
    }

    [Fact]
    public void Of_the_sub_protocols_that_were_offered_the_server_may_choose_one()
    {
        WebSocketOptions options = new() { SubProtocols = ["a", "b"] };
        (string told, WsSession? session, _) =
            ConnectPeer(static request => Answer(request, "Sec-WebSocket-Protocol: b\r\n"), options);
        Assert.Equal(("", "b"), (told, session!.SubProtocol));
        Assert.Contains("sub-protocol",
            ConnectPeer(static request => Answer(request, "Sec-WebSocket-Protocol: a, b\r\n"), options).Failure,
            StringComparison.Ordinal);
        Assert.Contains("sub-protocol", ConnectPeer(static request => Answer(request,
            "Sec-WebSocket-Protocol: a\r\nSec-WebSocket-Protocol: b\r\n"), options).Failure, StringComparison.Ordinal);
        (told, session, _) = ConnectPeer(static request => Answer(request), options);
        Assert.Equal(("", null), (told, session!.SubProtocol));
    }

    [Fact]
    public void A_server_that_does_not_answer_times_out_and_one_that_disconnects_is_reported()
    {
        WebSocketOptions options = new() { CloseTimeout = TimeSpan.FromSeconds(1) }; // which applies to closing only
        TimeSpan connect = TimeSpan.FromSeconds(3);
        Assert.Equal("",
            ConnectPeer(static _ => "", options, wait: TimeSpan.FromSeconds(2.9), connectTimeout: connect).Failure);
        Assert.Contains("within 3 s", ConnectPeer(static _ => "HTTP/1.1 101 Swi", options,
            wait: TimeSpan.FromSeconds(3.1), connectTimeout: connect).Failure, StringComparison.Ordinal);
        Assert.Contains("ended before", ConnectPeer(static _ => "HTTP/1.1 101 Swi").Failure, StringComparison.Ordinal);
    }

    [Fact]
    public void No_two_connections_have_the_same_nonce()
    {
        HashSet<string> nonces = [];
        for (int i = 0; i < 50; i++)
        {
            ConnectPeer(request =>
            {
                Assert.True(nonces.Add(Opening.Field(request, "Sec-WebSocket-Key")));
                return Answer(request);
            });
        }
    }
}
