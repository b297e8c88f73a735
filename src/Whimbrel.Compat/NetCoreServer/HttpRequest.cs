using System.Text;
using Whimbrel.Compat;
using Whimbrel.Http;

namespace NetCoreServer;

/// <summary>
/// An HTTP request, stored as the bytes to send and as parsed parts. One owner, one thread at a time. Members that
/// compose it return it.
/// </summary>
/// <remarks>
/// Input that a peer would parse differently is rejected when it is set: CR, LF or NUL in a value, a name that is not a
/// token, a method with a space. In URLs (and for semicolons in cookies) it is percent-encoded instead. A null body is
/// empty.
/// </remarks>
public class HttpRequest
{
    private const string Text = "text/plain; charset=UTF-8";

    private readonly HttpMessage _message = new();
    private List<(string, string)>? _cookies;

    /// <summary>Creates an empty request.</summary>
    public HttpRequest()
    {
    }

    /// <summary>Creates a request with its first line.</summary>
    /// <param name="method">Method.</param>
    /// <param name="url">URL, at least its path; an empty one becomes /. Characters outside visible ASCII are
    /// percent-encoded.</param>
    /// <param name="protocol">HTTP version.</param>
    public HttpRequest(string method, string url, string protocol = "HTTP/1.1") => SetBegin(method, url, protocol);

    /// <summary>True if the request is empty.</summary>
    public bool IsEmpty => _message.Bytes.IsEmpty;

    /// <summary>True if the request was received and broke a rule.</summary>
    public bool IsErrorSet => _message.IsBroken;

    /// <summary>Method.</summary>
    public string Method => _message.FirstBytes.SequenceEqual("GET"u8) ? "GET" : _message.First;

    /// <summary>URL, as it was sent.</summary>
    public string Url => _message.Second;

    /// <summary>HTTP version.</summary>
    public string Protocol => _message.Third;

    /// <summary>Number of headers.</summary>
    public long Headers => _message.FieldCount;

    /// <summary>Number of cookies.</summary>
    public long Cookies => AllCookies.Count;

    /// <summary>Body as UTF-8 text. Each call creates a string.</summary>
    public string Body => Encoding.UTF8.GetString(_message.Body);

    /// <summary>Copy of the body.</summary>
    public byte[] BodyBytes => _message.Body.ToArray();

    /// <summary>Body. Valid until the request is changed or cleared.</summary>
    public Span<byte> BodySpan => _message.Body;

    /// <summary>Length of the body, including bytes that are not present yet.</summary>
    public long BodyLength => _message.BodyLength;

    /// <summary>All bytes of the request.</summary>
    public Buffer Cache => _message.Bytes;

    internal HttpMessage Message => _message;

    private List<(string, string)> AllCookies => _cookies ??= ReadCookies();

    /// <summary>Returns name and value of a header; two empty strings if there is none.</summary>
    /// <param name="i">Index, from 0 up to <see cref="Headers"/>, exclusive.</param>
    public (string, string) Header(int i) => _message.FieldAt(i);

    /// <summary>Returns name and value of a cookie; two empty strings if there is none.</summary>
    /// <param name="i">Index, from 0 up to <see cref="Cookies"/>, exclusive.</param>
    public (string, string) Cookie(int i) => (uint)i < (uint)AllCookies.Count ? AllCookies[i] : ("", "");

    /// <summary>Returns the whole request as text for logs.</summary>
    public override string ToString()
    {
        StringBuilder text = new();
        text.AppendLine($"Request method: {Method}").AppendLine($"Request URL: {Url}")
            .AppendLine($"Request protocol: {Protocol}").AppendLine($"Request headers: {Headers}");
        for (int i = 0; i < Headers; i++) text.AppendLine($"{Header(i).Item1} : {Header(i).Item2}");
        return text.AppendLine($"Request body: {BodyLength}").AppendLine(Body).ToString();
    }

    /// <summary>Removes all contents.</summary>
    public HttpRequest Clear()
    {
        _message.Clear();
        _cookies = null;
        return this;
    }

    /// <summary>Clears the request and sets its first line.</summary>
    /// <param name="method">Method.</param>
    /// <param name="url">URL, at least its path; an empty one becomes /. Characters outside visible ASCII are
    /// percent-encoded.</param>
    /// <param name="protocol">HTTP version.</param>
    /// <exception cref="ArgumentException">The line could not be parsed.</exception>
    public HttpRequest SetBegin(string method, string url, string protocol = "HTTP/1.1")
    {
        _message.Begin(method, url, protocol);
        _cookies = null;
        return this;
    }

    /// <summary>Adds a header. Content-Length and Transfer-Encoding are kept only until a body is set, which has its
    /// own; after that they are ignored.</summary>
    /// <param name="key">Name of the header.</param>
    /// <param name="value">Value of the header.</param>
    /// <exception cref="ArgumentException">The header could not be parsed.</exception>
    public HttpRequest SetHeader(string key, string value)
    {
        _message.Add(key, value);
        _cookies = null;
        return this;
    }

    /// <summary>Adds a header with a cookie.</summary>
    /// <param name="name">Name of the cookie.</param>
    /// <param name="value">Value of the cookie.</param>
    /// <exception cref="ArgumentException">The cookie could not be parsed.</exception>
    public HttpRequest SetCookie(string name, string value) => SetHeader("Cookie", CookieText.Of(name, value));

