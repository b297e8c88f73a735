using System.Text;
using NetCoreServer;

namespace Whimbrel.Compat.Tests.Differences;

/// <summary>Bytes of the HTTP builders, with | for the end of a line.</summary>
internal static class Builders
{
    private static readonly string[] s_endings = [".html", ".css", ".js", ".xml", ".png", ".txt", ".nothing"];
    private static readonly int[] s_statuses = [100, 201, 302, 404, 418, 451, 500, 505, 599, 777];

    internal static IEnumerable<Behaviour> All =>
    [
        new(
            "Requests: HEAD, GET, DELETE, OPTIONS, TRACE",
            static () => Seen.Lines(
                static () => Of(static r => r.MakeHeadRequest("/a")),
                static () => Of(static r => r.MakeGetRequest("/a?b=c")),
                static () => Of(static r => r.MakeDeleteRequest("/a")),
                static () => Of(static r => r.MakeOptionsRequest("/a")) + Of(static r => r.MakeTraceRequest("/a"))),
            "HEAD /a HTTP/1.1|Content-Length: 0|| ~ GET /a?b=c HTTP/1.1|Content-Length: 0|| ~ DELETE /a "
            + "HTTP/1.1|Content-Length: 0|| ~ OPTIONS /a HTTP/1.1|Content-Length: 0||TRACE /a "
            + "HTTP/1.1|Content-Length: 0||"),
        new(
            "Requests: POST and PUT, a protocol of its own, a length alone",
            static () => Seen.Lines(
                static () => Of(static r => r.MakePostRequest("/a", "text")),
                static () => Of(static r => r.MakePostRequest("/a", "text"u8.ToArray())),
                static () => Of(static r => r.MakePutRequest("/a", "")),
                static () => Of(static r => r.SetBegin("GET", "/", "HTTP/1.0").SetBody("x")),
                static () => Of(static r => r.SetBegin("PUT", "/").SetBodyLength(5))),
            "POST /a HTTP/1.1|Content-Type: text/plain; charset=UTF-8|Content-Length: 4||text ~ POST /a "
            + "HTTP/1.1|Content-Length: 4||text ~ PUT /a HTTP/1.1|Content-Type: text/plain; "
            + "charset=UTF-8|Content-Length: 0|| ~ GET / HTTP/1.0|Content-Length: 1||x ~ PUT / "
            + "HTTP/1.1|Content-Length: 5||"),
        new(
            "Request: headers and cookies",
            static () => Of(static r =>
            r.SetBegin("GET", "/").SetHeader("A", "b").SetCookie("c", "d").AddCookie("e", "f").SetBody()),
            "GET / HTTP/1.1|A: b|Cookie: c=d|; e=fContent-Length: 0||",
            "GET / HTTP/1.1|A: b|Cookie: c=d; e=f|Content-Length: 0||",
            "builders: `AddCookie`"),
        new(
            "Request: an empty URL, and a space in one",
            static () => Seen.Lines(
                static () => Of(static r => r.MakeGetRequest("")),
                static () => Of(static r => r.MakeGetRequest("/a b"))),
            "GET  HTTP/1.1|Content-Length: 0|| ~ GET /a b HTTP/1.1|Content-Length: 0||",
            "GET / HTTP/1.1|Content-Length: 0|| ~ GET /a%20b HTTP/1.1|Content-Length: 0||",
            "builders: a space"),
        new(
            "Builders: CR and LF in a header, a header without SetBegin, a status of two digits",
            static () => Seen.Lines(
                static () => Of(static r => r.SetBegin("GET", "/").SetHeader("A", "b\r\nC: d").SetBody()),
                static () => Of(static r => r.SetHeader("A", "b").SetBody()),
                static () => Answer(static r => r.SetBegin(42).SetBody())),
            "GET / HTTP/1.1|A: b|C: d|Content-Length: 0|| ~ A: b|Content-Length: 0|| ~ HTTP/1.1 42 "
            + "Unknown|Content-Length: 0||",
            "ArgumentException ~ InvalidOperationException ~ ArgumentOutOfRangeException",
            "builders: CR, LF"),
        new(
            "Request: ToString, properties, Clear",
            static () => Seen.Lines(
                static () => Lines(new HttpRequest().SetBegin("POST", "/a").SetHeader("A", "b").SetBody("text")
                    .ToString()),
                RequestProperties,
                static () =>
            {
                HttpRequest request = new HttpRequest().MakePostRequest("/a", "text").Clear();
                return Seen.All(() => request.IsEmpty, () => request.Method.Length, () => request.Headers,
                    () => request.BodyLength, () => request.Body.Length);
            }),
            "Request method: POST|Request URL: /a|Request protocol: HTTP/1.1|Request headers: 2|A : "
            + "b|Content-Length : 4|Request body: 4|text| ~ False False POST /a?b HTTP/1.1 3 (X, 1) 1 (c, d) text "
            + "4 4 ~ True 0 0 0 0"),
        new(
            "Builders: two bodies, a body for 204, a length for 204",
            static () => Seen.Lines(
                static () => Of(static r => r.SetBegin("POST", "/").SetBody("one").SetBody("two")),
                static () => Answer(static r => r.SetBegin(204).SetBody("text")),
                static () => Answer(static r => r.MakeOkResponse(204)) + Answer(static r => r.MakeOkResponse(299))),
            "POST / HTTP/1.1|Content-Length: 3||oneContent-Length: 3||two ~ HTTP/1.1 204 No "
            + "Content|Content-Length: 4||text ~ HTTP/1.1 204 No Content|Content-Length: 0||HTTP/1.1 299 "
            + "Unknown|Content-Length: 0||",
            "POST / HTTP/1.1|Content-Length: 3||two ~ HTTP/1.1 204 No Content|| ~ HTTP/1.1 204 No "
            + "Content||HTTP/1.1 299 Unknown|Content-Length: 0||",
            "builders: a body for 1xx"),
        new(
            "Responses: OK, HEAD, OPTIONS, TRACE",
            static () => Seen.Lines(
                static () => Answer(static r => r.MakeOkResponse()),
                static () => Answer(static r => r.MakeHeadResponse()),
                static () => Answer(static r => r.MakeOptionsResponse())
                    + Answer(static r => r.MakeOptionsResponse("GET")),
                static () => Answer(static r => r.MakeTraceResponse(new HttpRequest().MakeTraceRequest("/a")))),
            "HTTP/1.1 200 OK|Content-Length: 0|| ~ HTTP/1.1 200 OK|Content-Length: 0|| ~ HTTP/1.1 200 OK|Allow: "
            + "HEAD,GET,POST,PUT,DELETE,OPTIONS,TRACE|Content-Length: 0||HTTP/1.1 200 OK|Allow: "
            + "GET|Content-Length: 0|| ~ HTTP/1.1 200 OK|Content-Type: message/http|Content-Length: 40||TRACE /a "
            + "HTTP/1.1|Content-Length: 0||"),
        new(
            "Responses: errors with and without text",
            static () => Seen.Lines(
                static () => Answer(static r => r.MakeErrorResponse("why"))
                    + Answer(static r => r.MakeErrorResponse(404, "why")),
                static () => Answer(static r => r.MakeErrorResponse()) + Answer(static r => r.MakeErrorResponse(404))),
            "HTTP/1.1 500 Internal Server Error|Content-Type: text/plain; charset=UTF-8|Content-Length: "
            + "3||whyHTTP/1.1 404 Not Found|Content-Type: text/plain; charset=UTF-8|Content-Length: 3||why ~ "
            + "HTTP/1.1 500 Internal Server Error|Content-Type: text/plain; charset=UTF-8|Content-Length: "
            + "0||HTTP/1.1 404 Not Found|Content-Type: text/plain; charset=UTF-8|Content-Length: 0||"),
        new(
            "Responses: GET of text and of bytes",
            static () => Seen.Lines(
                static () => Answer(static r => r.MakeGetResponse("text")),
                static () => Answer(static r => r.MakeGetResponse("text"u8.ToArray(), "image/png")),
                static () => Answer(static r => r.MakeGetResponse("é"))),
            "HTTP/1.1 200 OK|Content-Type: text/plain; charset=UTF-8|Content-Length: 4||text ~ HTTP/1.1 200 "
            + "OK|Content-Type: image/png|Content-Length: 4||text ~ HTTP/1.1 200 OK|Content-Type: text/plain; "
            + "charset=UTF-8|Content-Length: 2||é"),
        new(
            "Response: cookies",
            static () => Seen.Lines(
                static () => Answer(static r => r.SetBegin(200).SetCookie("a", "b").SetBody()),
                static () => Answer(static r =>
                r.SetBegin(200).SetCookie("a", "b", 10, "/p", "example.com", secure: false, strict: false,
                    httpOnly: false).SetBody())),
            "HTTP/1.1 200 OK|Set-Cookie: a=b; Max-Age=86400; Secure; SameSite=Strict; HttpOnly|Content-Length: "
            + "0|| ~ HTTP/1.1 200 OK|Set-Cookie: a=b; Max-Age=10; Domain=example.com; Path=/p|Content-Length: 0||"),
        new(
            "Response: content types",
            static () => string.Join(' ', s_endings.Select(static e => Answer(r => r.SetBegin(200).SetContentType(e)))),
            "HTTP/1.1 200 OK|Content-Type: text/html| HTTP/1.1 200 OK|Content-Type: text/css| HTTP/1.1 200 "
            + "OK|Content-Type: text/javascript| HTTP/1.1 200 OK|Content-Type: text/xml| HTTP/1.1 200 "
            + "OK|Content-Type: image/png| HTTP/1.1 200 OK| HTTP/1.1 200 OK|",
            "HTTP/1.1 200 OK|Content-Type: text/html; charset=utf-8| HTTP/1.1 200 OK|Content-Type: text/css; "
            + "charset=utf-8| HTTP/1.1 200 OK|Content-Type: text/javascript; charset=utf-8| HTTP/1.1 200 "
            + "OK|Content-Type: text/xml; charset=utf-8| HTTP/1.1 200 OK|Content-Type: image/png| HTTP/1.1 200 "
            + "OK|Content-Type: text/plain; charset=utf-8| HTTP/1.1 200 OK|Content-Type: application/octet-stream|",
            "`SetContentType`, files"),
        new(
            "Response: phrases, ToString, properties",
            static () => Seen.Lines(
                static () => string.Join(' ', s_statuses
                .Select(static s => new HttpResponse().SetBegin(s).StatusPhrase)),
                static () => Lines(new HttpResponse().MakeGetResponse("text").ToString()),
                ResponseProperties),
            "Continue Created Found Not Found Unknown Unavailable For Legal Reasons Internal Server Error HTTP "
            + "Version Not Supported Unknown Unknown ~ Status: 200|Status phrase: OK|Protocol: HTTP/1.1|Headers: "
            + "2|Content-Type : text/plain; charset=UTF-8|Content-Length : 4|Body: 4|text| ~ False 404 Not Found "
            + "HTTP/1.1 2 (X, 1) text 4 4"),
        new(
            "Response: IsEmpty",
            static () => Seen.All(() => new HttpResponse().IsEmpty, () => new HttpResponse().MakeOkResponse().IsEmpty),
            "False True",
            "True False",
            "`HttpResponse.IsEmpty`"),
    ];

