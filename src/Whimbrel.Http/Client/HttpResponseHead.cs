using System.Text;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

/// <summary>
/// Status and fields of an answer, as they were sent; strings are made when they are asked for. In the callbacks of an
/// <see cref="HttpClientSession"/> it is valid until the callback has returned, of an <see cref="HttpClientResponse"/> for good.
/// </summary>
public sealed class HttpResponseHead
{
    private HttpHead? _head;
    private byte[]? _trailers;

    internal HttpResponseHead()
    {
    }

    internal HttpResponseHead(HttpHead head) => _head = head;

    /// <summary>100 up to 599. A server that breaks the rules may send up to 999: from 600 on it means what 500 means (RFC 9110, 15).</summary>
    public int Status => Head.Reader.Status;

    /// <summary>The words behind the status; mostly empty or the usual ones. Bytes of the server's: no text to show to anybody.</summary>
    public ReadOnlySpan<byte> Reason => Head.Bytes[Head.Reader.Reason];

    /// <summary>1 for HTTP/1.1 (also where the server names a higher minor version), 0 for HTTP/1.0.</summary>
    public int MinorVersion => Head.Reader.MinorVersion;

    /// <summary>How many fields it has.</summary>
    public int FieldCount => Head.Reader.Count;

    /// <summary>How long the body will be, before anything is decompressed: -1 when it is not known, 0 when there is none.</summary>
    public long BodyLength => Head.Reader.Framing switch
    {
        HttpFraming.None => 0,
        HttpFraming.Length => Head.Reader.ContentLength,
        _ => -1,
    };

    /// <summary>The value of the first field of this kind; empty when there is none.</summary>
    /// <param name="field">Any but <see cref="HttpField.Other"/>.</param>
    public ReadOnlySpan<byte> this[HttpField field] => TryGet(field, out ReadOnlySpan<byte> value) ? value : default;

    /// <summary>The value of the first field with this name as text, or null.</summary>
    /// <param name="name">In any case.</param>
    public string? this[string name] => Head.TextOf(name);

    /// <summary>The value of the first field of this kind.</summary>
    /// <param name="field">Any but <see cref="HttpField.Other"/>.</param>
    /// <param name="value">Without spaces around it.</param>
    public bool TryGet(HttpField field, out ReadOnlySpan<byte> value) => Head.TryGet(field, out value);

    /// <summary>The value of the first field with this name.</summary>
    /// <param name="name">In any case.</param>
    /// <param name="value">Without spaces around it.</param>
    public bool TryGet(ReadOnlySpan<byte> name, out ReadOnlySpan<byte> value) => Head.TryGet(name, out value);

    /// <summary>The name of a field, as it was sent.</summary>
    /// <param name="index">0 up to <see cref="FieldCount"/>.</param>
    public ReadOnlySpan<byte> NameAt(int index) => Head.NameAt(index);

    /// <summary>The value of a field, without spaces around it.</summary>
    /// <param name="index">0 up to <see cref="FieldCount"/>.</param>
    public ReadOnlySpan<byte> ValueAt(int index) => Head.ValueAt(index);

    /// <summary>The value of a field behind a chunked body, when the body was read to its end.</summary>
    /// <param name="name">In any case.</param>
    /// <param name="value">Without spaces around it.</param>
    public bool TryGetTrailer(ReadOnlySpan<byte> name, out ReadOnlySpan<byte> value) => HttpLines.TryFind(Trailers, name, out value);

    /// <summary>The status line, for logs.</summary>
    public override string ToString() => $"{Status} {Encoding.Latin1.GetString(Reason)}".TrimEnd();

    // ------------------------------------------------------------------ for the sessions

    internal HttpHead Head => _head ?? throw new InvalidOperationException("The head of an answer is there while its callback runs: copy what is wanted later.");

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
