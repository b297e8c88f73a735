using System.Text;
using Whimbrel.Compat;
using Whimbrel.Http;

namespace NetCoreServer;

/// <summary>
/// A request, as bytes that lie ready to be sent and as parts to look at. One owner, one thread at a time. The members that compose it return it.
/// </summary>
/// <remarks>
/// What a peer would read as something else is refused when it is set: CR, LF or NUL in a value, a name that is no token, a method with a space. In URLs (and
/// semicolons in cookies) it is percent-encoded instead. A body that is null is empty.
/// </remarks>
public class HttpRequest
{
    private const string Text = "text/plain; charset=UTF-8";

    private readonly HttpMessage _message = new();
    private List<(string, string)>? _cookies;

    /// <summary>Makes an empty one.</summary>
    public HttpRequest()
    {
    }

    /// <summary>Makes one with its first line.</summary>
    /// <param name="method">The method.</param>
    /// <param name="url">The URL, its path at least; an empty one is /. What is not visible ASCII is sent percent-encoded.</param>
    /// <param name="protocol">The version.</param>
    public HttpRequest(string method, string url, string protocol = "HTTP/1.1") => SetBegin(method, url, protocol);

    /// <summary>Whether nothing is in it.</summary>
    public bool IsEmpty => _message.Bytes.IsEmpty;

    /// <summary>Whether it came from a peer and broke a rule.</summary>
    public bool IsErrorSet => _message.IsBroken;

    /// <summary>The method.</summary>
    public string Method => _message.FirstBytes.SequenceEqual("GET"u8) ? "GET" : _message.First;

    /// <summary>The URL, as it was sent.</summary>
    public string Url => _message.Second;

    /// <summary>The version.</summary>
    public string Protocol => _message.Third;

    /// <summary>How many headers it has.</summary>
    public long Headers => _message.FieldCount;

    /// <summary>How many cookies it has.</summary>
    public long Cookies => AllCookies.Count;

    /// <summary>The body as UTF-8. Made anew each time.</summary>
    public string Body => Encoding.UTF8.GetString(_message.Body);

    /// <summary>A copy of the body.</summary>
    public byte[] BodyBytes => _message.Body.ToArray();

    /// <summary>The body. Valid until the request is changed or cleared.</summary>
    public Span<byte> BodySpan => _message.Body;

    /// <summary>How long the body is, or is to be.</summary>
    public long BodyLength => _message.BodyLength;

    /// <summary>The bytes of all of it.</summary>
    public Buffer Cache => _message.Bytes;

    internal HttpMessage Message => _message;

    private List<(string, string)> AllCookies => _cookies ??= ReadCookies();

    /// <summary>A header: its name and its value. Two empty texts when there is none.</summary>
    /// <param name="i">0 up to <see cref="Headers"/>.</param>
    public (string, string) Header(int i) => _message.FieldAt(i);

    /// <summary>A cookie: its name and its value. Two empty texts when there is none.</summary>
    /// <param name="i">0 up to <see cref="Cookies"/>.</param>
    public (string, string) Cookie(int i) => (uint)i < (uint)AllCookies.Count ? AllCookies[i] : ("", "");

    /// <summary>All of it, for logs.</summary>
    public override string ToString()
    {
        StringBuilder text = new();
        text.AppendLine($"Request method: {Method}").AppendLine($"Request URL: {Url}").AppendLine($"Request protocol: {Protocol}").AppendLine($"Request headers: {Headers}");
        for (int i = 0; i < Headers; i++) text.AppendLine($"{Header(i).Item1} : {Header(i).Item2}");
        return text.AppendLine($"Request body: {BodyLength}").AppendLine(Body).ToString();
    }

    /// <summary>Forgets everything.</summary>
    public HttpRequest Clear()
    {
        _message.Clear();
        _cookies = null;
        return this;
    }

    /// <summary>Begins anew, with a first line.</summary>
    /// <param name="method">The method.</param>
    /// <param name="url">The URL, its path at least; an empty one is /. What is not visible ASCII is sent percent-encoded.</param>
    /// <param name="protocol">The version.</param>
    /// <exception cref="ArgumentException">It could not be read.</exception>
    public HttpRequest SetBegin(string method, string url, string protocol = "HTTP/1.1")
    {
        _message.Begin(method, url, protocol);
        _cookies = null;
        return this;
    }

    /// <summary>Adds a header. A Content-Length or Transfer-Encoding stays only until a body is set, which brings its own; after that they are passed over.</summary>
    /// <param name="key">Its name.</param>
    /// <param name="value">Its value.</param>
    /// <exception cref="ArgumentException">It could not be read.</exception>
    public HttpRequest SetHeader(string key, string value)
    {
        _message.Add(key, value);
        _cookies = null;
        return this;
    }

    /// <summary>Adds a header with a cookie.</summary>
    /// <param name="name">Its name.</param>
    /// <param name="value">Its value.</param>
    /// <exception cref="ArgumentException">It could not be read.</exception>
    public HttpRequest SetCookie(string name, string value) => SetHeader("Cookie", CookieText.Of(name, value));

    /// <summary>Adds a cookie to the last header with one.</summary>
    /// <param name="name">Its name.</param>
    /// <param name="value">Its value.</param>
    /// <exception cref="ArgumentException">It could not be read.</exception>
    public HttpRequest AddCookie(string name, string value)
    {
        if (!_message.Extend("Cookie"u8, $"; {CookieText.Of(name, value)}")) return SetCookie(name, value);
        _cookies = null;
        return this;
    }

    /// <summary>Sets the body, and its length. A second time it replaces the first.</summary>
    /// <param name="body">Sent as UTF-8.</param>
    public HttpRequest SetBody(string body = "") => SetBody(body.AsSpan());

