using System.Globalization;
using System.Text;
using Whimbrel.Compat;
using Whimbrel.Http;

namespace NetCoreServer;

/// <summary>
/// A response, as bytes that lie ready to be sent and as parts to look at. One owner, one thread at a time. The members that compose it return it.
/// </summary>
/// <remarks>
/// What a peer would read as something else is refused when it is set: CR, LF or NUL in a value, a name that is no token. A body that is null is empty. A status that
/// has no body (1xx, 204, 304) gets no length, and a body that is set for it is left out.
/// </remarks>
public class HttpResponse
{
    private const string Text = "text/plain; charset=UTF-8";

    private readonly HttpMessage _message = new();

    /// <summary>Makes an empty one.</summary>
    public HttpResponse()
    {
    }

    /// <summary>Makes one with its first line and the usual phrase.</summary>
    /// <param name="status">100 up to 999.</param>
    /// <param name="protocol">The version.</param>
    public HttpResponse(int status, string protocol = "HTTP/1.1") => SetBegin(status, protocol);

    /// <summary>Makes one with its first line.</summary>
    /// <param name="status">100 up to 999.</param>
    /// <param name="statusPhrase">The words behind it.</param>
    /// <param name="protocol">The version.</param>
    public HttpResponse(int status, string statusPhrase, string protocol) => SetBegin(status, statusPhrase, protocol);

    /// <summary>Whether nothing is in it.</summary>
    public bool IsEmpty => _message.Bytes.IsEmpty;

    /// <summary>Whether it came from a peer and broke a rule.</summary>
    public bool IsErrorSet => _message.IsBroken;

    /// <summary>The status; 0 before there is one.</summary>
    public int Status { get; private set; }

    /// <summary>The words behind the status.</summary>
    public string StatusPhrase => _message.Third;

    /// <summary>The version.</summary>
    public string Protocol => _message.First;

    /// <summary>How many headers it has.</summary>
    public long Headers => _message.FieldCount;

    /// <summary>The body as UTF-8. Made anew each time.</summary>
    public string Body => Encoding.UTF8.GetString(_message.Body);

    /// <summary>A copy of the body.</summary>
    public byte[] BodyBytes => _message.Body.ToArray();

    /// <summary>The body. Valid until the response is changed or cleared.</summary>
    public ReadOnlySpan<byte> BodySpan => _message.Body;

    /// <summary>How long the body is, or is to be.</summary>
    public long BodyLength => _message.BodyLength;

    /// <summary>The bytes of all of it.</summary>
    public Buffer Cache => _message.Bytes;

    internal HttpMessage Message => _message;

    private bool HasLength => Status is >= 200 and not 204 and not 304;

    /// <summary>A header: its name and its value. Two empty texts when there is none.</summary>
    /// <param name="i">0 up to <see cref="Headers"/>.</param>
    public (string, string) Header(int i) => _message.FieldAt(i);

    /// <summary>All of it, for logs.</summary>
    public override string ToString()
    {
        StringBuilder text = new();
        text.AppendLine(CultureInfo.InvariantCulture, $"Status: {Status}").AppendLine($"Status phrase: {StatusPhrase}").AppendLine($"Protocol: {Protocol}").AppendLine($"Headers: {Headers}");
        for (int i = 0; i < Headers; i++) text.AppendLine($"{Header(i).Item1} : {Header(i).Item2}");
        return text.AppendLine($"Body: {BodyLength}").AppendLine(Body).ToString();
    }

    /// <summary>Forgets everything.</summary>
    public HttpResponse Clear()
    {
        _message.Clear();
        Status = 0;
        return this;
    }

    /// <summary>Begins anew, with a first line and the usual phrase.</summary>
    /// <param name="status">100 up to 999.</param>
    /// <param name="protocol">The version.</param>
    /// <exception cref="ArgumentException">It could not be read.</exception>
    public HttpResponse SetBegin(int status, string protocol = "HTTP/1.1") => SetBegin(status, StatusPhrases.Of(status), protocol);