    private static string Of(Func<HttpRequest, HttpRequest> make) =>
        Seen.One(() => Lines(Text(make(new HttpRequest()).Cache)));

    private static string Answer(Func<HttpResponse, HttpResponse> make) =>
        Seen.One(() => Lines(Text(make(new HttpResponse()).Cache)));

    private static string Text(NetCoreServer.Buffer cache) => Encoding.UTF8.GetString(cache.Data, 0, (int)cache.Size);

    private static string Lines(string text) => text.ReplaceLineEndings("|");

    private static string RequestProperties()
    {
        HttpRequest request = new HttpRequest().SetBegin("POST", "/a?b").SetHeader("X", "1").SetCookie("c", "d")
            .SetBody("text");
        return Seen.All(
            () => request.IsEmpty, () => request.IsErrorSet, () => request.Method, () => request.Url,
            () => request.Protocol,
            () => request.Headers, () => request.Header(0), () => request.Cookies, () => request.Cookie(0),
            () => request.Body,
            () => request.BodyBytes.Length, () => request.BodyLength);
    }

    private static string ResponseProperties()
    {
        HttpResponse response = new HttpResponse().SetBegin(404).SetHeader("X", "1").SetBody("text");
        return Seen.All(
            () => response.IsErrorSet, () => response.Status, () => response.StatusPhrase, () => response.Protocol,
            () => response.Headers, () => response.Header(0), () => response.Body,
            () => response.BodyBytes.Length, () => response.BodyLength);
    }
}