    /// <summary>Sets the body, and its length. A second time it replaces the first.</summary>
    /// <param name="body">Sent as UTF-8.</param>
    public HttpRequest SetBody(ReadOnlySpan<char> body)
    {
        _message.SetBody(body);
        return this;
    }

    /// <summary>Sets the body, and its length. A second time it replaces the first.</summary>
    /// <param name="body">Copied.</param>
    public HttpRequest SetBody(byte[] body) => SetBody(body.AsSpan());

    /// <summary>Sets the body, and its length. A second time it replaces the first.</summary>
    /// <param name="body">Copied.</param>
    public HttpRequest SetBody(ReadOnlySpan<byte> body)
    {
        _message.SetBody(body);
        return this;
    }

    /// <summary>Sets the length of a body that is sent by itself.</summary>
    /// <param name="length">Bytes.</param>
    public HttpRequest SetBodyLength(int length)
    {
        _message.BeginBody(length);
        return this;
    }

    /// <summary>Makes it a HEAD.</summary>
    /// <param name="url">The URL.</param>
    public HttpRequest MakeHeadRequest(string url) => Make("HEAD", url);

    /// <summary>Makes it a GET.</summary>
    /// <param name="url">The URL.</param>
    public HttpRequest MakeGetRequest(string url) => Make("GET", url);

    /// <summary>Makes it a POST.</summary>
    /// <param name="url">The URL.</param>
    /// <param name="content">The body. Sent as UTF-8.</param>
    /// <param name="contentType">Content-Type; empty for none.</param>
    public HttpRequest MakePostRequest(string url, string content, string contentType = Text) => Make("POST", url, contentType).SetBody(content);

    /// <summary>Makes it a POST.</summary>
    /// <param name="url">The URL.</param>
    /// <param name="content">The body. Sent as UTF-8.</param>
    /// <param name="contentType">Content-Type; empty for none.</param>
    public HttpRequest MakePostRequest(string url, ReadOnlySpan<char> content, string contentType = Text) => Make("POST", url, contentType).SetBody(content);

    /// <summary>Makes it a POST.</summary>
    /// <param name="url">The URL.</param>
    /// <param name="content">The body. Copied.</param>
    /// <param name="contentType">Content-Type; empty for none.</param>
    public HttpRequest MakePostRequest(string url, byte[] content, string contentType = "") => Make("POST", url, contentType).SetBody(content);

    /// <summary>Makes it a POST.</summary>
    /// <param name="url">The URL.</param>
    /// <param name="content">The body. Copied.</param>
    /// <param name="contentType">Content-Type; empty for none.</param>
    public HttpRequest MakePostRequest(string url, ReadOnlySpan<byte> content, string contentType = "") => Make("POST", url, contentType).SetBody(content);

    /// <summary>Makes it a PUT.</summary>
    /// <param name="url">The URL.</param>
    /// <param name="content">The body. Sent as UTF-8.</param>
    /// <param name="contentType">Content-Type; empty for none.</param>
    public HttpRequest MakePutRequest(string url, string content, string contentType = Text) => Make("PUT", url, contentType).SetBody(content);

    /// <summary>Makes it a PUT.</summary>
    /// <param name="url">The URL.</param>
    /// <param name="content">The body. Sent as UTF-8.</param>
    /// <param name="contentType">Content-Type; empty for none.</param>
    public HttpRequest MakePutRequest(string url, ReadOnlySpan<char> content, string contentType = Text) => Make("PUT", url, contentType).SetBody(content);

    /// <summary>Makes it a PUT.</summary>
    /// <param name="url">The URL.</param>
    /// <param name="content">The body. Copied.</param>
    /// <param name="contentType">Content-Type; empty for none.</param>
    public HttpRequest MakePutRequest(string url, byte[] content, string contentType = "") => Make("PUT", url, contentType).SetBody(content);

    /// <summary>Makes it a PUT.</summary>
    /// <param name="url">The URL.</param>
    /// <param name="content">The body. Copied.</param>
    /// <param name="contentType">Content-Type; empty for none.</param>
    public HttpRequest MakePutRequest(string url, ReadOnlySpan<byte> content, string contentType = "") => Make("PUT", url, contentType).SetBody(content);

    /// <summary>Makes it a DELETE.</summary>
    /// <param name="url">The URL.</param>
    public HttpRequest MakeDeleteRequest(string url) => Make("DELETE", url);

    /// <summary>Makes it an OPTIONS.</summary>
    /// <param name="url">The URL, or <c>*</c>.</param>
    public HttpRequest MakeOptionsRequest(string url) => Make("OPTIONS", url);

    /// <summary>Makes it a TRACE.</summary>
    /// <param name="url">The URL.</param>
    public HttpRequest MakeTraceRequest(string url) => Make("TRACE", url);

    internal void Take(HttpMessageReader reader)
    {
        _cookies = null;
        _message.Take(reader, isRequest: true);
    }

    private HttpRequest Make(string method, string url) => Clear().SetBegin(method, url).SetBody();

    private HttpRequest Make(string method, string url, string contentType)
    {
        Clear().SetBegin(method, url);
        return string.IsNullOrEmpty(contentType) ? this : SetHeader("Content-Type", contentType);
    }

    private List<(string, string)> ReadCookies()
    {
        List<(string, string)> cookies = [];
        for (int i = 0; i < _message.FieldCount; i++)
        {
            (string name, string value) = _message.FieldAt(i);
            if (name.Equals("Cookie", StringComparison.OrdinalIgnoreCase)) CookieText.Read(value, cookies);
        }

        return cookies;
    }
}
