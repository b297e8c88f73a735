using System.Text;
using Whimbrel.Http.Tests.Serving;
using Whimbrel.Testing;

namespace Whimbrel.Http.Tests.WebSockets;

// The upgrade request: what is rejected, and with which response.
public sealed class UpgradeTests
{
    private const string Good = "Host: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: "
        + "13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

    private static Answer Ask(string head, WebSocketOptions? options = null)
    {
        using Web web = new();
        web.Server.WebSocket("/ws", static () => new WsSession(), options);
        TestPeer peer = web.Connect();
        peer.Send(head + "\r\n");
        return Web.One(peer);
    }

    [Theory]
    [InlineData("", "", 101)]
    [InlineData("Connection: Upgrade", "Connection: keep-alive, Upgrade", 101)]
    [InlineData("Connection: Upgrade", "Connection: keep-alive\r\nConnection: upgrade", 101)]
    [InlineData("Connection: Upgrade", "connection: UPGRADE", 101)]
    [InlineData("Upgrade: websocket", "Upgrade: WebSocket", 101)]
    [InlineData("Upgrade: websocket", "Upgrade: h2c, websocket", 101)]
    [InlineData("Connection: Upgrade", "Connection: keep-alive", 426)]
    [InlineData("Connection: Upgrade\r\n", "", 426)]
    [InlineData("Upgrade: websocket\r\n", "", 426)]
    [InlineData("Upgrade: websocket", "Upgrade: h2c", 426)]
    [InlineData("Upgrade: websocket", "Upgrade: websockets", 426)]
    [InlineData("Version: 13", "Version: 12", 426)]
    [InlineData("Version: 13", "Version: 8, 13", 426)]
    [InlineData("Version: 13", "Version: 013", 426)]
    [InlineData("Sec-WebSocket-Version: 13\r\n", "", 426)]
    [InlineData("Sec-WebSocket-Version: 13", "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Version: 13", 426)]
    [InlineData("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", "", 400)]
    [InlineData("dGhlIHNhbXBsZSBub25jZQ==", "", 400)]
    [InlineData("dGhlIHNhbXBsZSBub25jZQ==", "dGhlIHNhbXBsZSBub25j", 400)]
    [InlineData("dGhlIHNhbXBsZSBub25jZQ==", "dGhlIHNhbXBsZSBub25jZXg=", 400)]
    [InlineData("dGhlIHNhbXBsZSBub25jZQ==",
        "dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", 400)]
    [InlineData("Host: a\r\n", "", 400)]
    [InlineData("Host: a\r\n", "Host: a\r\nContent-Length: 3\r\n", 426)] // it has a body: no upgrade
    public void A_request_is_judged_field_by_field(string replaced, string by, int status)
    {
        string head = "GET /ws HTTP/1.1\r\n"
            + (replaced.Length == 0 ? Good : Good.Replace(replaced, by, StringComparison.Ordinal));
        Answer answer = Ask(head + (head.Contains("Content-Length", StringComparison.Ordinal) ? "\r\nabc" : ""));
        if (status == 426 && answer.Status == 400 && head.Contains("Content-Length", StringComparison.Ordinal)) return;
        Assert.Equal(status, answer.Status);
        if (status == 426 && head.Contains("websocket\r\n", StringComparison.Ordinal)
            && head.Contains("Connection: Upgrade", StringComparison.Ordinal))
            Assert.Equal("13", answer["Sec-WebSocket-Version"]);
        if (status == 101) Assert.Equal("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", answer["Sec-WebSocket-Accept"]);
    }

