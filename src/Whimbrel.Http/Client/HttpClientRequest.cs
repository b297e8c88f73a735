using System.Text;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

/// <summary>
/// Request to send: method, URL, fields, and a body from memory, from a stream, or written by a function. Without a
/// body, or with one from memory, it can be sent any number of times, also concurrently. Its members must not be used
/// by several threads at once.
/// </summary>
public sealed class HttpClientRequest
{
    // version, framing, Accept-Encoding, Expect, Connection, names of fields and line ends
    private const int HeadRoom = 160;

    private readonly byte[] _method;
    private readonly byte[] _target;
    private List<KeyValuePair<string, string>>? _list;
    private byte[] _host;
    private byte[] _fields = [];
    private int _fieldBytes;
    private string? _contentType;
    private bool _hasAcceptEncoding;
    private bool _isUpgrade;

    /// <summary>Creates a request.</summary>
    /// <param name="verb">Method; not <see cref="HttpVerb.Other"/> and not CONNECT.</param>
    /// <param name="url">URL: <c>http://</c> or <c>https://</c>, with a host.</param>
    /// <exception cref="ArgumentException">An argument is not valid.</exception>
    /// <exception cref="UriFormatException">The URL is malformed.</exception>
    public HttpClientRequest(HttpVerb verb, string url)
        : this(Encoding.ASCII.GetString(HttpReader.NameOf(verb)), new Uri(url))
    {
    }

    /// <summary>Creates a request.</summary>
    /// <param name="method">Method: a token, usually in capitals; not CONNECT.</param>
    /// <param name="uri">Absolute URL, http or https. Fragment and user name are not sent; credentials belong into
    /// Authorization.</param>
    /// <exception cref="ArgumentException">An argument is not valid.</exception>
    public HttpClientRequest(string method, Uri uri)
    {
        ArgumentException.ThrowIfNullOrEmpty(method);
        ArgumentNullException.ThrowIfNull(uri);
        if (!HttpBytes.IsToken(method)) throw new ArgumentException("A method is a token.", nameof(method));
        if (method == "CONNECT")
            throw new ArgumentException("CONNECT makes a tunnel, which is not offered here.", nameof(method));
        if (!uri.IsAbsoluteUri || (uri.Scheme != Uri.UriSchemeHttp && uri.Scheme != Uri.UriSchemeHttps))
            throw new ArgumentException($"'{uri.OriginalString}' is no absolute http or https URL. Give all of it: "
                + $"http://host/path or https://host/path.", nameof(uri));
        Method = method;
        Uri = uri;
        _method = Encoding.ASCII.GetBytes(method);
        _target = Encoding.UTF8.GetBytes(method == "OPTIONS" && uri.OriginalString.EndsWith("/*",
            StringComparison.Ordinal) && uri.PathAndQuery == "/*" ? "*" : uri.PathAndQuery);
        _host = Encoding.ASCII.GetBytes(HostOf(uri));
        if (_target.AsSpan().ContainsAnyExcept(HttpBytes.Query))
            throw new ArgumentException(
                $"{uri} has bytes that may not stand in a request: encode them by percent signs.", nameof(uri));
        if (!HttpBytes.IsAuthority(_host))
            throw new ArgumentException($"{uri} has no host that can be asked for.", nameof(uri));
    }

    /// <summary>Method.</summary>
    public string Method { get; }

    /// <summary>URL.</summary>
    public Uri Uri { get; }

    /// <summary>Whether to wait for 100 (Continue) before the body is sent (<c>Expect: 100-continue</c>). Only for
    /// pools, and with a body.</summary>
    public bool ExpectContinue { get; set; }

    /// <summary>Whether to close the connection after the response.</summary>
    public bool CloseAfter { get; set; }

