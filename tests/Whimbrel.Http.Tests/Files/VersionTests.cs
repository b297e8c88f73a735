using System.Text;
using Whimbrel.Http.Tests.Serving;
using Whimbrel.Testing;

namespace Whimbrel.Http.Tests.Files;

// Handlers that set the validators (ETag, Last-Modified) of their response.
public sealed class VersionTests
{
    private const string Body = "0123456789";

    private static Web NewWeb()
    {
        Web web = new();
        web.Server.Get("/bytes", static (_, response) =>
        {
            if (response.MeetsConditions("\"v1\"", DateTimeOffset.FromUnixTimeSeconds(784111777)))
                response.Bytes(Encoding.ASCII.GetBytes(Body), "text/plain"u8);
        });
        web.Server.Get("/pieces", static async (_, response, stop) =>
        {
            if (!response.MeetsConditions("\"v1\"")) return;
            response.BodyLength = Body.Length;
            foreach (char c in Body) await response.WriteAsync(new[] { (byte)c }, stop);
        });
        web.Server.Get("/chunks", static async (_, response, stop) =>
        {
            if (response.MeetsConditions("W/\"v1\"")) await response.WriteAsync(Encoding.ASCII.GetBytes(Body), stop);
        });
        web.Server.Get("/plain", static (_, response) => response.Text(Body));
        web.Server.Map(HttpVerb.Put, "/bytes", static (_, response) =>
        {
            if (response.MeetsConditions("\"v1\"")) response.Empty(204);
        });
        return web;
    }

    [Theory]
    [InlineData("/bytes", "", "200 0123456789")]
    [InlineData("/bytes", "If-None-Match: \"v1\"", "304 ")]
    [InlineData("/bytes", "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT", "304 ")]
    [InlineData("/bytes", "If-Match: \"v2\"", "412 412 Precondition Failed\r\n")]
    [InlineData("/bytes", "Range: bytes=2-4", "206 234")]
    [InlineData("/bytes", "Range: bytes=-2", "206 89")]
    [InlineData("/bytes", "Range: bytes=10-", "416 416 Range Not Satisfiable\r\n")]
    [InlineData("/bytes", "Range: bytes=2-4|If-Range: \"v1\"", "206 234")]
    [InlineData("/bytes", "Range: bytes=2-4|If-Range: \"v2\"", "200 0123456789")]
    [InlineData("/bytes", "Range: bytes=2-4|If-None-Match: \"v1\"", "304 ")]
    [InlineData("/bytes", "Range: bytes=2-4|Range: bytes=2-4", "200 0123456789")]
    [InlineData("/pieces", "", "200 0123456789")]
    [InlineData("/pieces", "Range: bytes=2-4", "206 234")]
    [InlineData("/pieces", "Range: bytes=0-0", "206 0")]
    [InlineData("/pieces", "Range: bytes=-1", "206 9")]
    [InlineData("/pieces", "Range: bytes=0-", "206 0123456789")]
    [InlineData("/pieces", "Range: bytes=10-", "200 0123456789")] // the response has started: Range is ignored
    [InlineData("/pieces", "Range: bytes=0-0,5-5", "200 0123456789")]
    [InlineData("/pieces", "If-None-Match: *", "304 ")]
    [InlineData("/chunks", "Range: bytes=2-4", "200 0123456789")]
    [InlineData("/chunks", "If-None-Match: \"v1\"", "304 ")]
    [InlineData("/plain", "Range: bytes=2-4", "200 0123456789")]
    [InlineData("/plain", "If-None-Match: *", "200 0123456789")]
    public void An_answer_with_a_version_goes_by_the_conditions(string path, string fields, string expected)
    {
        using Web web = NewWeb();
        TestPeer peer = web.Connect();
        string request = Web.Get(path,
            fields.Length == 0 ? "" : fields.Replace("|", "\r\n", StringComparison.Ordinal) + "\r\n");
        peer.Send(request + request);
        Assert.Equal([expected, expected], Web.Answers(peer));
    }

    [Fact]
    public void Parts_say_where_they_are_and_HEAD_has_none()
    {
        using Web web = NewWeb();
        TestPeer peer = web.Connect();
        foreach (string path in (string[])["/bytes", "/pieces"])
        {
            peer.Send(Web.Get(path, "Range: bytes=2-4\r\n"));
            Answer part = Web.One(peer);
            Assert.Equal(("bytes 2-4/10", "3", "\"v1\"", "bytes"),
                (part["Content-Range"], part["Content-Length"], part["ETag"], part["Accept-Ranges"]));
            peer.Send(Web.Get(path, "Range: bytes=2-4\r\n", "HEAD"));
            Assert.Contains("Content-Length: 10\r\n", peer.ReceiveText(), StringComparison.Ordinal);
        }

        peer.Send(Web.Get("/bytes", "Range: bytes=0-1,8-9\r\n"));
        Answer parts = Web.One(peer);
        Assert.Equal(206, parts.Status);
        string boundary = parts["Content-Type"]["multipart/byteranges; boundary=".Length..];
        Assert.Equal(
            $"\r\n--{boundary}\r\nContent-Type: text/plain\r\nContent-Range: bytes "
            + $"0-1/10\r\n\r\n01\r\n--{boundary}\r\nContent-Type: text/plain\r\nContent-Range: bytes "
            + $"8-9/10\r\n\r\n89\r\n--{boundary}--\r\n",
            parts.Body);
    }

    [Fact]
    public void A_write_with_an_outdated_version_is_refused()
    {
        using Web web = NewWeb();
        TestPeer peer = web.Connect();
        foreach ((string field, int status) in ((string, int)[])[("If-Match: \"v1\"", 204), ("If-Match: \"v0\"", 412),
            ("If-None-Match: *", 412), ("If-None-Match: \"v0\"", 204)])
        {
            peer.Send($"PUT /bytes HTTP/1.1\r\n{Web.Host}{field}\r\nContent-Length: 0\r\n\r\n");
            Assert.Equal(status, Web.One(peer).Status);
        }
    }

    [Theory]
    [InlineData("v1")]
    [InlineData("\"v1")]
    [InlineData("\"v\"1\"")]
    [InlineData("\"v 1\"")]
    [InlineData("w/\"v1\"")]
    [InlineData("\"")]
    [InlineData("\"ä\"")]
    [InlineData("\"v\r\n\"")]
    public void An_invalid_tag_is_refused(string tag)
    {
        using Web web = new();
        Exception? thrown = null;
        web.Server.Get("/",
            (_, response) => { thrown = Record.Exception(() => response.MeetsConditions(tag)); response.Empty(); });
        TestPeer peer = web.Connect();
        peer.Send(Web.Get("/"));
        Assert.IsType<ArgumentException>(thrown);
        Assert.Equal("", Web.One(peer)["ETag"]);
    }
}
