using System.Text;
using Whimbrel.Http.Tests.Serving;
using Whimbrel.Testing;

namespace Whimbrel.Http.Tests.Site;

public sealed class CookieTests
{
    [Theory]
    [InlineData("Cookie: a=b\r\n", "b")]
    [InlineData("Cookie: x=y; a=b; a=c\r\n", "b")]
    [InlineData("Cookie: x=y;a=b\r\n", "b")]
    [InlineData("cookie:  a = b  ;x=y\r\n", "b")]
    [InlineData("Cookie: a=\r\n", "")]
    [InlineData("Cookie: a=\"b c\"\r\n", "\"b c\"")]
    [InlineData("Cookie: a=b=c==\r\n", "b=c==")]
    [InlineData("Cookie: x=y\r\nX: a=z\r\nCookie: a=b\r\n", "b")]
    [InlineData("Cookie: ;;=;a;a=b;\r\n", "b")]
    [InlineData("Cookie: A=b; aa=c; a\r\n", null)]
    [InlineData("Cookie:\r\n", null)]
    [InlineData("Cookie: x=a=b\r\n", null)]
    [InlineData("", null)]
    public void The_first_one_with_the_name_is_found(string fields, string? expected)
    {
        using Web web = new();
        web.Server.Get("/",
            static (request, response) => response.Text(request.Cookies["a"] is { } value ? $"<{value}>" : "none"));
        TestPeer peer = web.Connect();
        peer.Send(Web.Get("/", fields));
        Assert.Equal(expected is null ? "none" : $"<{expected}>", Web.One(peer).Body);
    }

    public static TheoryData<HttpCookie, string> Good() => new()
    {
        { new("a", "b"), "a=b; Path=/; HttpOnly; SameSite=Lax" },
        { new("a", ""), "a=; Path=/; HttpOnly; SameSite=Lax" },
        { new("a", "!#$%&'()*+-./:<=>?@[]^_`{|}~")
        {
            IsHttpOnly = false,
            SameSite = HttpSameSite.Strict,
            Path = "/x y".Replace(' ', '_')
        }, "a=!#$%&'()*+-./:<=>?@[]^_`{|}~; Path=/x_y; SameSite=Strict" },
        { new("a", "b")
        {
            Expires = new DateTimeOffset(2026, 11, 23, 1, 2, 3, TimeSpan.FromHours(1)),
            MaxAge = TimeSpan.FromMinutes(1.5),
            Domain = "example.org"
        }, "a=b; Expires=Mon, 23 Nov 2026 00:02:03 GMT; Max-Age=90; Domain=example.org; Path=/; HttpOnly; "
            + "SameSite=Lax" },
        { new("a", "b") { MaxAge = TimeSpan.FromDays(-1) }, "a=b; Max-Age=0; Path=/; HttpOnly; SameSite=Lax" },
        { new("__Host-a", "b") { IsSecure = true, SameSite = HttpSameSite.None, IsPartitioned = true },
            "__Host-a=b; Path=/; Secure; HttpOnly; SameSite=None; Partitioned" },
        { new("__Secure-a", "b") { IsSecure = true, Domain = "a.b", Path = "/x" },
            "__Secure-a=b; Domain=a.b; Path=/x; Secure; HttpOnly; SameSite=Lax" },
        { new("a", new string('b', 4095)), $"a={new string('b', 4095)}; Path=/; HttpOnly; SameSite=Lax" },
        { new("a", "b") { Path = "/" + new string('x', 1023) },
            $"a=b; Path=/{new string('x', 1023)}; HttpOnly; SameSite=Lax" },
        { new("a", "b") { Domain = new string('x', 1024) },
            $"a=b; Domain={new string('x', 1024)}; Path=/; HttpOnly; SameSite=Lax" },
    };

    [Theory, MemberData(nameof(Good))]
    public void A_cookie_contains_all_attributes(HttpCookie cookie, string expected)
    {
        using Web web = new();
        web.Server.Get("/", (_, response) =>
        {
            response.SetCookie(cookie);
            response.Text("x");
        });
        TestPeer peer = web.Connect();
        peer.Send(Web.Get("/"));
        Assert.Equal(expected, Web.One(peer)["Set-Cookie"]);
    }

    private static readonly HttpCookie[] _bad =
    [
        new("", "b"), new("a b", "c"), new("a=b", "c"), new("a;b", "c"), new("\u00e4", "c"),
        new("a\r\nSet-Cookie", "c"),
        new("a", "b c"), new("a", "b;c"), new("a", "b,c"), new("a", "b\"c"), new("a", "b\\c"), new("a", "b\r\nX: y"),
        new("a", "\u00e4"), new("a", "b\0"), new("a", "b\x7F"), new("a", new string('b', 4096)),
        new("a", "b") { Path = "" }, new("a", "b") { Path = "x" }, new("a", "b") { Path = "/;Domain=evil" },
        new("a", "b") { Path = "/\r\n" }, new("a", "b") { Path = "/" + new string('x', 1024) },
        new("a", "b") { Domain = "" }, new("a", "b") { Domain = "a b" }, new("a", "b") { Domain = "a;Path=/" },
        new("a", "b") { Domain = new string('x', 1025) },
        new("a", "b") { Domain = "a:80" }, new("a", "b") { Domain = "a\r\n" },
        new("a", "b") { SameSite = HttpSameSite.None }, new("a", "b") { IsPartitioned = true },
        new("a", "b") { SameSite = (HttpSameSite)7 },
        new("__Secure-a", "b"), new("__secure-a", "b"), new("__Host-a", "b"),
        new("__Host-a", "b") { IsSecure = true, Path = "/x" }, new("__HOST-a", "b") { IsSecure = true, Domain = "a" },
    ];

    [Fact]
    public void A_cookie_that_no_browser_keeps_or_that_splits_the_field_is_refused()
    {
        using Web web = new();
        List<string> taken = [];
        web.Server.Get("/", (_, response) =>
        {
            foreach (HttpCookie cookie in _bad)
            {
                try
                {
                    response.SetCookie(cookie);
                    taken.Add($"{cookie.Name}={cookie.Value}");
                }
                catch (InvalidOperationException e)
                    when (e.Message.StartsWith("The cookie cannot be set: ", StringComparison.Ordinal))
                {
                    // The correct order.
                }
            }

            response.Text("x");
        });
        TestPeer peer = web.Connect();
        peer.Send(Web.Get("/"));
        Assert.Equal("", Web.One(peer)["Set-Cookie"]);
        Assert.Empty(taken);
    }
}
