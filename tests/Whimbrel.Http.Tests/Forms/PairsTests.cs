using System.Globalization;
using System.Text;
using Whimbrel.Http.Tests.Serving;
using Whimbrel.Testing;
using Whimbrel.Tests;

namespace Whimbrel.Http.Tests.Forms;

// Queries and forms: names, values, and what stands for what.
public sealed class PairsTests
{
    private static List<(string Name, string Value)> Read(string text)
    {
        List<(string, string)> all = [];
        foreach (HttpPair pair in new HttpPairs(Encoding.Latin1.GetBytes(text)))
            all.Add((pair.NameText, pair.ValueText));
        return all;
    }

    [Theory]
    [InlineData("", "")]
    [InlineData("a=b", "a=b")]
    [InlineData("a", "a=")]
    [InlineData("=", "=")]
    [InlineData("=a", "=a")]
    [InlineData("a=b=c", "a=b=c")]
    [InlineData("&&a=1&&b=2&", "a=1|b=2")]
    [InlineData("a=1&a=2", "a=1|a=2")]
    [InlineData("a+b=c+d", "a b=c d")]
    [InlineData("a%20b=%C3%A4", "a b=\u00e4")]
    [InlineData("a=%26%3D%2B", "a=&=+")]
    [InlineData("a=100%", "a=100%")]
    [InlineData("a=%4", "a=%4")]
    [InlineData("a=%zz%4g%41", "a=%zz%4gA")]
    [InlineData("a=%FF", "a=\ufffd")]
    [InlineData("a=%00", "a=\0")]
    [InlineData("a=b;c=d", "a=b;c=d")]
    public void Names_and_values_are_what_was_meant(string text, string expected) =>
        Assert.Equal(expected, string.Join('|', Read(text).Select(static p => $"{p.Name}={p.Value}")));

    [Fact]
    public void They_agree_with_a_plain_reader_about_every_text()
    {
        const string Letters = "ab%&=+4zF 20\u00e4;";
        foreach (int seed in Seeds.Some(2))
        {
            Random random = new(seed);
            for (int run = 0; run < 20_000; run++)
            {
                string text = string.Concat(Enumerable.Range(0, random.Next(20))
                    .Select(_ => Letters[random.Next(Letters.Length)]));
                List<(string Name, string Value)> expected = [.. text.Split('&', StringSplitOptions.RemoveEmptyEntries)
                    .Select(static p => p.Split('=', 2))
                    .Select(static p => (Plain(p[0]), p.Length == 1 ? "" : Plain(p[1])))];
                Assert.True(expected.SequenceEqual(Read(text)), $"seed {seed}, run {run}: {text}");
                HttpPairs pairs = new(Encoding.Latin1.GetBytes(text));
                foreach ((string name, _) in expected)
                {
                    // Bytes that are no UTF-8 have no name that could be asked for.
                    if (!name.Contains('\ufffd', StringComparison.Ordinal))
                        Assert.Equal(expected.First(p => p.Name == name).Value, pairs[name]);
                }

                Assert.Null(pairs["none"]);
            }
        }
    }

    private static string Plain(string text)
    {
        List<byte> bytes = [];
        for (int i = 0; i < text.Length; i++)
        {
            if (text[i] == '+') bytes.Add((byte)' ');
            else if (text[i] == '%' && i + 2 < text.Length && char.IsAsciiHexDigit(text[i + 1])
                && char.IsAsciiHexDigit(text[i + 2]))
            {
                bytes.Add(byte.Parse(text.AsSpan(i + 1, 2), NumberStyles.AllowHexSpecifier,
                    CultureInfo.InvariantCulture));
                i += 2;
            }
            else
            {
                bytes.Add((byte)text[i]);
            }
        }

        return Encoding.UTF8.GetString([.. bytes]);
    }

    [Fact]
    public void A_handler_asks_for_what_it_wants_of_query_and_form()
    {
        using Web web = new();
        web.Server.Get("/q", static (request, response) =>
            response.Text($"{request.Query["a b"]} {request.Query["none"] ?? "null"} {request.Query}"));
        web.Server.Post("/kept",
            static (request, response) => response.Text($"{request.Form["a b"]} {request.Query["q"]}"));
        web.Server.Post("/read", static async (request, response, stop) =>
        {
            HttpPairs form = await request.ReadFormAsync(stop);
            response.Text("first");
            Assert.Equal("c d", form["a b"]); // a copy, still valid after the response
        });
        TestPeer peer = web.Connect();
        peer.Send(Web.Get("/q?x=1&a+b=%2Fc&a%20b=d") + Web.Get("/q"));
        Assert.Equal(["200 /c null x=1&a+b=%2Fc&a%20b=d", "200  null "], Web.Answers(peer));
        const string Type = "Content-Type: Application/x-www-form-urlencoded; charset=utf-8\r\n";
        peer.SplitEveryByte = true;
        peer.Send(Web.Post("/kept?q=1", "a+b=c+d", Type) + Web.Post("/read", "a+b=c+d", Type) + Web.Post("/kept", ""));
        Assert.Equal(["200 c d 1", "200 first", "200  "], Web.Answers(peer));
    }

    [Theory]
    [InlineData("/kept")]
    [InlineData("/read")]
    public void An_invalid_form_or_one_with_too_many_fields_is_refused(string path)
    {
        using Web web = new(new HttpOptions { FormFieldLimit = 3 });
        web.Server.Post("/kept", static (request, response) => response.Text($"{request.Form["a"]}"));
        web.Server.Post("/read",
            static async (request, response, stop) => response.Text($"{(await request.ReadFormAsync(stop))["a"]}"));
        const string Type = "Content-Type: application/x-www-form-urlencoded\r\n";
        foreach ((string body, string type, int status) in ((string, string, int)[])[("a=1&b=2&c=3", Type, 200),
            ("a=1&b=2&c=3&d=4", Type, 413), ("a=1", "Content-Type: text/plain\r\n", 415), ("a=1", "", 415)])
        {
            TestPeer peer = web.Connect();
            peer.Send(Web.Post(path, body, type));
            Assert.Equal(status, Web.One(peer).Status);
            Assert.Equal(status == 200, peer.IsConnected);
        }

        Assert.Equal((2L, 1L, 0L), (web.Counters.Refused, web.Counters.TooLarge, web.Counters.HandlerErrors));
    }

    [Fact]
    public void A_body_that_is_too_large_for_memory_is_counted()
    {
        using Web web = new(new HttpOptions { BufferedBodyLimitBytes = 10 });
        web.Server.Post("/",
            static async (request, response, stop) => response.Text($"{(await request.ReadBodyAsync(stop)).Length}"));
        foreach ((string request, int status) in ((string, int)[])[(Web.Post("/", "0123456789"), 200),
            (Web.Post("/", "0123456789a"), 413),
            ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n0123456789a\r\n0\r\n\r\n", 413)])
        {
            TestPeer peer = web.Connect();
            peer.Send(request);
            Assert.Equal(status, Web.One(peer).Status);
        }

        Assert.Equal(2, web.Counters.TooLarge);
    }
}
