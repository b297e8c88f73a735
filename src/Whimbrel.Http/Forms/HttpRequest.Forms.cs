using System.Runtime.CompilerServices;
using System.Text;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

// Query, forms and cookies.
public readonly partial struct HttpRequest
{
    /// <summary>Query after the question mark: names and values, or, as bytes, the whole percent-encoded
    /// text.</summary>
    public HttpPairs Query => new(Checked, isForm: false);

    /// <summary>Names and values of a form (<c>application/x-www-form-urlencoded</c>) with a buffered body; empty
    /// without a body. Awaited handlers use <see cref="ReadFormAsync"/>.</summary>
    /// <exception cref="HttpProtocolException">The body has another type (415), or more than
    /// <see cref="HttpOptions.FormFieldLimit"/> fields (413).</exception>
    /// <exception cref="InvalidOperationException">The body is a stream.</exception>
    public HttpPairs Form
    {
        get
        {
            if (StreamedBody is not null)
                throw new InvalidOperationException("The body of this request is a stream: await ReadFormAsync.");
            CheckFormType();
            CheckFormFields(BodyBytes);
            return new HttpPairs(this, isForm: true);
        }
    }

    /// <summary>Cookies.</summary>
    public HttpCookies Cookies => new(Checked);

    /// <summary>Reads the body of an awaited handler as a form (<c>application/x-www-form-urlencoded</c>). The result
    /// stays valid.</summary>
    /// <param name="cancellationToken">Cancels the read.</param>
    /// <exception cref="HttpProtocolException">The body has another type (415), exceeds
    /// <see cref="HttpOptions.BufferedBodyLimitBytes"/>, has more than <see cref="HttpOptions.FormFieldLimit"/> fields
    /// (413), or is malformed.</exception>
    public async ValueTask<HttpPairs> ReadFormAsync(CancellationToken cancellationToken = default)
    {
        CheckFormType();
        ReadOnlyMemory<byte> body = await ReadBodyAsync(cancellationToken).ConfigureAwait(false);
        CheckFormFields(body.Span);
        return new HttpPairs(body);
    }

    /// <summary>
    /// Reads the parts of a form with files (<c>multipart/form-data</c>) one after the other, as they arrive: <c>await
    /// foreach</c>. Unread bytes of a part are skipped. Only 16 KiB are buffered, so a part may be as large as the
    /// body.
    /// </summary>
    /// <param name="cancellationToken">Cancels the read.</param>
    /// <exception cref="HttpProtocolException">The body has another type (415), more than
    /// <see cref="HttpOptions.FormFieldLimit"/> parts (413), or is malformed (400).</exception>
    public async IAsyncEnumerable<HttpPart> ReadPartsAsync(
        [EnumeratorCancellation] CancellationToken cancellationToken = default)
    {
        if (!MultipartReader.TryFindBoundary(this[HttpField.ContentType], out ReadOnlySpan<byte> boundary))
            throw Session.Mistake(415, "The body is no multipart/form-data with a boundary");
        HttpPartReader parts = new(Session, Body, new MultipartReader(boundary, Session.Options.FormFieldLimit));
        try
        {
            while (await parts.NextAsync(cancellationToken).ConfigureAwait(false) is { } part) yield return part;
        }
        finally
        {
            parts.End();
        }
    }

    private void CheckFormType()
    {
        ReadOnlySpan<byte> type = this[HttpField.ContentType];
        int end = type.IndexOf((byte)';');
        if (end >= 0) type = type[..end];
        if (HasBody && !Ascii.EqualsIgnoreCase(HttpBytes.Trim(type), "application/x-www-form-urlencoded"u8))
            throw Session.Mistake(415, "The body is no application/x-www-form-urlencoded");
    }

    private void CheckFormFields(ReadOnlySpan<byte> form)
    {
        if (form.Count((byte)'&') >= Session.Options.FormFieldLimit)
            throw Session.Mistake(413, "The form has too many fields");
    }
}
