using Whimbrel.Http.Tests.Serving;
using Whimbrel.Testing;

namespace Whimbrel.Http.Tests.Site;

public sealed class CorsTests
{
    private const string Ours = "Origin: https://app.example\r\n";
    private const string Preflight = "Access-Control-Request-Method: PUT\r\n";

    private static Web Serve(HttpCors cors)
    {
        Web web = new(new HttpOptions { Cors = cors });
        web.Network.RethrowsExceptions = false;
        web.Server.Get("/", static (_, response) => response.Text("x"));
        web.Server.Get("/bad", static (_, _) => throw new InvalidOperationException("mine"));
        return web;
    }

    private static Answer Ask(Web web, string request)
    {
        TestPeer peer = web.Connect();
        peer.Send(request);
        return Web.One(peer);
    }

    [Fact]
    public void Pages_of_these_origins_may_see_answers_and_others_not()
    {
        using Web web = Serve(new HttpCors("https://app.example", "http://localhost:3000")
        {
            AllowsCredentials = true,
            ExposedFields = ["X-A", "X-B"]
        });
        Answer ours = Ask(web, Web.Get("/", Ours)), other = Ask(web, Web.Get("/", "Origin: https://evil.example\r\n")),
            none = Ask(web, Web.Get("/"));
        Assert.Equal((200, "https://app.example", "true", "X-A, X-B", "Origin"),
            (ours.Status, ours["Access-Control-Allow-Origin"], ours["Access-Control-Allow-Credentials"],
                ours["Access-Control-Expose-Headers"], ours["Vary"]));
        foreach (Answer answer in (Answer[])[other, none])
            Assert.Equal((200, "", "", "", "Origin"), (answer.Status, answer["Access-Control-Allow-Origin"],
                answer["Access-Control-Allow-Credentials"], answer["Access-Control-Expose-Headers"], answer["Vary"]));
        Assert.Equal("http://localhost:3000",
            Ask(web, Web.Get("/", "Origin: http://localhost:3000\r\n"))["Access-Control-Allow-Origin"]);
        foreach (string close in (string[])["https://app.example:443", "https://app.example.evil",
            "http://app.example", "https://App.example", "null", "https://app.example, https://evil"])
            Assert.Equal("", Ask(web, Web.Get("/", $"Origin: {close}\r\n"))["Access-Control-Allow-Origin"]);
        // Errors also carry the field: otherwise a script could not read them.
        Assert.Equal((404, "https://app.example"),
            (Ask(web, Web.Get("/none", Ours)).Status, Ask(web, Web.Get("/none", Ours))["Access-Control-Allow-Origin"]));
        Answer failed = Ask(web, Web.Get("/bad", Ours));
        Assert.Equal((500, "https://app.example"), (failed.Status, failed["Access-Control-Allow-Origin"]));
    }

    [Fact]
    public void A_preflight_request_gets_what_is_allowed()
    {
        using Web web = Serve(new HttpCors("https://app.example"));
        Answer answer = Ask(web, Web.Get("/anything",
            Ours + Preflight + "Access-Control-Request-Headers: x-a, Content-Type\r\n", "OPTIONS"));
        Assert.Equal((204, "https://app.example", "GET, HEAD, POST, PUT, PATCH, DELETE", "x-a, Content-Type", "600"),
            (answer.Status, answer["Access-Control-Allow-Origin"], answer["Access-Control-Allow-Methods"],
                answer["Access-Control-Allow-Headers"], answer["Access-Control-Max-Age"]));
        Answer other = Ask(web, Web.Get("/", "Origin: https://evil.example\r\n" + Preflight, "OPTIONS"));
        Assert.Equal((204, "", ""),
            (other.Status, other["Access-Control-Allow-Origin"], other["Access-Control-Allow-Methods"]));
        Assert.Equal("", Ask(web, Web.Get("/", Ours + Preflight + "Access-Control-Request-Headers: a b\r\n",
            "OPTIONS"))["Access-Control-Allow-Headers"]);
        // Without Access-Control-Request-Method it is an ordinary OPTIONS request.
        Assert.Equal("GET, HEAD, OPTIONS", Ask(web, Web.Get("/", Ours, "OPTIONS"))["Allow"]);
        using Web narrow =
            Serve(new HttpCors("https://app.example") { Methods = ["PUT"], Fields = ["X-A"], MaxAge = TimeSpan.Zero });
        Answer little = Ask(narrow,
            Web.Get("/", Ours + Preflight + "Access-Control-Request-Headers: x-b\r\n", "OPTIONS"));
        Assert.Equal(("PUT", "X-A", "0"), (little["Access-Control-Allow-Methods"],
            little["Access-Control-Allow-Headers"], little["Access-Control-Max-Age"]));
    }

    [Fact]
    public void All_origins_are_allowed_by_a_star_without_credentials()
    {
        using Web web = Serve(new HttpCors("*"));
        Answer answer = Ask(web, Web.Get("/", Ours));
        Assert.Equal(("*", ""), (answer["Access-Control-Allow-Origin"], answer["Vary"]));
        Assert.Equal(("", ""), (Ask(web, Web.Get("/"))["Access-Control-Allow-Origin"], Ask(web, Web.Get("/"))["Vary"]));
    }

    [Fact]
    public void Invalid_or_contradictory_options_are_refused()
    {
        foreach (string origin in (string[])["", "app.example", "https://", "https://app.example/",
            "https://App.example", "https://a b", "https://a\r\n", "null", "https://a,https://b", "://a"])
            Assert.Throws<ArgumentException>(() => new HttpCors(origin));
        Assert.Throws<ArgumentException>(static () => new HttpCors("*", "https://a"));
        foreach (HttpCors cors in (HttpCors[])[new("*") { AllowsCredentials = true },
            new("https://a") { Methods = ["A B"] }, new("https://a") { Fields = ["a\r\n"] },
            new("https://a") { ExposedFields = [""] }, new("https://a") { MaxAge = TimeSpan.FromDays(2) }])
            Assert.Throws<ArgumentException>(() => new HttpServer("http://127.0.0.1:0",
                new HttpOptions { Cors = cors }));
    }
}
