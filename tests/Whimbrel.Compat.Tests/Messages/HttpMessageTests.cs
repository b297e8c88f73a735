using System.Text;
using NetCoreServer;
using Whimbrel.Http;
using Whimbrel.Tests;
using HttpRequest = NetCoreServer.HttpRequest;
using HttpResponse = NetCoreServer.HttpResponse;

namespace Whimbrel.Compat.Tests.Messages;

public sealed class HttpMessageTests
{
    [Fact]
    public void A_request_is_composed_as_its_bytes()
    {
        HttpRequest request = new HttpRequest("PUT", "/api?key=1").SetHeader("X", "y").SetCookie("a", "1")
            .AddCookie("b", "2").SetBody("né");
        Assert.Equal("PUT /api?key=1 HTTP/1.1\r\nX: y\r\nCookie: a=1; b=2\r\nContent-Length: 3\r\n\r\nné",
            request.Cache.ToString());
        Assert.Equal(("PUT", "/api?key=1", "HTTP/1.1"), (request.Method, request.Url, request.Protocol));
        Assert.Equal((3L, ("Cookie", "a=1; b=2"), ("Content-Length", "3"), ("", "")),
            (request.Headers, request.Header(1), request.Header(2), request.Header(3)));
        Assert.Equal((2L, ("a", "1"), ("b", "2"), ("", "")),
            (request.Cookies, request.Cookie(0), request.Cookie(1), request.Cookie(2)));
        Assert.Equal(("né", 3L, 3), (request.Body, request.BodyLength, request.BodyBytes.Length));
        Assert.False(request.IsEmpty || request.IsErrorSet);
        Assert.True(request.Clear().IsEmpty);
    }

    [Fact]
    public void Parts_may_come_in_any_order_and_a_body_twice()
    {
        HttpRequest request = new HttpRequest("GET", "/").SetBody("abc").SetHeader("X", "1").SetBody()
            .SetCookie("a", "1").SetBody("hi"u8).AddCookie("b", "2").SetHeader("Y", "2");
        Assert.Equal("GET / HTTP/1.1\r\nX: 1\r\nCookie: a=1; b=2\r\nY: 2\r\nContent-Length: 2\r\n\r\nhi",
            request.Cache.ToString());
        Assert.Equal(("hi", ("Content-Length", "2")), (request.Body, request.Header(3)));
        request.SetBodyLength(9);
        Assert.Equal((9L, "", "9"), (request.BodyLength, request.Body, request.Header(3).Item2));
        Assert.EndsWith("Content-Length: 9\r\n\r\n", request.Cache.ToString(), StringComparison.Ordinal);
        request.SetHeader("Content-Length", "7").SetHeader("transfer-encoding", "chunked").SetBody("x");
        Assert.EndsWith("Y: 2\r\nContent-Length: 1\r\n\r\nx", request.Cache.ToString(), StringComparison.Ordinal);
    }

    [Fact] // framing fields of the caller, in each number and order, and a cookie after the cookies were read
    public void A_body_replaces_all_framing_fields_and_each_read_sees_all_cookies()
    {
        foreach (string[] own in (string[][])[["Content-Length"], ["Transfer-Encoding"],
            ["Content-Length", "Transfer-Encoding"], ["transfer-encoding", "CONTENT-LENGTH"],
            ["Transfer-Encoding", "X-Between", "Content-Length"]])
        {
            HttpRequest request = new("POST", "/");
            foreach (string name in own) request.SetHeader(name, "7");
            string between = own.Contains("X-Between") ? "X-Between: 7\r\n" : "";
            Assert.Equal($"POST / HTTP/1.1\r\n{between}Content-Length: 1\r\n\r\nx",
                request.SetBody("x").Cache.ToString());
        }

        HttpRequest cookies = new HttpRequest("GET", "/").SetCookie("a", "1");
        for (int i = 1; i <= 3; i++)
        {
            Assert.Equal((i, ("", "")), ((int)cookies.Cookies, cookies.Cookie(i)));
            cookies.AddCookie($"b{i}", "2");
            Assert.Equal(($"b{i}", "2"), cookies.Cookie(i));
        }
    }

    [Fact] // a program may look at the request between two of them
    public void A_received_request_has_its_own_cookies()
    {
        HttpRequest request = new();
        foreach (string cookie in (string[])["a", "b"])
        {
            HttpMessageReader reader = new(new HttpOptions());
            reader.Read(Encoding.ASCII.GetBytes($"GET / HTTP/1.1\r\nHost: h\r\nCookie: {cookie}=1\r\n\r\n"), out _,
                out _);
            request.Take(reader);
            Assert.Equal((1L, (cookie, "1")), (request.Cookies, request.Cookie(0)));
        }
    }

