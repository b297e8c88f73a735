using System.Runtime.CompilerServices;
using System.Text;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

// What a client filled in or was given to keep: the query, forms, cookies.
public readonly partial struct HttpRequest
{
    /// <summary>What stands behind the question mark: names and values, or, as bytes, all of it with its percent signs.</summary>
    public HttpPairs Query => new(Checked, isForm: false);

    /// <summary>The names and values of a form (<c>application/x-www-form-urlencoded</c>) whose body was kept; empty without a body. Awaited handlers have <see cref="ReadFormAsync"/>.</summary>
    /// <exception cref="HttpProtocolException">The body is something else (415), or has more than <see cref="HttpOptions.FormFieldLimit"/> fields (413).</exception>
    /// <exception cref="InvalidOperationException">The body is a stream.</exception>
    public HttpPairs Form
    {
        get
        {
            if (StreamedBody is not null) throw new InvalidOperationException("The body of this request is a stream: await ReadFormAsync.");
            CheckFormType();
            CheckFormFields(BodyBytes);
            return new HttpPairs(this, isForm: true);
        }
    }

    /// <summary>Its cookies.</summary>
    public HttpCookies Cookies => new(Checked);

    /// <summary>Reads the body of an awaited handler as a form (<c>application/x-www-form-urlencoded</c>). What it gives stays valid.</summary>
    /// <param name="cancellationToken">Gives up.</param>
    /// <exception cref="HttpProtocolException">It is something else (415), is larger than <see cref="HttpOptions.BufferedBodyLimitBytes"/>, has more than <see cref="HttpOptions.FormFieldLimit"/> fields (413), or is broken.</exception>
    public async ValueTask<HttpPairs> ReadFormAsync(CancellationToken cancellationToken = default)
    {
        CheckFormType();
        ReadOnlyMemory<byte> body = await ReadBodyAsync(cancellationToken).ConfigureAwait(false);
        CheckFormFields(body.Span);
        return new HttpPairs(body);
    }

    /// <summary>
    /// The parts of a form with files (<c>multipart/form-data</c>), one after the other, as they come: <c>await foreach</c>. The bytes of a part that are not
    /// read are passed over. Nothing is kept but 16 KiB, so a part may be as large as the body.
    /// </summary>
    /// <param name="cancellationToken">Gives up.</param>
    /// <exception cref="HttpProtocolException">The body is something else (415), has more than <see cref="HttpOptions.FormFieldLimit"/> parts (413), or is broken (400).</exception>
    public async IAsyncEnumerable<HttpPart> ReadPartsAsync([EnumeratorCancellation] CancellationToken cancellationToken = default)
    {
        if (!MultipartReader.TryFindBoundary(this[HttpField.ContentType], out ReadOnlySpan<byte> boundary)) throw Session.Mistake(415, "The body is no multipart/form-data with a boundary");
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
        if (HasBody && !Ascii.EqualsIgnoreCase(HttpBytes.Trim(type), "application/x-www-form-urlencoded"u8)) throw Session.Mistake(415, "The body is no application/x-www-form-urlencoded");
    }

    private void CheckFormFields(ReadOnlySpan<byte> form)
    {
        if (form.Count((byte)'&') >= Session.Options.FormFieldLimit) throw Session.Mistake(413, "The form has too many fields");
    }
}