    /// <summary>Begins anew, with a first line.</summary>
    /// <param name="status">100 up to 999.</param>
    /// <param name="statusPhrase">The words behind it.</param>
    /// <param name="protocol">The version.</param>
    /// <exception cref="ArgumentException">It could not be read.</exception>
    public HttpResponse SetBegin(int status, string statusPhrase, string protocol)
    {
        _message.Begin(protocol, StatusPhrases.Digits(status), statusPhrase);
        Status = status;
        return this;
    }

    /// <summary>Adds Content-Type, as it is known for a file.</summary>
    /// <param name="extension">The ending of the file's name, with its dot.</param>
    public HttpResponse SetContentType(string extension) => SetHeader("Content-Type", HttpFileOptions.ContentTypeOf(extension));

    /// <summary>Adds a header. A Content-Length or Transfer-Encoding stays only until a body is set, which brings its own; after that they are passed over.</summary>
    /// <param name="key">Its name.</param>
    /// <param name="value">Its value.</param>
    /// <exception cref="ArgumentException">It could not be read.</exception>
    public HttpResponse SetHeader(string key, string value)
    {
        _message.Add(key, value);
        return this;
    }

    /// <summary>Adds a cookie.</summary>
    /// <param name="name">Its name.</param>
    /// <param name="value">Its value.</param>
    /// <param name="maxAge">Seconds.</param>
    /// <param name="path">Where it is sent back to; empty for where it came from.</param>
    /// <param name="domain">Hosts that it is sent back to; empty for the one it came from.</param>
    /// <param name="secure">Over TLS only.</param>
    /// <param name="strict">From pages of the same site only.</param>
    /// <param name="httpOnly">Not for scripts.</param>
    /// <exception cref="ArgumentException">It could not be read.</exception>
    public HttpResponse SetCookie(string name, string value, int maxAge = 86400, string path = "", string domain = "", bool secure = true, bool strict = true, bool httpOnly = true)
    {
        StringBuilder text = new(CookieText.Of(name, value));
        text.Append(CultureInfo.InvariantCulture, $"; Max-Age={maxAge}");
        if (!string.IsNullOrEmpty(domain)) text.Append("; Domain=").Append(CookieText.Encoded(domain, nameof(domain)));
        if (!string.IsNullOrEmpty(path)) text.Append("; Path=").Append(CookieText.Encoded(path, nameof(path)));
        if (secure) text.Append("; Secure");
        if (strict) text.Append("; SameSite=Strict");
        if (httpOnly) text.Append("; HttpOnly");
        return SetHeader("Set-Cookie", text.ToString());
    }

    /// <summary>Sets the body, and its length. A second time it replaces the first.</summary>
    /// <param name="body">Sent as UTF-8.</param>
    public HttpResponse SetBody(string body = "") => SetBody(body.AsSpan());

    /// <summary>Sets the body, and its length. A second time it replaces the first.</summary>
    /// <param name="body">Sent as UTF-8.</param>
    public HttpResponse SetBody(ReadOnlySpan<char> body)
    {
        _message.SetBody(body, HasLength);
        return this;
    }

    /// <summary>Sets the body, and its length. A second time it replaces the first.</summary>
    /// <param name="body">Copied.</param>
    public HttpResponse SetBody(byte[] body) => SetBody(body.AsSpan());

    /// <summary>Sets the body, and its length. A second time it replaces the first.</summary>
    /// <param name="body">Copied.</param>
    public HttpResponse SetBody(ReadOnlySpan<byte> body)
    {
        _message.SetBody(body, HasLength);
        return this;
    }

    /// <summary>Sets the length of a body that is sent by itself.</summary>
    /// <param name="length">Bytes. 0 for a status without a body (1xx, 204, 304).</param>
    /// <exception cref="ArgumentException">The status has no body, and the length is not 0: the bytes would be read as another response.</exception>
    public HttpResponse SetBodyLength(int length)
    {
        _message.BeginBody(length, HasLength);
        return this;
    }

    /// <summary>Makes it a response without a body.</summary>
    /// <param name="status">100 up to 999.</param>
    public HttpResponse MakeOkResponse(int status = 200) => Clear().SetBegin(status).SetBody();