    [Fact]
    public void Every_made_message_is_what_a_strict_reader_reads()
    {
        byte[] bytes = "né"u8.ToArray();
        HttpRequest r = new();
        Check(() => r.MakeHeadRequest("/h"), "HEAD /h", "", null);
        Check(() => r.MakeGetRequest("/g"), "GET /g", "", null);
        Check(() => r.MakePostRequest("/p", "né"), "POST /p", "né", "text/plain; charset=UTF-8");
        Check(() => r.MakePostRequest("/p", "né".AsSpan(), "a/b"), "POST /p", "né", "a/b");
        Check(() => r.MakePostRequest("/p", bytes), "POST /p", "né", null);
        Check(() => r.MakePostRequest("/p", bytes.AsSpan(), "a/b"), "POST /p", "né", "a/b");
        Check(() => r.MakePutRequest("/p", "né"), "PUT /p", "né", "text/plain; charset=UTF-8");
        Check(() => r.MakePutRequest("/p", "né".AsSpan()), "PUT /p", "né", "text/plain; charset=UTF-8");
        Check(() => r.MakePutRequest("/p", bytes), "PUT /p", "né", null);
        Check(() => r.MakePutRequest("/p", bytes.AsSpan()), "PUT /p", "né", null);
        Check(() => r.MakeDeleteRequest("/d"), "DELETE /d", "", null);
        Check(() => r.MakeOptionsRequest("*"), "OPTIONS *", "", null);
        Check(() => r.MakeTraceRequest("/t"), "TRACE /t", "", null);

        HttpResponse a = new();
        Judge(() => a.MakeOkResponse(), "200 OK", "", null);
        Judge(() => a.MakeOkResponse(201), "201 Created", "", null);
        Judge(() => a.MakeOkResponse(204), "204 No Content", "", null);
        Judge(() => a.MakeErrorResponse(), "500 Internal Server Error", "", "text/plain; charset=UTF-8");
        Judge(() => a.MakeErrorResponse("x", ""), "500 Internal Server Error", "x", null);
        Judge(() => a.MakeErrorResponse(404, "x"), "404 Not Found", "x", "text/plain; charset=UTF-8");
        Judge(() => a.MakeHeadResponse(), "200 OK", "", null);
        Judge(() => a.MakeGetResponse(), "200 OK", "", "text/plain; charset=UTF-8");
        Judge(() => a.MakeGetResponse("né", "a/b"), "200 OK", "né", "a/b");
        Judge(() => a.MakeGetResponse("né".AsSpan()), "200 OK", "né", "text/plain; charset=UTF-8");
        Judge(() => a.MakeGetResponse(bytes), "200 OK", "né", null);
        Judge(() => a.MakeGetResponse(bytes.AsSpan()), "200 OK", "né", null);
        Judge(() => a.MakeOptionsResponse(), "200 OK", "", null);
        Assert.Equal(("Allow", "HEAD,GET,POST,PUT,DELETE,OPTIONS,TRACE"), a.Header(0));
        Judge(() => a.MakeTraceResponse("né"), "200 OK", "né", "message/http");
        Judge(() => a.MakeTraceResponse("né".AsSpan()), "200 OK", "né", "message/http");
        Judge(() => a.MakeTraceResponse(bytes), "200 OK", "né", "message/http");
        Judge(() => a.MakeTraceResponse(bytes.AsSpan()), "200 OK", "né", "message/http");
        Judge(() => a.MakeTraceResponse(r.MakeGetRequest("/x")), "200 OK",
            "GET /x HTTP/1.1\r\nContent-Length: 0\r\n\r\n", "message/http");

        static void Check(Func<HttpRequest> make, string line, string body, string? type)
        {
            HttpRequest request = make();
            request.Message.AddFirst("Host", "h");
            Assert.Equal(("Host", "h"), request.Header(0));
            (string, string, string?) read = Read(new HttpMessageReader(new HttpOptions()), request.Cache.AsSpan(),
                static r => $"{Latin(r.Method)} {Latin(r.Target)}");
            Assert.Equal((line, body, type), read);
            Assert.Equal((line, body), ($"{request.Method} {request.Url}", request.Body));
        }

        static void Judge(Func<HttpResponse> make, string line, string body, string? type)
        {
            HttpMessageReader reader = new(new HttpClientOptions());
            reader.ExpectAnswer(toHead: false);
            HttpResponse response = make();
            Assert.Equal((line, body, type),
                Read(reader, response.Cache.AsSpan(), static r => $"{r.Status} {Latin(r.Reason)}"));
            Assert.Equal((line, body, "HTTP/1.1"),
                ($"{response.Status} {response.StatusPhrase}", response.Body, response.Protocol));
        }
    }

    // H5: builders wrote values without checking them.
    [Theory]
    [InlineData("X\r\nEvil", "1")]
    [InlineData("X", "1\r\nEvil: 1")]
    [InlineData("X", "1\nEvil: 1")]
    [InlineData("X", "1\0")]
    [InlineData("X Y", "1")]
    [InlineData("", "1")]
    [InlineData("é", "1")]
    [InlineData("X:", "1")]
    public void A_field_that_would_be_read_as_another_is_refused(string name, string value)
    {
        Assert.ThrowsAny<ArgumentException>(() => new HttpRequest("GET", "/").SetHeader(name, value));
        Assert.ThrowsAny<ArgumentException>(() => new HttpResponse(200).SetHeader(name, value));
    }

