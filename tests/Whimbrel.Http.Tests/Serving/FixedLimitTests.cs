using Whimbrel.Testing;

namespace Whimbrel.Http.Tests.Serving;

// Limits of a server that no option sets, or with their default: at the number, and one past it.
public sealed class FixedLimitTests
{
    private static Answer Ask(Web web, string request)
    {
        TestPeer peer = web.Connect();
        peer.Send(request);
        return Web.One(peer);
    }

    [Fact]
    public void A_body_in_HTTP_1_0_has_a_length_where_the_method_has_a_body()
    {
        using Web web = new();
        foreach (HttpVerb verb in (HttpVerb[])[HttpVerb.Post, HttpVerb.Put, HttpVerb.Patch, HttpVerb.Delete])
            web.Server.Map(verb, "/", static (_, response) => response.Text("ok"));
        foreach (string method in (string[])["POST", "PUT", "PATCH"])
        {
            Assert.Equal(411, Ask(web, $"{method} / HTTP/1.0\r\n\r\n").Status);
            Assert.Equal(200, Ask(web, $"{method} / HTTP/1.0\r\nContent-Length: 0\r\n\r\n").Status);
        }

        Assert.Equal(200, Ask(web, "DELETE / HTTP/1.0\r\n\r\n").Status);
    }

    [Theory]
    [InlineData(1, 256, 200)]
    [InlineData(1, 257, 400)]
    [InlineData(16, 256, 200)]
    [InlineData(17, 241, 400)] // 4,097 bytes in all
    public void Extensions_of_chunks_are_held_to_the_byte_each_and_all(int chunks, int length, int status)
    {
        using Web web = new();
        web.Server.Post("/", static (request, response) => response.Text($"{request.BodyBytes.Length}"));
        string chunk = $"1;{new string('e', length - 1)}\r\nx\r\n";
        string body = string.Concat(Enumerable.Repeat(chunk, chunks));
        const string Head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        TestPeer peer = web.Connect();
        for (int again = 0; again < 2; again++) // the sum begins anew with each body
        {
            peer.Send($"{Head}{body}0\r\n\r\n");
            Assert.Equal(status, Web.One(peer).Status);
            if (status != 200) return;
        }
    }

    [Theory]
    [InlineData(1023, "", "")]
    [InlineData(1024, "gzip", "")]
    [InlineData(1023, "gzip", ", identity;q=0")] // the client does not take it uncompressed
    public void A_body_is_compressed_from_1024_bytes_on(int length, string coding, string more)
    {
        using Web web = new(new HttpOptions { Compression = new HttpCompression() });
        web.Server.Get("/", (_, response) => response.Text(new string('x', length)));
        Answer answer = Ask(web, Web.Get("/", $"Accept-Encoding: gzip{more}\r\n"));
        Assert.Equal((coding, "Accept-Encoding"), (answer["Content-Encoding"], answer["Vary"]));
    }

    private static string Form(int length, string boundary = "b") =>
        Web.Post("/", $"--{boundary}\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n{new string('x', length)}"
            + $"\r\n--{boundary}--\r\n", $"Content-Type: multipart/form-data; boundary={boundary}\r\n");

    private static Web FormSite()
    {
        Web web = new();
        web.Server.Post("/", static async (request, response, stop) =>
        {
            int length = 0;
            await foreach (HttpPart part in request.ReadPartsAsync(stop))
                length += (await part.ReadTextAsync(cancellationToken: stop)).Length;
            response.Text($"{length}");
        });
        return web;
    }

    [Theory]
    [InlineData(64 * 1024, 200)]
    [InlineData(64 * 1024 + 1, 413)]
    public void A_part_of_a_form_is_read_as_text_up_to_64_KiB(int length, int status)
    {
        using Web web = FormSite();
        Answer answer = Ask(web, Form(length));
        Assert.Equal(status, answer.Status);
        if (status == 200) Assert.Equal($"{length}", answer.Body);
    }

    [Theory]
    [InlineData(70, 200)]
    [InlineData(71, 415)]
    public void A_boundary_has_up_to_70_bytes(int length, int status)
    {
        using Web web = FormSite();
        Assert.Equal(status, Ask(web, Form(3, new string('b', length))).Status);
    }

    [Theory]
    [InlineData(256, "v")]
    [InlineData(257, "none")]
    public void A_cookie_is_found_by_a_name_of_up_to_256_bytes_and_by_bytes_of_any_length(int length, string expected)
    {
        using Web web = new();
        string name = new('n', length);
        byte[] bytes = System.Text.Encoding.ASCII.GetBytes(name);
        web.Server.Get("/", (request, response) =>
        {
            Assert.True(request.Cookies.TryGet(bytes, out ReadOnlySpan<byte> value));
            Assert.Equal("v"u8, value);
            response.Text(request.Cookies[name] ?? "none");
        });
        Assert.Equal(expected, Ask(web, Web.Get("/", $"Cookie: {name}=v\r\n")).Body);
    }

    [Fact]
    public void A_pattern_has_up_to_eight_names_with_those_of_its_groups()
    {
        using Web web = new();
        static string Names(int from, int count) =>
            string.Concat(Enumerable.Range(from, count).Select(static i => $"/{{n{i}}}"));
        web.Server.Group(Names(0, 4)).Get(Names(4, 4),
            static (request, response) => response.Text($"{request.Route["n0"]}{request.Route["n7"]}"));
        Assert.Equal("17", Ask(web, Web.Get("/1/2/3/4/5/6/x/7")).Body);
        using Web other = new();
        Assert.Throws<ArgumentException>(() => other.Server.Get(Names(0, 9), static (_, _) => { }));
        Assert.Throws<ArgumentException>(() => other.Server.Group(Names(0, 4)).Get(Names(4, 5), static (_, _) => { }));
    }

    [Fact]
    public void Hosts_that_are_not_in_the_list_get_421()
    {
        using Web web = new(new HttpOptions { Hosts = ["a", "b"] });
        web.Server.Get("/", static (_, response) => response.Text("ok"));
        foreach ((string host, int status) in ((string, int)[])[("a", 200), ("b", 200), ("c", 421), ("ab", 421)])
            Assert.Equal(status, Ask(web, $"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").Status);
    }

    [Fact]
    public void A_server_has_one_error_hook()
    {
        using Web web = new();
        web.Server.OnError(static (_, response, _) => response.Fail(404));
        Assert.Throws<InvalidOperationException>(() => web.Server.OnError(static (_, _, _) => { }));
    }
}
