using System.Text;
using Whimbrel.Testing;

namespace Whimbrel.Http.Tests.Serving;

// Values that route patterns capture from paths, and patterns that can never match.
public sealed class RouteValueTests
{
    private static string Ask(string pattern, string path)
    {
        using Web web = new();
        string name = pattern.Contains('*', StringComparison.Ordinal) ? "rest" : "name";
        web.Server.Get(pattern, (request, response) => response.Bytes(
            Encoding.UTF8.GetBytes($"{request.Route[name]} {Encoding.ASCII.GetString(request.Route.GetBytes(name))}")));
        TestPeer peer = web.Connect();
        peer.Send(Web.Get(path));
        Answer answer = Web.One(peer);
        return answer.Status == 200
            ? Encoding.UTF8.GetString(Encoding.Latin1.GetBytes(answer.Body))
            : $"{answer.Status}";
    }

    [Theory]
    [InlineData("/files/a", "a a")]
    [InlineData("/files/a%20b", "a b a%20b")]
    [InlineData("/files/%C3%A4", "ä %C3%A4")]
    [InlineData("/files/a%2Fb", "a%2Fb a%2Fb")] // one segment, as it was sent: a slash always divides
    [InlineData("/files/a%2fb%41", "a%2fbA a%2fb%41")]
    [InlineData("/files/%252F", "%2F %252F")]
    [InlineData("/files/DOMAIN%5Cbob", "DOMAIN\\bob DOMAIN%5Cbob")]
    [InlineData("/files/...", "... ...")]
    [InlineData("/files/..a", "..a ..a")]
    [InlineData("/files/.hidden", ".hidden .hidden")]
    [InlineData("/files/t:1", "t:1 t:1")]
    [InlineData("/files/..%2Fa", "..%2Fa ..%2Fa")]
    [InlineData("/files/..", "404")]
    [InlineData("/files/.", "404")]
    [InlineData("/files/%2e%2e", "404")]
    [InlineData("/files/%2E.", "404")]
    [InlineData("/files/%2e", "404")]
    [InlineData("/files/..%5Ca", "404")]
    [InlineData("/files/a%5C..%5Cb", "404")]
    [InlineData("/files/%5Ca", "404")]
    [InlineData("/files/", "404")]
    public void A_name_has_one_segment_as_text_or_as_it_was_sent(string path, string expected) =>
        Assert.Equal(expected, Ask("/files/{name}", path));

    [Theory]
    [InlineData("/files/a/b", "a/b a/b")]
    [InlineData("/files/a/", "a/ a/")]
    [InlineData("/files/", " ")]
    [InlineData("/files/a//b", "a//b a//b")]
    [InlineData("/files/a%2Fb/%63", "a%2Fb/c a%2Fb/%63")]
    [InlineData("/files/..", "404")]
    [InlineData("/files/../a", "404")]
    [InlineData("/files/a/../../b", "404")]
    [InlineData("/files/a/%2e%2e/%2E./b", "404")]
    [InlineData("/files/a/.", "404")]
    [InlineData("/files//etc/passwd", "404")]
    [InlineData("/files/%5C%5Chost%5Cshare", "404")]
    [InlineData("/files/a%5C..%5C..%5Cb", "404")]
    public void The_rest_has_any_segments_but_those_that_lead_out_of_a_folder(string path, string expected) =>
        Assert.Equal(expected, Ask("/files/{*rest}", path));

    [Theory]
    [InlineData("/../a")]
    [InlineData("//other.test/%2e%2E/a")]
    [InlineData("/a%5C..")]
    public void As_bytes_each_value_is_there_to_be_passed_on(string path)
    {
        using Web web = new();
        web.Server.Get("/{*rest}", static (request, response) => response.Bytes(request.Route.GetBytes("rest")));
        TestPeer peer = web.Connect();
        peer.Send(Web.Get(path));
        Assert.Equal([$"200 {path[1..]}"], Web.Answers(peer));
    }

    [Fact]
    public void A_value_that_leads_out_of_a_folder_is_the_mistake_of_the_client()
    {
        using Web web = new();
        int told = 0;
        web.Server.OnError((_, _, _) => { told++; });
        web.Server.Get("/{name}",
            static async (request, response) => { await Task.CompletedTask; response.Text(request.Route["name"]); });
        TestPeer peer = web.Connect();
        peer.Send(Web.Get("/%2e%2e"));
        Assert.Equal(404, Web.One(peer).Status);
        Assert.Equal((0, 0L, 1L), (told, web.Counters.HandlerErrors, web.Counters.Refused));
        Assert.Empty(web.Notices);
    }

    [Fact]
    public void No_value_leaves_the_folder_that_it_is_combined_with()
    {
        string root = Path.Combine(Path.GetTempPath(), "root") + Path.DirectorySeparatorChar;
        string[] pieces = ["..", ".", "%2e", "%2E%2e", "/", "%2F", "%5c", "a", "%25", "%2f", "...", "%20", "c:", "%61"];
        int values = 0, refused = 0;
        Random random = new(46);
        for (int i = 0; i < 50_000; i++)
        {
            string sent = string.Concat(Enumerable.Range(0, random.Next(1, 7))
                .Select(_ => pieces[random.Next(pieces.Length)]));
            byte[] bytes = Encoding.ASCII.GetBytes(sent);
            if (!RouteText.StaysInside(bytes))
            {
                refused++;
                continue;
            }

            values++;
            string value = RouteText.TextOf(bytes), path = Path.GetFullPath(Path.Combine(root, value));
            Assert.True((path + Path.DirectorySeparatorChar).StartsWith(root, StringComparison.Ordinal),
                $"{sent} is {value} and leads to {path}");
        }

        Assert.True(values > 1000 && refused > 1000, $"{values} values, {refused} refused");
    }