    /// <summary>Adds a cookie to the last Cookie header.</summary>
    /// <param name="name">Name of the cookie.</param>
    /// <param name="value">Value of the cookie.</param>
    /// <exception cref="ArgumentException">The cookie could not be parsed.</exception>
    public HttpRequest AddCookie(string name, string value)
    {
        if (!_message.Extend("Cookie"u8, $"; {CookieText.Of(name, value)}")) return SetCookie(name, value);
        _cookies = null;
        return this;
    }

    /// <summary>Sets the body and its length. A second call replaces the first body.</summary>
    /// <param name="body">Body, sent as UTF-8.</param>
    public HttpRequest SetBody(string body = "") => SetBody(body.AsSpan());

    /// <summary>Sets the body and its length. A second call replaces the first body.</summary>
    /// <param name="body">Body, sent as UTF-8.</param>
    public HttpRequest SetBody(ReadOnlySpan<char> body)
    {
        _message.SetBody(body);
        return this;
    }

    /// <summary>Sets the body and its length. A second call replaces the first body.</summary>
    /// <param name="body">Body, which is copied.</param>
    public HttpRequest SetBody(byte[] body) => SetBody(body.AsSpan());

    /// <summary>Sets the body and its length. A second call replaces the first body.</summary>
    /// <param name="body">Body, which is copied.</param>
    public HttpRequest SetBody(ReadOnlySpan<byte> body)
    {
        _message.SetBody(body);
        return this;
    }

    /// <summary>Sets the length of a body that is sent separately.</summary>
    /// <param name="length">Number of bytes.</param>
    public HttpRequest SetBodyLength(int length)
    {
        _message.BeginBody(length);
        return this;
    }

    /// <summary>Makes a HEAD request.</summary>
    /// <param name="url">URL.</param>
    public HttpRequest MakeHeadRequest(string url) => Make("HEAD", url);

    /// <summary>Makes a GET request.</summary>
    /// <param name="url">URL.</param>
    public HttpRequest MakeGetRequest(string url) => Make("GET", url);

    /// <summary>Makes a POST request.</summary>
    /// <param name="url">URL.</param>
    /// <param name="content">Body, sent as UTF-8.</param>
    /// <param name="contentType">Content-Type; empty for none.</param>
    public HttpRequest MakePostRequest(string url, string content, string contentType = Text) =>
        Make("POST", url, contentType).SetBody(content);

    /// <summary>Makes a POST request.</summary>
    /// <param name="url">URL.</param>
    /// <param name="content">Body, sent as UTF-8.</param>
    /// <param name="contentType">Content-Type; empty for none.</param>
    public HttpRequest MakePostRequest(string url, ReadOnlySpan<char> content, string contentType = Text) =>
        Make("POST", url, contentType).SetBody(content);

    /// <summary>Makes a POST request.</summary>
    /// <param name="url">URL.</param>
    /// <param name="content">Body, which is copied.</param>
    /// <param name="contentType">Content-Type; empty for none.</param>
    public HttpRequest MakePostRequest(string url, byte[] content, string contentType = "") =>
        Make("POST", url, contentType).SetBody(content);

    /// <summary>Makes a POST request.</summary>
    /// <param name="url">URL.</param>
    /// <param name="content">Body, which is copied.</param>
    /// <param name="contentType">Content-Type; empty for none.</param>
    public HttpRequest MakePostRequest(string url, ReadOnlySpan<byte> content, string contentType = "") =>
        Make("POST", url, contentType).SetBody(content);

    /// <summary>Makes a PUT request.</summary>
    /// <param name="url">URL.</param>
    /// <param name="content">Body, sent as UTF-8.</param>
    /// <param name="contentType">Content-Type; empty for none.</param>
    public HttpRequest MakePutRequest(string url, string content, string contentType = Text) =>
        Make("PUT", url, contentType).SetBody(content);

    /// <summary>Makes a PUT request.</summary>
    /// <param name="url">URL.</param>
    /// <param name="content">Body, sent as UTF-8.</param>
    /// <param name="contentType">Content-Type; empty for none.</param>
    public HttpRequest MakePutRequest(string url, ReadOnlySpan<char> content, string contentType = Text) =>
        Make("PUT", url, contentType).SetBody(content);

    /// <summary>Makes a PUT request.</summary>
    /// <param name="url">URL.</param>
    /// <param name="content">Body, which is copied.</param>
    /// <param name="contentType">Content-Type; empty for none.</param>
    public HttpRequest MakePutRequest(string url, byte[] content, string contentType = "") =>
        Make("PUT", url, contentType).SetBody(content);

    /// <summary>Makes a PUT request.</summary>
    /// <param name="url">URL.</param>
    /// <param name="content">Body, which is copied.</param>
    /// <param name="contentType">Content-Type; empty for none.</param>
    public HttpRequest MakePutRequest(string url, ReadOnlySpan<byte> content, string contentType = "") =>
        Make("PUT", url, contentType).SetBody(content);

    /// <summary>Makes a DELETE request.</summary>
    /// <param name="url">URL.</param>
    public HttpRequest MakeDeleteRequest(string url) => Make("DELETE", url);

    /// <summary>Makes an OPTIONS request.</summary>
    /// <param name="url">URL, or <c>*</c>.</param>
    public HttpRequest MakeOptionsRequest(string url) => Make("OPTIONS", url);

    /// <summary>Makes a TRACE request.</summary>
    /// <param name="url">URL.</param>
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