    /// <summary>Adds a field. Other fields with the same name stay, except Host, which follows from the URL and is
    /// replaced.</summary>
    /// <param name="name">A token. Fields that frame the body, Connection and Expect are not allowed; the last two have
    /// properties.</param>
    /// <param name="value">ASCII without control characters.</param>
    /// <exception cref="ArgumentException">Invalid name or value. A line end in a value could add a field or a second
    /// request.</exception>
    public void Add(string name, string value)
    {
        ArgumentNullException.ThrowIfNull(name);
        ArgumentNullException.ThrowIfNull(value);
        if (Is(name, "Connection") || Is(name, "Expect"))
            throw new ArgumentException(
                "Connection and Expect follow from the rest: see CloseAfter and ExpectContinue.", nameof(name));
        int written;
        while (!HttpWriter.TryWriteField(_fields.AsSpan(_fieldBytes), name, value, out written))
            Array.Resize(ref _fields, (_fieldBytes + written) * 2);
        if (Is(name, "Host"))
        {
            byte[] host = Encoding.ASCII.GetBytes(value);
            if (!HttpBytes.IsAuthority(host))
                throw new ArgumentException($"{value} is no host with or without a port.", nameof(value));
            _host = host;
            return;
        }

        _fieldBytes += written;
        (_list ??= []).Add(new(name, value));
        if (Is(name, "Accept-Encoding")) _hasAcceptEncoding = true;
        else if (Is(name, "Content-Type")) _contentType = null;
        else if (Is(name, "Upgrade")) _isUpgrade = true;
    }

    /// <summary>
    /// Adds the fields of a forwarded request unchanged. Hop-by-hop fields (Connection and the fields it names,
    /// Keep-Alive, TE, Trailer, Upgrade and the like) and fields that frame the body are omitted. So is Host, which
    /// follows from the URL. Expect becomes <see cref="ExpectContinue"/>.
    /// </summary>
    /// <param name="request">Request with an exchange that has not ended.</param>
    public void AddFieldsOf(HttpRequest request)
    {
        using HttpRequest.RequestUse use = request.Enter();
        _hasAcceptEncoding = true; // its client has sent Accept-Encoding, or wants none
        for (int i = 0; i < use.Reader.Count; i++)
        {
            HttpField field = use.Reader[i].Field;
            if (field == HttpField.Expect) ExpectContinue = true;
            else if (field != HttpField.Host && HttpForwarding.GoesOn(use.Head, i))
                AddChecked(use.Head.NameAt(i), use.Head.ValueAt(i));
        }
    }

    // As strings for redirects, which omit some of them.
    private void AddChecked(ReadOnlySpan<byte> name, ReadOnlySpan<byte> value)
    {
        int length = name.Length + value.Length + 4;
        if (_fields.Length - _fieldBytes < length) Array.Resize(ref _fields, (_fieldBytes + length) * 2);
        HttpWriter.WriteChecked(_fields.AsSpan(_fieldBytes), name, value);
        _fieldBytes += length;
        (_list ??= []).Add(new(Encoding.Latin1.GetString(name), Encoding.Latin1.GetString(value)));
    }

    /// <summary>Sets a body from memory.</summary>
    /// <param name="bytes">The body. Not copied: it must not change while the request is sent.</param>
    /// <param name="contentType">Content-Type; null for none.</param>
    public void SetBody(ReadOnlyMemory<byte> bytes, string? contentType = null) =>
        SetBody(bytes, null, contentType, bytes.Length);

    /// <summary>Sets a body from a stream, read on the thread pool as fast as the server reads. Such a request can be
    /// sent once.</summary>
    /// <param name="stream">Stream, read from its current position. Not disposed.</param>
    /// <param name="contentType">Content-Type; null for none.</param>
    /// <param name="length">Length of the body in bytes; -1 (the default) if unknown: it is then sent in
    /// chunks.</param>
    public void SetBody(Stream stream, string? contentType = null, long length = -1)
    {
        ArgumentNullException.ThrowIfNull(stream);
        SetBody((to, stop) => stream.CopyToAsync(to, stop), contentType, length);
    }

    /// <summary>Sets a function that writes the body on the thread pool. Its writes wait while the server does not
    /// read. Such a request can be sent once.</summary>
    /// <param name="write">Function that writes the body. Its token is cancelled when the body is not needed any
    /// more.</param>
    /// <param name="contentType">Content-Type; null for none.</param>
    /// <param name="length">Length of the body in bytes; -1 (the default) if unknown: it is then sent in
    /// chunks.</param>
    public void SetBody(Func<Stream, CancellationToken, Task> write, string? contentType = null, long length = -1)
    {
        ArgumentNullException.ThrowIfNull(write);
        SetBody(default, write, contentType, length);
    }