    [Fact]
    public void Start_lines_cookies_and_bodies_that_would_be_read_otherwise_are_refused_or_encoded()
    {
        Assert.Equal("GET /%20HTTP/1.1%0D%0AEvil:%201%0D%0A HTTP/1.1\r\n",
            new HttpRequest("GET", "/ HTTP/1.1\r\nEvil: 1\r\n").Cache.ToString());
        Assert.Equal("a%3Db=1%3B Domain=evil; Max-Age=1; Path=/%3B Secure", new HttpResponse(200).SetCookie("a=b",
            "1; Domain=evil", 1, "/; Secure", secure: false, strict: false, httpOnly: false).Header(0).Item2);
        Assert.ThrowsAny<ArgumentException>(() => new HttpRequest("GE T", "/"));
        Assert.ThrowsAny<ArgumentException>(() => new HttpRequest("", "/"));
        Assert.ThrowsAny<ArgumentException>(() => new HttpRequest("GET", "/", "HTTP/1.1\r\nEvil: 1"));
        Assert.ThrowsAny<ArgumentException>(() => new HttpResponse(200, "OK\r\nEvil: 1", "HTTP/1.1"));
        Assert.ThrowsAny<ArgumentException>(() => new HttpResponse(42));
        Assert.ThrowsAny<ArgumentException>(() => new HttpRequest("GET", "/").SetCookie("a", "1\r\n"));
        Assert.ThrowsAny<ArgumentException>(() => new HttpRequest("GET", "/").SetBodyLength(-1));
        Assert.ThrowsAny<ArgumentException>(() => new HttpResponse(204).SetBodyLength(1));
    }

    [Fact]
    public void A_cookie_of_a_response_has_its_attributes()
    {
        Assert.Equal(("Set-Cookie", "a=1; Max-Age=86400; Secure; SameSite=Strict; HttpOnly"),
            new HttpResponse(200).SetCookie("a", "1").Header(0));
        Assert.Equal(("Set-Cookie", "a=1; Max-Age=5; Domain=d; Path=/p"), new HttpResponse(200)
            .SetCookie("a", "1", 5, "/p", "d", secure: false, strict: false, httpOnly: false).Header(0));
        Assert.Equal(("Content-Type", "text/html; charset=utf-8"),
            new HttpResponse(200).SetContentType(".html").Header(0));
    }

    [Fact]
    public void The_text_for_logs_has_its_old_shape()
    {
        Assert.Equal(Lines("Request method: POST", "Request URL: /u", "Request protocol: HTTP/1.1",
            "Request headers: 2", "Content-Type : a/b", "Content-Length : 2", "Request body: 2", "hi"),
            new HttpRequest().MakePostRequest("/u", "hi", "a/b").ToString());
        Assert.Equal(Lines("Status: 404", "Status phrase: Not Found", "Protocol: HTTP/1.1", "Headers: 1",
            "Content-Length : 2", "Body: 2", "hi"), new HttpResponse(404).SetBody("hi").ToString());

        static string Lines(params string[] lines) => string.Concat(lines.Select(static l => l + Environment.NewLine));
    }

    // H9: IsEmpty of a response was inverted.
    [Fact]
    public void A_response_is_empty_until_something_is_in_it()
    {
        HttpResponse response = new();
        Assert.True(response.IsEmpty);
        Assert.False(response.MakeOkResponse().IsEmpty);
        Assert.True(response.Clear().IsEmpty);
    }

    [Fact]
    public void Composing_the_same_again_makes_no_new_arrays()
    {
        HttpResponse response = new();
        byte[] body = new byte[100_000];
        response.MakeGetResponse(body);
        // Code that is not fully optimized yet may box a number, which is not an array.
        Assert.InRange(Allocated.By(() =>
        {
            for (int i = 0; i < 1000; i++) response.MakeGetResponse(body);
        }), 0, 1_000_000);
    }

    private static (string Line, string Body, string? Type) Read(HttpMessageReader reader, ReadOnlySpan<byte> bytes,
        Func<HttpMessageReader, string> line)
    {
        StringBuilder body = new();
        string first = "";
        string? type = null;
        int at = 0;
        while (true)
        {
            HttpMessagePart part = reader.Read(bytes[at..], out int taken, out ReadOnlySpan<byte> piece);
            at += taken;
            body.Append(Encoding.UTF8.GetString(piece));
            if (part == HttpMessagePart.Head)
            {
                first = line(reader);
                if (reader.TryGet(HttpField.ContentType, out ReadOnlySpan<byte> value)) type = Latin(value);
            }

            Assert.True(part is HttpMessagePart.Head or HttpMessagePart.Data or HttpMessagePart.Done,
                $"{part}: {reader.Failure?.Message}");
            if (part != HttpMessagePart.Done) continue;
            Assert.Equal(bytes.Length, at);
            return (first, body.ToString(), type);
        }
    }

    private static string Latin(ReadOnlySpan<byte> bytes) => Encoding.Latin1.GetString(bytes);
}