    /// <summary>Makes it a response of an error, 500.</summary>
    /// <param name="content">The body.</param>
    /// <param name="contentType">Content-Type; empty for none.</param>
    public HttpResponse MakeErrorResponse(string content = "", string contentType = Text) => MakeErrorResponse(500, content, contentType);

    /// <summary>Makes it a response of an error.</summary>
    /// <param name="status">100 up to 999.</param>
    /// <param name="content">The body.</param>
    /// <param name="contentType">Content-Type; empty for none.</param>
    public HttpResponse MakeErrorResponse(int status, string content = "", string contentType = Text) => Make(status, contentType).SetBody(content);

    /// <summary>Makes it the response to HEAD.</summary>
    public HttpResponse MakeHeadResponse() => MakeOkResponse();

    /// <summary>Makes it a response with a body, 200.</summary>
    /// <param name="content">The body. Sent as UTF-8.</param>
    /// <param name="contentType">Content-Type; empty for none.</param>
    public HttpResponse MakeGetResponse(string content = "", string contentType = Text) => Make(200, contentType).SetBody(content);

    /// <summary>Makes it a response with a body, 200.</summary>
    /// <param name="content">The body. Sent as UTF-8.</param>
    /// <param name="contentType">Content-Type; empty for none.</param>
    public HttpResponse MakeGetResponse(ReadOnlySpan<char> content, string contentType = Text) => Make(200, contentType).SetBody(content);

    /// <summary>Makes it a response with a body, 200.</summary>
    /// <param name="content">The body. Copied.</param>
    /// <param name="contentType">Content-Type; empty for none.</param>
    public HttpResponse MakeGetResponse(byte[] content, string contentType = "") => Make(200, contentType).SetBody(content);

    /// <summary>Makes it a response with a body, 200.</summary>
    /// <param name="content">The body. Copied.</param>
    /// <param name="contentType">Content-Type; empty for none.</param>
    public HttpResponse MakeGetResponse(ReadOnlySpan<byte> content, string contentType = "") => Make(200, contentType).SetBody(content);

    /// <summary>Makes it the response to OPTIONS.</summary>
    /// <param name="allow">The methods.</param>
    public HttpResponse MakeOptionsResponse(string allow = "HEAD,GET,POST,PUT,DELETE,OPTIONS,TRACE") => Clear().SetBegin(200).SetHeader("Allow", allow).SetBody();

    /// <summary>Makes it the response to TRACE.</summary>
    /// <param name="content">The request, sent as UTF-8.</param>
    public HttpResponse MakeTraceResponse(string content) => Make(200, Trace).SetBody(content);

    /// <summary>Makes it the response to TRACE.</summary>
    /// <param name="content">The request, sent as UTF-8.</param>
    public HttpResponse MakeTraceResponse(ReadOnlySpan<char> content) => Make(200, Trace).SetBody(content);

    /// <summary>Makes it the response to TRACE.</summary>
    /// <param name="content">The request.</param>
    public HttpResponse MakeTraceResponse(byte[] content) => Make(200, Trace).SetBody(content);

    /// <summary>Makes it the response to TRACE.</summary>
    /// <param name="content">The request.</param>
    public HttpResponse MakeTraceResponse(ReadOnlySpan<byte> content) => Make(200, Trace).SetBody(content);

    /// <summary>Makes it the response to TRACE.</summary>
    /// <param name="request">The request.</param>
    public HttpResponse MakeTraceResponse(HttpRequest request)
    {
        ArgumentNullException.ThrowIfNull(request);
        return MakeTraceResponse(request.Cache.AsSpan());
    }

    private const string Trace = "message/http";

    internal void Take(HttpMessageReader reader)
    {
        _message.Take(reader, isRequest: false);
        Status = reader.Status;
    }

    private HttpResponse Make(int status, string contentType)
    {
        Clear().SetBegin(status);
        return string.IsNullOrEmpty(contentType) ? this : SetHeader("Content-Type", contentType);
    }
}
