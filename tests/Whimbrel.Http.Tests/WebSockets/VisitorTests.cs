using Whimbrel.Http.Tests.Serving;
using Whimbrel.Testing;

namespace Whimbrel.Http.Tests.WebSockets;

// Requests to a WebSocket route without an upgrade: a browser that opens the address, a script, a health check.
public sealed class VisitorTests
{
    private const string Handshake = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: "
        + "13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

    private sealed class Silent : WebSocketSession;

    private static Answer Ask(bool hasPage, string fields, string verb = "GET",
        Action<HttpRequest, HttpResponse>? visitors = null)
    {
        using Web web = new();
        visitors ??= hasPage ? static (request, response) => response.Bytes("<p>page"u8, "text/html"u8) : null;
        web.Server.WebSocket("/", static () => new Silent(), null, visitors);
        TestPeer peer = web.Connect();
        peer.Send(Web.Get("/", fields, verb));
        return Assert.Single(Web.Read(peer.Receive(), peer.IsSessionFinished, _ => verb == "HEAD"));
    }

    [Theory]
    [InlineData("")]
    [InlineData("Connection: Upgrade\r\nUpgrade: h2c\r\n")]
    [InlineData("Upgrade: websocket\r\n")] // without Connection it was addressed to an intermediary
    public void A_request_without_an_upgrade_gets_the_page_or_426(string fields)
    {
        Answer page = Ask(hasPage: true, fields), refused = Ask(hasPage: false, fields);
        Assert.Equal((200, "<p>page", "text/html", ""),
            (page.Status, page.Body, page["Content-Type"], page["Upgrade"]));
        Assert.Equal((426, "websocket", ""), (refused.Status, refused["Upgrade"], refused["Connection"]));
        Assert.Contains("Only WebSocket is spoken here", refused.Body, StringComparison.Ordinal);
    }

    [Fact]
    public void HEAD_is_a_visitor_too_and_other_methods_are_not()
    {
        Answer head = Ask(hasPage: true, "", "HEAD");
        Assert.Equal((200, "7", ""), (head.Status, head["Content-Length"], head.Body));
        Assert.Equal(426, Ask(hasPage: false, "", "HEAD").Status);
        Assert.Equal(405, Ask(hasPage: true, "", "DELETE").Status);
    }

    [Fact]
    public void The_page_is_not_for_clients_that_request_WebSocket()
    {
        Assert.Equal(101, Ask(hasPage: true, Handshake).Status);
        Answer old = Ask(hasPage: true, Handshake.Replace("13", "8", StringComparison.Ordinal));
        Assert.Equal((426, "13"), (old.Status, old["Sec-WebSocket-Version"]));
        Assert.Equal(403, Ask(hasPage: true, Handshake + "Origin: http://other.test\r\n").Status);
    }

    [Fact]
    public void A_page_handler_that_answers_nothing_gives_an_empty_answer()
    {
        Assert.Equal(204, Ask(hasPage: true, "", visitors: static (_, _) => { }).Status);
    }
}