    [Theory]
    [InlineData("c:", false)]
    [InlineData("C:/x", false)]
    [InlineData("%43%3ax", false)]
    [InlineData("a/..%20/b", false)]
    [InlineData("..%20", false)]
    [InlineData(". .", false)]
    [InlineData("cc:x", true)]
    [InlineData("1:x", true)]
    [InlineData("a b", true)]
    public void On_Windows_neither_a_drive_nor_dots_with_spaces_are_values(string sent, bool isValue)
    {
        Assert.Equal(isValue, RouteText.StaysInside(Encoding.ASCII.GetBytes(sent), isWindows: true));
        Assert.True(RouteText.StaysInside(Encoding.ASCII.GetBytes(sent), isWindows: false));
    }

    [Theory]
    [InlineData("")]
    [InlineData("a")]
    [InlineData("/{}")]
    [InlineData("/{*}")]
    [InlineData("/a{b}")]
    [InlineData("/{a}b")]
    [InlineData("/{*a}/b")]
    [InlineData("/{a}/{a}")]
    [InlineData("/{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}/{i}")]
    [InlineData("/{id:int}")] // as in another library: there are none of these
    [InlineData("/{id?}")]
    [InlineData("/{id=1}")]
    [InlineData("/{**rest}")]
    [InlineData("/:id")]
    [InlineData("/files/*")]
    [InlineData("/search?q={q}")]
    [InlineData("/a#b")]
    [InlineData("/a%20b")] // could never match: paths are compared without percent signs
    [InlineData("/a/../b")]
    [InlineData("/.")]
    public void A_pattern_that_could_match_nothing_or_means_something_elsewhere_throws(string pattern)
    {
        using Web web = new();
        ArgumentException thrown =
            Assert.Throws<ArgumentException>(() => web.Server.Get(pattern, static (_, _) => { }));
        Assert.Contains(pattern, thrown.Message, StringComparison.Ordinal);
        Assert.Throws<ArgumentException>(() => web.Server.Group("/x").Get(pattern, static (_, _) => { }));
    }

    [Fact]
    public void A_pattern_with_the_method_of_another_throws_and_says_which()
    {
        using Web web = new();
        web.Server.Get("/a", static (_, _) => { });
        web.Server.Group("/b").Map("PURGE", "/c", static (_, _) => { });
        Assert.Contains("GET /a",
            Assert.Throws<ArgumentException>(() => web.Server.Get("/a", static (_, _) => { })).Message,
            StringComparison.Ordinal);
        Assert.Contains("PURGE /b/c",
            Assert.Throws<ArgumentException>(() => web.Server.Map("PURGE", "/b/c", static (_, _) => { })).Message,
            StringComparison.Ordinal);
        web.Server.Get("/a/{id}", static (_, _) => { });
        string message = Assert.Throws<ArgumentException>(() =>
            web.Server.Get("/a/{name}", static (_, _) => { })).Message;
        Assert.Contains("GET /a/{id} already, and GET /a/{name} matches the same", message, StringComparison.Ordinal);
    }

    // ------------------------------------------------------------------ bodies

    [Fact]
    public void The_body_in_memory_of_an_awaited_handler_throws_and_names_what_to_await()
    {
        using Web web = new();
        string message = "";
        web.Server.Post("/", async (request, response) =>
        {
            message = Assert.Throws<InvalidOperationException>(() => request.BodyBytes.Length).Message;
            ReadOnlyMemory<byte> body = await request.ReadBodyAsync();
            // The body is available in each form, as in a handler after a filter that has read it.
            ReadOnlyMemory<byte> again = await request.ReadBodyAsync();
            using StreamReader reader = new(request.Body);
            response.Text($"{Encoding.ASCII.GetString(body.Span)} {Encoding.ASCII.GetString(again.Span)} "
                + $"{Encoding.ASCII.GetString(request.BodyBytes)} {await reader.ReadToEndAsync()}");
        });
        web.Server.Get("/", static async (request, response) =>
        {
            await Task.CompletedTask;
            response.Text($"{request.BodyBytes.Length}");
        });
        TestPeer peer = web.Connect();
        peer.Send(Web.Post("/", "body") + Web.Post("/", "more") + Web.Get("/"));
        Assert.Equal(["200 body body body body", "200 more more more more", "200 0"], Web.Answers(peer));
        Assert.Contains("await ReadBodyAsync", message, StringComparison.Ordinal);
    }

    [Fact]
    public void A_body_of_which_a_part_was_read_is_not_given_as_the_whole()
    {
        using Web web = new();
        web.Server.Post("/", static async (request, response) =>
        {
            byte[] first = new byte[2];
            await request.Body.ReadExactlyAsync(first);
            await Assert.ThrowsAsync<InvalidOperationException>(async () => await request.ReadBodyAsync());
            response.Text(Encoding.ASCII.GetString(first));
        });
        TestPeer peer = web.Connect();
        peer.Send(Web.Post("/", "body"));
        Assert.Equal(["200 bo"], Web.Answers(peer));
    }
}
