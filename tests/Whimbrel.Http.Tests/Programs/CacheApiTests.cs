using System.Net;
using System.Text.Json;
using Whimbrel.Examples;
using Whimbrel.Http.Tests.Serving;
using Whimbrel.Testing;

namespace Whimbrel.Http.Tests.Programs;

// The example has every operation of its OpenAPI description, and its page shows them.
public sealed class CacheApiTests
{
    [Fact]
    public void Texts_are_kept_given_and_forgotten()
    {
        using Web web = new();
        new CacheApi().Map(web.Server);
        TestPeer peer = web.Connect();
        string put = Web.Post("/api/cache?key=a+b", "text").Replace("POST", "PUT", StringComparison.Ordinal);
        peer.Send(put + put + Web.Get("/api/cache?key=a%20b") + Web.Get("/api/cache") + Web.Get("/api/cache?key=a+b",
            verb: "DELETE") + Web.Get("/api/cache?key=a+b") + Web.Get("/api/cache?key=a+b", verb: "DELETE"));
        peer.Send(put.Replace("?key=a+b", "", StringComparison.Ordinal));
        List<Answer> answers = Web.Read(peer);
        Assert.Equal([201, 204, 200, 200, 204, 404, 404, 400], answers.Select(static a => a.Status));
        Assert.Equal(("text", """{"a b":"text"}"""), (answers[2].Body, answers[3].Body));
    }

    [Fact]
    public void The_description_names_what_there_is()
    {
        using Web web = new();
        new CacheApi().Map(web.Server);
        CacheApi.MapPage(web.Server);
        TestPeer peer = web.Connect();
        peer.Send(Web.Get("/openapi.json"));
        using JsonDocument description = JsonDocument.Parse(Web.One(peer).Body);
        JsonProperty path = Assert.Single(description.RootElement.GetProperty("paths").EnumerateObject());
        peer.Send(Web.Get(path.Name, verb: "OPTIONS"));
        Assert.Equal(["DELETE", "GET", "HEAD", "OPTIONS", "PUT"], Web.One(peer)["Allow"].Split(", ").Order());
        Assert.Equal(["delete", "get", "put"], path.Value.EnumerateObject().Select(static p => p.Name).Order());
    }

    [Fact]
    public async Task A_browser_sees_the_page()
    {
        string chromium = RealProgram.Find("chromium"),
            profile = Directory.CreateTempSubdirectory("whimbrel-http-").FullName;
        await using HttpServer web = new("http://127.0.0.1:0");
        new CacheApi().Map(web);
        CacheApi.MapPage(web);
        await web.StartAsync();
        try
        {
            string page = await RealProgram.RunAsync(chromium, "--headless", "--no-sandbox", "--disable-gpu",
                "--disable-dev-shm-usage", "--no-proxy-server", "--virtual-time-budget=10000",
                $"--user-data-dir={profile}", "--dump-dom", $"http://127.0.0.1:{((IPEndPoint)web.EndPoint!).Port}/");
            // The page that swagger-ui rendered from the description.
            foreach (string operation in (string[])["The text of a key, or all of them",
                "Keeps a text", "Forgets a key"])
                Assert.Contains(operation, page, StringComparison.Ordinal);
            Assert.Contains("opblock-delete", page, StringComparison.Ordinal);
        }
        finally
        {
            Directory.Delete(profile, recursive: true);
        }
    }
}
