using System.Text;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

/// <summary>
/// Status and fields of a response, as received; strings are created on demand. In the callbacks of an
/// <see cref="HttpClientSession"/> it is valid until the callback returns, in an <see cref="HttpClientResponse"/>
/// permanently.
/// </summary>
public sealed class HttpResponseHead
{
    private HttpHead? _head;
    private byte[]? _trailers;

    internal HttpResponseHead()
    {
    }

    internal HttpResponseHead(HttpHead head) => _head = head;

    /// <summary>100 to 599. A server that breaks the rules may send up to 999: from 600 on handle it as 500 (RFC 9110,
    /// 15).</summary>
    public int Status => Head.Reader.Status;

    /// <summary>Reason phrase; usually empty or the standard one. Bytes of the server, not to be shown to
    /// users.</summary>
    public ReadOnlySpan<byte> Reason => Head.Bytes[Head.Reader.Reason];

    /// <summary>1 for HTTP/1.1 and higher minor versions, 0 for HTTP/1.0.</summary>
    public int MinorVersion => Head.Reader.MinorVersion;

    /// <summary>Number of fields.</summary>
    public int FieldCount => Head.Reader.Count;

    /// <summary>Length of the body in bytes, before decompression: -1 if unknown, 0 if there is none.</summary>
    public long BodyLength => Head.Reader.Framing switch
    {
        HttpFraming.None => 0,
        HttpFraming.Length => Head.Reader.ContentLength,
        _ => -1,
    };

    /// <summary>Value of the first field of this kind; empty if there is none.</summary>
    /// <param name="field">Any value except <see cref="HttpField.Other"/>.</param>
    public ReadOnlySpan<byte> this[HttpField field] => TryGet(field, out ReadOnlySpan<byte> value) ? value : default;

    /// <summary>Value of the first field with this name as text, or null.</summary>
    /// <param name="name">Name of the field, case-insensitive.</param>
    public string? this[string name] => Head.TextOf(name);

    /// <summary>Gets the value of the first field of this kind.</summary>
    /// <param name="field">Any value except <see cref="HttpField.Other"/>.</param>
    /// <param name="value">Value without surrounding spaces.</param>
    public bool TryGet(HttpField field, out ReadOnlySpan<byte> value) => Head.TryGet(field, out value);

    /// <summary>Gets the value of the first field with this name.</summary>
    /// <param name="name">Name of the field, case-insensitive.</param>
    /// <param name="value">Value without surrounding spaces.</param>
    public bool TryGet(ReadOnlySpan<byte> name, out ReadOnlySpan<byte> value) => Head.TryGet(name, out value);

    /// <summary>Returns the name of a field, as received.</summary>
    /// <param name="index">From 0 to less than <see cref="FieldCount"/>.</param>
    public ReadOnlySpan<byte> NameAt(int index) => Head.NameAt(index);

    /// <summary>Returns the value of a field, without surrounding spaces.</summary>
    /// <param name="index">From 0 to less than <see cref="FieldCount"/>.</param>
    public ReadOnlySpan<byte> ValueAt(int index) => Head.ValueAt(index);

    /// <summary>Gets the value of a trailer field of a chunked body. Only after the body was read to its end.</summary>
    /// <param name="name">Name of the field, case-insensitive.</param>
    /// <param name="value">Value without surrounding spaces.</param>
    public bool TryGetTrailer(ReadOnlySpan<byte> name, out ReadOnlySpan<byte> value) =>
        HttpLines.TryFind(Trailers, name, out value);

    /// <summary>Returns status and reason phrase, for logs.</summary>
    public override string ToString() => $"{Status} {Encoding.Latin1.GetString(Reason)}".TrimEnd();

    // ------------------------------------------------------------------ for the sessions

    internal HttpHead Head => _head ?? throw new InvalidOperationException(
        "The head of an answer is there while its callback runs: copy what is wanted later.");

    internal ReadOnlySpan<byte> Trailers => Volatile.Read(ref _trailers);

    internal void Show(HttpHead? head)
    {
        _head = head;
        _trailers = null;
    }

    internal void SetTrailers(ReadOnlySpan<byte> trailers)
    {
        if (trailers.IsEmpty) return;
        byte[] kept = trailers.ToArray();
        HttpLines.Unfold(kept);
        Volatile.Write(ref _trailers, kept);
    }
}