    private void SetBody(ReadOnlyMemory<byte> bytes, Func<Stream, CancellationToken, Task>? write, string? contentType,
        long length)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(length, -1);
        if (Method == "TRACE") throw new InvalidOperationException("TRACE has no body.");
        if (contentType is not null) HttpWriter.CheckText(contentType);
        Body = bytes;
        Write = write;
        BodyLength = length;
        _contentType = contentType;
    }

    /// <summary>Returns method and URL, for logs.</summary>
    public override string ToString() => $"{Method} {Uri}";

    // ------------------------------------------------------------------ for sessions and pools

    internal ReadOnlyMemory<byte> Body { get; private set; }

    internal Func<Stream, CancellationToken, Task>? Write { get; private set; }

    /// <summary>Length of the body in bytes; -1 if unknown, 0 without a body.</summary>
    internal long BodyLength { get; private set; }

    internal bool IsHead => Method == "HEAD";

    /// <summary>Whether <see cref="Write"/> may be called again for a redirect: it throws if it cannot.</summary>
    internal bool CanWriteAgain { get; set; }

    /// <summary>Whether the request can be sent again although the result of the first attempt is unknown.</summary>
    internal bool IsRepeatable =>
        Write is null && Method is "GET" or "HEAD" or "OPTIONS" or "TRACE" or "PUT" or "DELETE";

    internal IReadOnlyList<KeyValuePair<string, string>> Fields =>
        _list ?? (IReadOnlyList<KeyValuePair<string, string>>)[];

    internal string? ContentType => _contentType;

    /// <summary>Returns an upper bound of the length written by <see cref="WriteHead"/>.</summary>
    internal int HeadBytes(string? cookies, byte[]? trace = null) => HeadRoom + _method.Length + _target.Length
        + _host.Length + _fieldBytes + (_contentType?.Length ?? 0) + (cookies?.Length ?? 0) + (trace?.Length ?? 0);

    /// <summary>Writes the head, and returns its length.</summary>
    /// <param name="room">Buffer of at least <see cref="HeadBytes"/>.</param>
    /// <param name="asksForCoding">Whether to send Accept-Encoding if the request has none.</param>
    /// <param name="cookies">Value of Cookie, in ASCII without control characters, or null.</param>
    /// <param name="trace">Checked trace context fields, or null.</param>
    internal int WriteHead(Span<byte> room, bool asksForCoding, string? cookies, byte[]? trace = null)
    {
        HttpWriter writer = new(room);
        writer.RequestLine(_method, _target);
        writer.Field(HttpField.Host, _host);
        writer.CheckedFields(_fields.AsSpan(0, _fieldBytes));
        if (asksForCoding && !_hasAcceptEncoding) writer.CheckedFields("Accept-Encoding: gzip, br, deflate\r\n"u8);
        if (trace is not null) writer.CheckedFields(trace);
        if (cookies is not null) writer.Field(HttpField.Cookie, cookies);
        if (_contentType is not null) writer.Field(HttpField.ContentType, _contentType);
        if (ExpectContinue && BodyLength != 0) writer.CheckedFields("Expect: 100-continue\r\n"u8);
        if (CloseAfter) writer.CheckedFields("Connection: close\r\n"u8);
        else if (_isUpgrade) writer.CheckedFields("Connection: Upgrade\r\n"u8);
        if (BodyLength < 0) writer.Chunked();
        else if (BodyLength > 0 || Write is not null
            || Method is not ("GET" or "HEAD" or "DELETE" or "OPTIONS" or "TRACE"))
            writer.ContentLength(BodyLength);
        writer.EndHead();
        System.Diagnostics.Debug.Assert(!writer.IsFull, "the room was counted");
        return writer.Length;
    }

    /// <summary>Returns host and port in the form of the Host field.</summary>
    internal static string HostOf(Uri uri)
    {
        string host = uri.HostNameType == UriHostNameType.IPv6 ? uri.Host : uri.IdnHost;
        return uri.IsDefaultPort ? host : $"{host}:{uri.Port}";
    }

    private static bool Is(string name, string other) => name.Equals(other, StringComparison.OrdinalIgnoreCase);
}
