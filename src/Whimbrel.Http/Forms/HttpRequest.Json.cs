using System.Diagnostics.CodeAnalysis;
using System.Text;
using System.Text.Json;
using System.Text.Json.Serialization.Metadata;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

// JSON bodies. A malformed one is an error of the client, not of the handler.
public readonly partial struct HttpRequest
{
    private const string Reflection = "The members of the type are found at run time, where trimming may have removed "
        + "them. Give a JsonTypeInfo of a JsonSerializerContext.";

    /// <summary>Reads the body in memory as JSON (<c>application/json</c>, or a type that ends in <c>+json</c>).
    /// Awaited handlers use <see cref="ReadJsonAsync{T}(JsonTypeInfo{T}, CancellationToken)"/>.</summary>
    /// <param name="type">Metadata from a source-generated context. Use <c>JsonSerializerDefaults.Web</c> for names in
    /// camel case.</param>
    /// <returns>The value; null for the JSON value <c>null</c>.</returns>
    /// <exception cref="HttpProtocolException">The body has another type (415), or is missing, malformed or of another
    /// form (400).</exception>
    /// <exception cref="InvalidOperationException">The body is a stream, as in an awaited handler.</exception>
    public T? Json<T>(JsonTypeInfo<T> type)
    {
        ArgumentNullException.ThrowIfNull(type);
        return ParseJson(JsonBytes(), type, static (body, type) => JsonSerializer.Deserialize(body, type));
    }

    /// <summary>Reads the body in memory as JSON by reflection, for programs without trimming and native AOT.</summary>
    /// <param name="options">Options; null for <see cref="JsonSerializerOptions.Web"/>, case-insensitive names.</param>
    /// <returns>The value; null for the JSON value <c>null</c>.</returns>
    /// <exception cref="HttpProtocolException">The body has another type (415), or is missing, malformed or of another
    /// form (400).</exception>
    /// <exception cref="InvalidOperationException">The body is a stream, as in an awaited handler.</exception>
    [RequiresUnreferencedCode(Reflection), RequiresDynamicCode(Reflection)]
    public T? Json<T>(JsonSerializerOptions? options = null) => ParseJson(JsonBytes(),
        options ?? JsonSerializerOptions.Web, static (body, options) => JsonSerializer.Deserialize<T>(body, options));

    /// <summary>Reads the body of an awaited handler as JSON (<c>application/json</c>, or a type that ends in
    /// <c>+json</c>).</summary>
    /// <param name="type">Metadata from a source-generated context. Use <c>JsonSerializerDefaults.Web</c> for names in
    /// camel case.</param>
    /// <param name="cancellationToken">Cancels the read.</param>
    /// <returns>The value; null for the JSON value <c>null</c>.</returns>
    /// <exception cref="HttpProtocolException">The body has another type (415), exceeds
    /// <see cref="HttpOptions.BufferedBodyLimitBytes"/> (413), or is missing, malformed or of another form
    /// (400).</exception>
    public async ValueTask<T?> ReadJsonAsync<T>(JsonTypeInfo<T> type, CancellationToken cancellationToken = default)
    {
        ArgumentNullException.ThrowIfNull(type);
        CheckJsonType();
        ReadOnlyMemory<byte> body = await ReadBodyAsync(cancellationToken).ConfigureAwait(false);
        return ParseJson(body.Span, type, static (body, type) => JsonSerializer.Deserialize(body, type));
    }

    /// <summary>Reads the body of an awaited handler as JSON by reflection, for programs without trimming and native
    /// AOT.</summary>
    /// <param name="options">Options; null for <see cref="JsonSerializerOptions.Web"/>, case-insensitive names.</param>
    /// <param name="cancellationToken">Cancels the read.</param>
    /// <returns>The value; null for the JSON value <c>null</c>.</returns>
    /// <exception cref="HttpProtocolException">The body has another type (415), exceeds
    /// <see cref="HttpOptions.BufferedBodyLimitBytes"/> (413), or is missing, malformed or of another form
    /// (400).</exception>
    [RequiresUnreferencedCode(Reflection), RequiresDynamicCode(Reflection)]
    public async ValueTask<T?> ReadJsonAsync<T>(JsonSerializerOptions? options = null,
        CancellationToken cancellationToken = default)
    {
        CheckJsonType();
        ReadOnlyMemory<byte> body = await ReadBodyAsync(cancellationToken).ConfigureAwait(false);
        return ParseJson(body.Span, options ?? JsonSerializerOptions.Web,
            static (body, options) => JsonSerializer.Deserialize<T>(body, options));
    }

    private delegate T? JsonParser<T, TKind>(ReadOnlySpan<byte> body, TKind kind);

    private T? ParseJson<T, TKind>(ReadOnlySpan<byte> body, TKind kind, JsonParser<T, TKind> parse)
    {
        if (body.StartsWith(Encoding.UTF8.Preamble)) body = body[Encoding.UTF8.Preamble.Length..];
        if (body.IsEmpty) throw Session.Mistake(400, "The body is missing: JSON is expected");
        try
        {
            return parse(body, kind);
        }
        catch (JsonException e)
        {
            // The exception's message names types of the program.
            throw Session.Mistake(400,
                $"The body is no JSON of the expected form{(e.Path is { Length: > 0 } path ? $" (at {path})" : "")}");
        }
    }

    private ReadOnlySpan<byte> JsonBytes()
    {
        if (StreamedBody is not null && KnownBody is null)
            throw new InvalidOperationException(
                "The body of this request is a stream, because its handler is awaited: await ReadJsonAsync.");
        CheckJsonType();
        return BodyBytes;
    }

    // Small clients may omit the type; a type that is sent must be JSON.
    private void CheckJsonType()
    {
        ReadOnlySpan<byte> type = this[HttpField.ContentType];
        int end = type.IndexOf((byte)';');
        if (end >= 0) type = type[..end];
        type = HttpBytes.Trim(type);
        if (type.IsEmpty || Ascii.EqualsIgnoreCase(type, "application/json"u8)
            || (type.Length > 5 && Ascii.EqualsIgnoreCase(type[^5..], "+json"u8)))
            return;
        throw Session.Mistake(415, "The body is no application/json");
    }
}
