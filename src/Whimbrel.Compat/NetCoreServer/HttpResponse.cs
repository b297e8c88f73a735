using System.Globalization;
using System.Text;
using Whimbrel.Compat;
using Whimbrel.Http;

namespace NetCoreServer;

/// <summary>
/// An HTTP response, stored as the bytes to send and as parsed parts. One owner, one thread at a time. Members that
/// compose it return it.
/// </summary>
/// <remarks>
/// Input that a peer would parse differently is rejected when it is set: CR, LF or NUL in a value, a name that is not a
/// token. A null body is empty. A status without a body (1xx, 204, 304) gets no length, and a body set for it is left
/// out.
/// </remarks>
public class HttpResponse
{
    private const string Text = "text/plain; charset=UTF-8";

    private readonly HttpMessage _message = new();

    /// <summary>Creates an empty response.</summary>
    public HttpResponse()
    {
    }

    /// <summary>Creates a response with its first line and the default phrase.</summary>
    /// <param name="status">Status, from 100 to 999.</param>
    /// <param name="protocol">HTTP version.</param>
    public HttpResponse(int status, string protocol = "HTTP/1.1") => SetBegin(status, protocol);

    /// <summary>Creates a response with its first line.</summary>
    /// <param name="status">Status, from 100 to 999.</param>
    /// <param name="statusPhrase">Reason phrase.</param>
    /// <param name="protocol">HTTP version.</param>
    public HttpResponse(int status, string statusPhrase, string protocol) => SetBegin(status, statusPhrase, protocol);

    /// <summary>True if the response is empty.</summary>
    public bool IsEmpty => _message.Bytes.IsEmpty;

    /// <summary>True if the response was received and broke a rule.</summary>
    public bool IsErrorSet => _message.IsBroken;

    /// <summary>Status; 0 if none is set.</summary>
    public int Status { get; private set; }

    /// <summary>Reason phrase.</summary>
    public string StatusPhrase => _message.Third;

    /// <summary>HTTP version.</summary>
    public string Protocol => _message.First;

    /// <summary>Number of headers.</summary>
    public long Headers => _message.FieldCount;

    /// <summary>Body as UTF-8 text. Each call creates a string.</summary>
    public string Body => Encoding.UTF8.GetString(_message.Body);

    /// <summary>Copy of the body.</summary>
    public byte[] BodyBytes => _message.Body.ToArray();

    /// <summary>Body. Valid until the response is changed or cleared.</summary>
    public ReadOnlySpan<byte> BodySpan => _message.Body;

    /// <summary>Length of the body, including bytes that are not present yet.</summary>
    public long BodyLength => _message.BodyLength;

    /// <summary>All bytes of the response.</summary>
    public Buffer Cache => _message.Bytes;

    internal HttpMessage Message => _message;

    private bool HasLength => Status is >= 200 and not 204 and not 304;

    /// <summary>Returns name and value of a header; two empty strings if there is none.</summary>
    /// <param name="i">Index, from 0 up to <see cref="Headers"/>, exclusive.</param>
    public (string, string) Header(int i) => _message.FieldAt(i);

    /// <summary>Returns the whole response as text for logs.</summary>
    public override string ToString()
    {
        StringBuilder text = new();
        text.AppendLine(CultureInfo.InvariantCulture, $"Status: {Status}").AppendLine($"Status phrase: {StatusPhrase}")
            .AppendLine($"Protocol: {Protocol}").AppendLine($"Headers: {Headers}");
        for (int i = 0; i < Headers; i++) text.AppendLine($"{Header(i).Item1} : {Header(i).Item2}");
        return text.AppendLine($"Body: {BodyLength}").AppendLine(Body).ToString();
    }

    /// <summary>Removes all contents.</summary>
    public HttpResponse Clear()
    {
        _message.Clear();
        Status = 0;
        return this;
    }

    /// <summary>Clears the response and sets its first line with the default phrase.</summary>
    /// <param name="status">Status, from 100 to 999.</param>
    /// <param name="protocol">HTTP version.</param>
    /// <exception cref="ArgumentException">The line could not be parsed.</exception>
    public HttpResponse SetBegin(int status, string protocol = "HTTP/1.1") =>
        SetBegin(status, StatusPhrases.Of(status), protocol);

    /// <summary>Clears the response and sets its first line.</summary>
    /// <param name="status">Status, from 100 to 999.</param>
    /// <param name="statusPhrase">Reason phrase.</param>
    /// <param name="protocol">HTTP version.</param>
    /// <exception cref="ArgumentException">The line could not be parsed.</exception>
    public HttpResponse SetBegin(int status, string statusPhrase, string protocol)
    {
        _message.Begin(protocol, StatusPhrases.Digits(status), statusPhrase);
        Status = status;
        return this;
    }

    /// <summary>Adds the Content-Type for a file name extension.</summary>
    /// <param name="extension">Extension, including its dot.</param>
    public HttpResponse SetContentType(string extension) =>
        SetHeader("Content-Type", HttpFileOptions.ContentTypeOf(extension));

    /// <summary>Adds a header. Content-Length and Transfer-Encoding are kept only until a body is set, which has its
    /// own; after that they are ignored.</summary>
    /// <param name="key">Name of the header.</param>
    /// <param name="value">Value of the header.</param>
    /// <exception cref="ArgumentException">The header could not be parsed.</exception>
    public HttpResponse SetHeader(string key, string value)
    {
        _message.Add(key, value);
        return this;
    }

