using System.Text;
using Whimbrel.Testing;

namespace Whimbrel.Http.Tests.Serving;

// A custom session: responses on the loop, later, and from other threads.
public sealed class SessionTests
{
    private sealed class Api : HttpSession
    {
        protected override void OnRequest(HttpRequest request) => Respond(200, "text/plain"u8, "hello"u8);
    }

    private sealed class Late : HttpSession
    {
        internal HttpRequest Request { get; private set; }

        internal HttpResponse Answer { get; private set; }

        protected override HttpBodyMode OnHead(HttpRequest request) =>
            request.Path.SequenceEqual("/skip"u8) ? HttpBodyMode.Skip : HttpBodyMode.Buffer;

        protected override void OnRequest(HttpRequest request) => (Request, Answer) = (request, Response);
    }

    [Fact]
    public void The_answer_may_be_given_in_the_callback()
    {
        using TestPeer peer = TestPeer.Connect(static () => new Api());
        peer.Send(Web.Get("/") + Web.Get("/"));
        Assert.Equal(["200 hello", "200 hello"], Web.Answers(peer));
    }

    [Theory]
    [InlineData("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400")]
    [InlineData("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "400")]
    [InlineData("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n", "413")]
    public void A_request_that_breaks_a_rule_is_the_reason_why_its_connection_ends(string request, string status)
    {
        using TestPeer peer = TestPeer.Connect(static () => new Late());
        peer.Send(request);
        Assert.StartsWith(status, Assert.Single(Web.Answers(peer)), StringComparison.Ordinal);
        peer.Finish();
        CloseReason reason = peer.CloseReason!.Value;
        Assert.Equal((CloseCause.ProtocolError, CloseInitiator.Library, ErrorCategory.Protocol),
            (reason.Cause, reason.Initiator, reason.Error.Category));
        Assert.Equal(status, Assert.IsType<HttpProtocolException>(reason.Exception).Status.ToString(
            System.Globalization.CultureInfo.InvariantCulture));
    }

    [Fact]
    public void The_answer_may_be_given_later_on_any_thread()
    {
        using TestPeer peer = TestPeer.Connect(static () => new Late());
        Late session = (Late)peer.Session;
        peer.Send(Web.Post("/", "abc") + Web.Get("/second"));
        Assert.Equal("abc", Encoding.ASCII.GetString(session.Request.BodyBytes));
        session.Answer.Text("first"); // on this thread, not on the loop
        Assert.Equal(["200 first"], Web.Answers(peer));
        Assert.Equal("/second", Encoding.ASCII.GetString(session.Request.Path));
        peer.OnLoop(() => session.Answer.Text("second"));
        Assert.Equal(["200 second"], Web.Answers(peer));
        peer.Send(Web.Post("/skip", "abc") + Web.Get("/third"));
        Assert.True(session.Request.BodyBytes.IsEmpty);
        session.Answer.Empty(200);
        Assert.Equal(["200 "], Web.Answers(peer));
        Assert.Equal("/third", Encoding.ASCII.GetString(session.Request.Path));
    }

    [Fact]
    public void State_of_a_request_ends_with_its_answer()
    {
        using TestPeer peer = TestPeer.Connect(static () => new Late());
        Late session = (Late)peer.Session;
        peer.Send(Web.Get("/a?b=c", "X-Own: own\r\nAccept: a\r\nAccept: b\r\n"));
        HttpRequest request = session.Request;
        Assert.Equal(("GET", "/a?b=c", "/a", "b=c", "a"), (Encoding.ASCII.GetString(request.Method),
            Encoding.ASCII.GetString(request.Target), Encoding.ASCII.GetString(request.Path),
            Encoding.ASCII.GetString(request.Query), Encoding.ASCII.GetString(request.Authority)));
        Assert.Equal(("own", "a", null),
            (request["x-own"], Encoding.ASCII.GetString(request[HttpField.Accept]), request["X-None"]));
        Assert.Equal((4, "Accept", "b"), (request.FieldCount, Encoding.ASCII.GetString(request.NameAt(3)),
            Encoding.ASCII.GetString(request.ValueAt(3))));
        Assert.Throws<ArgumentOutOfRangeException>(() => request.NameAt(4).Length);
        Assert.False(request.HasBody);
        session.Answer.Text("x");
        peer.Run();
        Assert.Throws<InvalidOperationException>(() => request.Path.Length);
        Assert.Throws<InvalidOperationException>(() => request.Body);
        Assert.Throws<InvalidOperationException>(() => session.Answer.Text("y"));
    }

    [Fact]
    public void A_session_without_an_override_has_nothing()
    {
        using TestPeer peer = TestPeer.Connect(static () => new Bare());
        peer.Send(Web.Get("/"));
        Assert.Equal(404, Web.One(peer).Status);
    }

    private sealed class Bare : HttpSession;

    [Theory]
    [InlineData("http://127.0.0.1:8080", "tcp://127.0.0.1:8080")]
    [InlineData("http://*", "tcp://*:80")]
    [InlineData("https://[::1]", "tls://[::1]:443")]
    [InlineData("https://[::1]:8443/", "tls://[::1]:8443")]
    [InlineData("http://+:80", "tcp://*:80")]
    [InlineData("unix:/tmp/x", "unix:/tmp/x")]
    public void Addresses_are_those_of_the_core(string address, string expected) =>
        Assert.Equal(expected, HttpServer.AddressOf(address));

    [Theory]
    [InlineData("http://127.0.0.1:0")]
    [InlineData("http://+:0")]
    public async Task Options_of_the_core_take_addresses_of_HTTP(string address)
    {
        await using HttpServer server = new(new ServerOptions { Address = address });
        server.Get("/", static (_, response) => response.Text("here"));
        await server.StartAsync(TestContext.Current.CancellationToken);
        using HttpClient client = new();
        Assert.Equal("here",
            await client.GetStringAsync(new Uri($"http://127.0.0.1:{((System.Net.IPEndPoint)server.EndPoint!).Port}/"),
                TestContext.Current.CancellationToken));
    }

    [Theory]
    [InlineData("localhost:8080", "right would be http://localhost:8080")]
    [InlineData("tcp:localhost:8080", "right would be tcp://localhost:8080")]
    [InlineData("https://", "right would be https://host:port")]
    public void An_address_that_cannot_be_read_is_answered_with_the_scheme_that_fits(string address, string hint)
    {
        Assert.Contains(hint, Assert.Throws<ArgumentException>(() => new HttpServer(address)).Message,
            StringComparison.Ordinal);
        Assert.Contains(hint,
            Assert.Throws<ArgumentException>(() => new HttpServer(new ServerOptions { Address = address })).Message,
            StringComparison.Ordinal);
    }

    [Fact]
    public void Text_goes_before_names_names_before_the_rest_and_a_dead_end_is_left_again()
    {
        using Web web = new();
        foreach (string pattern in (string[])["/", "/a", "/a/{x}", "/a/b/c", "/a/{x}/d", "/{*rest}",
            "/a/{x}/{*rest}", "/a/"])
        {
            web.Server.Get(pattern, (request, response) =>
            {
                string x = pattern.Contains("{x}", StringComparison.Ordinal) ? request.Route["x"] : "";
                string rest = pattern.Contains("{*rest}", StringComparison.Ordinal) ? request.Route["rest"] : "";
                response.Text($"{pattern} {x} {rest}".TrimEnd());
            });
        }

        web.Server.Post("/a/b", static (_, response) => response.Text("post"));
        TestPeer peer = web.Connect();
        (string Path, string Expected)[] cases =
        [
            ("/", "/"), ("/a", "/a"), ("/a/", "/a/"), ("/a/b", "/a/{x} b"), ("/a/b/c", "/a/b/c"),
            ("/a/b/d", "/a/{x}/d b"), ("/a/b/e", "/a/{x}/{*rest} b e"),
            ("/a/b/c/d", "/a/{x}/{*rest} b c/d"), ("/x/y/z", "/{*rest}  x/y/z"), ("/%61", "/a"),
            ("/a%2Fb", "/{*rest}  a%2Fb"), ("/a?b", "/a"), ("/a/%7Bx%7D", "/a/{x} {x}"),
        ];
        foreach ((string path, string expected) in cases)
        {
            peer.Send(Web.Get(path));
            Assert.Equal($"200 {expected}", Assert.Single(Web.Answers(peer)));
        }

        Assert.Throws<InvalidOperationException>(() => web.Server.Get("/late", static (_, _) => { }));
    }
}