    [Theory]
    [InlineData("POST /ws HTTP/1.1", 405)]
    [InlineData("HEAD /ws HTTP/1.1", 426)]
    [InlineData("GET /ws HTTP/1.0", 400)]
    [InlineData("GET /other HTTP/1.1", 404)]
    public void Only_GET_of_the_route_in_HTTP_1_1_upgrades(string line, int status)
    {
        using Web web = new();
        web.Server.WebSocket("/ws", static () => new WsSession());
        TestPeer peer = web.Connect();
        peer.Send($"{line}\r\n{Good}\r\n");
        Assert.StartsWith($"HTTP/1.1 {status} ", peer.ReceiveText(), StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("", "")]
    [InlineData("Sec-WebSocket-Protocol: chat", "chat")]
    [InlineData("Sec-WebSocket-Protocol: other, chat", "chat")]
    [InlineData("Sec-WebSocket-Protocol: chat, superchat", "superchat")] // the server prefers it
    [InlineData("Sec-WebSocket-Protocol: other\r\nSec-WebSocket-Protocol: chat", "chat")]
    [InlineData("Sec-WebSocket-Protocol: other", "")]
    [InlineData("Sec-WebSocket-Protocol: Chat", "")]
    [InlineData("Sec-WebSocket-Protocol: chat, chat", "!")]
    [InlineData("Sec-WebSocket-Protocol: a b", "!")]
    public void A_sub_protocol_is_chosen_only_from_what_was_offered(string field, string chosen)
    {
        Answer answer = Ask($"GET /ws HTTP/1.1\r\n{Good}{(field.Length == 0 ? "" : field + "\r\n")}",
            new WebSocketOptions { SubProtocols = ["superchat", "chat"] });
        Assert.Equal(chosen == "!" ? 400 : 101, answer.Status);
        if (chosen != "!") Assert.Equal(chosen, answer["Sec-WebSocket-Protocol"]);
    }

    [Theory]
    [InlineData("", true, true, true)]
    [InlineData("http://A", true, true, false)]
    [InlineData("http://a:80", true, true, false)]
    [InlineData("https://a", false, true, false)] // another scheme is another origin
    [InlineData("ftp://a", false, true, false)]
    [InlineData("http://a:8080", false, true, false)]
    [InlineData("http://evil", false, true, false)]
    [InlineData("http://evil/a", false, true, false)]
    [InlineData("http://evil@a", false, true, false)]
    [InlineData("https://good.example", false, true, true)]
    [InlineData("https://GOOD.example", false, true, true)]
    [InlineData("http://good.example", false, true, false)]
    [InlineData("https://good.example:8443", false, true, false)]
    [InlineData("null", false, true, false)]
    [InlineData("a", false, true, false)]
    public void Pages_of_other_origins_are_let_in_by_choice_only(string origin, bool bySame, bool byAny, bool byList)
    {
        string head = $"GET /ws HTTP/1.1\r\n{Good}{(origin.Length == 0 ? "" : $"Origin: {origin}\r\n")}";
        Assert.Equal(bySame ? 101 : 403, Ask(head).Status);
        Assert.Equal(byAny ? 101 : 403, Ask(head, new WebSocketOptions { Origins = WebSocketOrigins.Any }).Status);
        Assert.Equal(byList ? 101 : 403,
            Ask(head, new WebSocketOptions { Origins = WebSocketOrigins.Of("https://good.example") }).Status);
    }

    [Fact]
    public void A_request_with_two_origins_is_refused_whatever_the_first_one_is()
    {
        foreach (WebSocketOrigins origins in (WebSocketOrigins[])[WebSocketOrigins.SameHost,
            WebSocketOrigins.SameHostBehindTls, WebSocketOrigins.Any, WebSocketOrigins.Of("http://a")])
        {
            foreach (string second in (string[])["http://evil", "http://a"])
                Assert.Equal(400, Ask($"GET /ws HTTP/1.1\r\n{Good}Origin: http://a\r\nOrigin: {second}\r\n",
                    new WebSocketOptions { Origins = origins }).Status);
        }
    }

    [Fact]
    public void With_a_proxy_that_ends_TLS_pages_have_https_and_the_refusal_names_the_option()
    {
        string head = $"GET /ws HTTP/1.1\r\n{Good}Origin: https://a\r\n";
        Answer refused = Ask(head);
        Assert.Equal(403, refused.Status);
        Assert.Contains("WebSocketOrigins.SameHostBehindTls", refused.Body, StringComparison.Ordinal);
        WebSocketOptions behind = new() { Origins = WebSocketOrigins.SameHostBehindTls };
        Assert.Equal(101, Ask(head, behind).Status);
        Assert.Equal(101, Ask(head.Replace("https://a", "https://a:443", StringComparison.Ordinal), behind).Status);
        Assert.Equal(403, Ask(head.Replace("https://a", "http://a", StringComparison.Ordinal), behind).Status);
        Assert.Equal(403, Ask(head.Replace("https://a", "https://evil", StringComparison.Ordinal), behind).Status);
    }

    [Fact]
    public void An_origin_of_a_list_is_compared_as_a_browser_writes_it()
    {
        WebSocketOptions options =
            new() { Origins = WebSocketOrigins.Of("https://b\u00FCcher.example:443", "http://[::1]:8080") };
        Assert.Equal(101, Ask($"GET /ws HTTP/1.1\r\n{Good}Origin: https://xn--bcher-kva.example\r\n", options).Status);
        Assert.Equal(101, Ask($"GET /ws HTTP/1.1\r\n{Good}Origin: http://[::1]:8080\r\n", options).Status);
        Assert.Equal(403, Ask($"GET /ws HTTP/1.1\r\n{Good}Origin: http://[::1]\r\n", options).Status);
    }

    [Fact]
    public async Task On_a_server_with_TLS_a_page_of_the_same_host_has_https()
    {
        await using WsSite site = new(EngineKind.Portable, isTls: true);
        await site.ServeAsync(static (_, _) => Task.CompletedTask);
        foreach (string scheme in (string[])["https", "http"])
        {
            using System.Net.WebSockets.ClientWebSocket socket = new();
            socket.Options.RemoteCertificateValidationCallback = static (_, certificate, _, _) =>
                certificate?.GetCertHashString() == Whimbrel.Conformance.TestCertificates.Server.GetCertHashString();
            socket.Options.SetRequestHeader("Origin", $"{scheme}://{site.Address.Authority}");
            using CancellationTokenSource limit = new(WsSite.Patience);
            if (scheme == "https") await socket.ConnectAsync(site.Address, limit.Token);
            else await Assert.ThrowsAsync<System.Net.WebSockets.WebSocketException>(
                () => socket.ConnectAsync(site.Address, limit.Token));
        }
    }

    [Theory]
    [InlineData("permessage-deflate",
        "permessage-deflate; server_no_context_takeover; client_no_context_takeover; server_max_window_bits=12", 101)]
    [InlineData("other", "", 101)]
    [InlineData("permessage-deflate;", "", 400)]
    public void Compression_is_agreed_on_when_both_want_it(string offer, string agreed, int status)
    {
        string head = $"GET /ws HTTP/1.1\r\n{Good}Sec-WebSocket-Extensions: {offer}\r\n";
        Answer answer = Ask(head, new WebSocketOptions { Deflate = new WebSocketDeflate() });
        Assert.Equal(status, answer.Status);
        Assert.Equal(agreed, answer["Sec-WebSocket-Extensions"]);
        Assert.Equal("", Ask(head)["Sec-WebSocket-Extensions"]);
    }

    [Fact]
    public void The_factory_sees_the_request_and_may_refuse()
    {
        using Web web = new();
        web.Server.WebSocket("/ws/{room}", static request => request.Route["room"] == "open" ? new WsSession() : null);
        TestPeer peer = web.Connect();
        peer.Send(WsPeer.Ask("/ws/shut"));
        Assert.Equal(403, Web.One(peer).Status);
        peer.Send(WsPeer.Ask("/ws/open"));
        Assert.StartsWith("HTTP/1.1 101 ", Encoding.ASCII.GetString(peer.Receive()), StringComparison.Ordinal);
    }

    [Fact]
    public void Invalid_options_are_reported_all_at_once()
    {
        WebSocketOptions options = new()
        {
            MessageLimitBytes = 1,
            Heartbeat = TimeSpan.Zero,
            CloseTimeout = TimeSpan.Zero,
            SubProtocols = ["a", "a"],
            InPieces = true,
            Deflate = new WebSocketDeflate { Level = 0, WindowBits = 8, MemoryLevel = 10 }
        };
        using Web web = new();
        string message = Assert.Throws<ArgumentException>(
            () => web.Server.WebSocket("/ws", static () => new WsSession(), options)).Message;
        foreach (string name in (string[])["MessageLimitBytes", "Heartbeat", "CloseTimeout",
            "SubProtocols", "InPieces", "Level", "WindowBits", "MemoryLevel"])
            Assert.Contains(name, message, StringComparison.Ordinal);
        foreach (string name in (string[])["Host", "connection", "Upgrade", "Sec-WebSocket-Key",
            "sec-websocket-protocol", "Sec-WebSocket-Extensions", "Content-Length"])
        {
            options = new WebSocketOptions { Fields = [new("Cookie", "a=b"), new(name, "x")] };
            message = Assert.Throws<ArgumentException>(
                () => new WebSocketClient("ws://a/", static () => new WsSession(), options)).Message;
            Assert.Contains($"Fields has {name}: ", message, StringComparison.Ordinal);
        }

        options = new WebSocketOptions { Fields = [new("Cookie", "a=b")] };
        Assert.Contains("is for clients", Assert.Throws<ArgumentException>(() => web.Server.WebSocket("/ws",
            static () => new WsSession(), options)).Message, StringComparison.Ordinal);
        options = new WebSocketOptions { Origins = WebSocketOrigins.Any };
        Assert.Contains("is for routes", Assert.Throws<ArgumentException>(() => new WebSocketClient("ws://a/",
            static () => new WsSession(), options)).Message, StringComparison.Ordinal);
        Assert.Throws<ArgumentException>(static () => WebSocketOrigins.Of("good.example"));
        Assert.Throws<ArgumentException>(static () => WebSocketOrigins.Of("https://good.example/"));
    }
}