    /// <summary>Adds a cookie.</summary>
    /// <param name="name">Name of the cookie.</param>
    /// <param name="value">Value of the cookie.</param>
    /// <param name="maxAge">Lifetime in seconds.</param>
    /// <param name="path">Path attribute; empty for the default.</param>
    /// <param name="domain">Domain attribute; empty for this host only.</param>
    /// <param name="secure">True: sent over TLS only.</param>
    /// <param name="strict">True: sent for requests of the same site only.</param>
    /// <param name="httpOnly">True: not visible to scripts.</param>
    /// <exception cref="ArgumentException">The cookie could not be parsed.</exception>
    public HttpResponse SetCookie(string name, string value, int maxAge = 86400, string path = "", string domain = "",
        bool secure = true, bool strict = true, bool httpOnly = true)
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

    /// <summary>Sets the body and its length. A second call replaces the first body.</summary>
    /// <param name="body">Body, sent as UTF-8.</param>
    public HttpResponse SetBody(string body = "") => SetBody(body.AsSpan());

    /// <summary>Sets the body and its length. A second call replaces the first body.</summary>
    /// <param name="body">Body, sent as UTF-8.</param>
    public HttpResponse SetBody(ReadOnlySpan<char> body)
    {
        _message.SetBody(body, HasLength);
        return this;
    }

    /// <summary>Sets the body and its length. A second call replaces the first body.</summary>
    /// <param name="body">Body, which is copied.</param>
    public HttpResponse SetBody(byte[] body) => SetBody(body.AsSpan());

    /// <summary>Sets the body and its length. A second call replaces the first body.</summary>
    /// <param name="body">Body, which is copied.</param>
    public HttpResponse SetBody(ReadOnlySpan<byte> body)
    {
        _message.SetBody(body, HasLength);
        return this;
    }

    /// <summary>Sets the length of a body that is sent separately.</summary>
    /// <param name="length">Number of bytes. 0 for a status without a body (1xx, 204, 304).</param>
    /// <exception cref="ArgumentException">The status has no body, and the length is not 0: the bytes would be parsed
    /// as another response.</exception>
    public HttpResponse SetBodyLength(int length)
    {
        _message.BeginBody(length, HasLength);
        return this;
    }

    /// <summary>Makes a response without a body.</summary>
    /// <param name="status">Status, from 100 to 999.</param>
    public HttpResponse MakeOkResponse(int status = 200) => Clear().SetBegin(status).SetBody();

    /// <summary>Makes an error response with status 500.</summary>
    /// <param name="content">Body, sent as UTF-8.</param>
    /// <param name="contentType">Content-Type; empty for none.</param>
    public HttpResponse MakeErrorResponse(string content = "", string contentType = Text) =>
        MakeErrorResponse(500, content, contentType);

    /// <summary>Makes an error response.</summary>
    /// <param name="status">Status, from 100 to 999.</param>
    /// <param name="content">Body, sent as UTF-8.</param>
    /// <param name="contentType">Content-Type; empty for none.</param>
    public HttpResponse MakeErrorResponse(int status, string content = "", string contentType = Text) =>
        Make(status, contentType).SetBody(content);

    /// <summary>Makes the response to HEAD.</summary>
    public HttpResponse MakeHeadResponse() => MakeOkResponse();

    /// <summary>Makes a response with status 200 and a body.</summary>
    /// <param name="content">Body, sent as UTF-8.</param>
    /// <param name="contentType">Content-Type; empty for none.</param>
    public HttpResponse MakeGetResponse(string content = "", string contentType = Text) =>
        Make(200, contentType).SetBody(content);

    /// <summary>Makes a response with status 200 and a body.</summary>
    /// <param name="content">Body, sent as UTF-8.</param>
    /// <param name="contentType">Content-Type; empty for none.</param>
    public HttpResponse MakeGetResponse(ReadOnlySpan<char> content, string contentType = Text) =>
        Make(200, contentType).SetBody(content);

    /// <summary>Makes a response with status 200 and a body.</summary>
    /// <param name="content">Body, which is copied.</param>
    /// <param name="contentType">Content-Type; empty for none.</param>
    public HttpResponse MakeGetResponse(byte[] content, string contentType = "") =>
        Make(200, contentType).SetBody(content);

    /// <summary>Makes a response with status 200 and a body.</summary>
    /// <param name="content">Body, which is copied.</param>
    /// <param name="contentType">Content-Type; empty for none.</param>
    public HttpResponse MakeGetResponse(ReadOnlySpan<byte> content, string contentType = "") =>
        Make(200, contentType).SetBody(content);

    /// <summary>Makes the response to OPTIONS.</summary>
    /// <param name="allow">Allowed methods.</param>
    public HttpResponse MakeOptionsResponse(string allow = "HEAD,GET,POST,PUT,DELETE,OPTIONS,TRACE") =>
        Clear().SetBegin(200).SetHeader("Allow", allow).SetBody();

    /// <summary>Makes the response to TRACE.</summary>
    /// <param name="content">Request, sent as UTF-8.</param>
    public HttpResponse MakeTraceResponse(string content) => Make(200, Trace).SetBody(content);

    /// <summary>Makes the response to TRACE.</summary>
    /// <param name="content">Request, sent as UTF-8.</param>
    public HttpResponse MakeTraceResponse(ReadOnlySpan<char> content) => Make(200, Trace).SetBody(content);

    /// <summary>Makes the response to TRACE.</summary>
    /// <param name="content">Bytes of the request.</param>
    public HttpResponse MakeTraceResponse(byte[] content) => Make(200, Trace).SetBody(content);

    /// <summary>Makes the response to TRACE.</summary>
    /// <param name="content">Bytes of the request.</param>
    public HttpResponse MakeTraceResponse(ReadOnlySpan<byte> content) => Make(200, Trace).SetBody(content);

    /// <summary>Makes the response to TRACE.</summary>
    /// <param name="request">Request to return.</param>
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
