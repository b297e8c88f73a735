using System.Diagnostics.CodeAnalysis;
using System.Text;
using System.Text.Json;
using System.Text.Json.Serialization.Metadata;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

// Bodies in JSON. What is none is the client's mistake, and no error of the handler.
public readonly partial struct HttpRequest
{
    private const string Reflection = "The members of the type are found at run time, where trimming may have removed them. Give a JsonTypeInfo of a JsonSerializerContext.";

    /// <summary>Reads the body in memory as JSON (<c>application/json</c>, or a type that ends in <c>+json</c>). Awaited handlers have <see cref="ReadJsonAsync{T}(JsonTypeInfo{T}, CancellationToken)"/>.</summary>
    /// <param name="type">From a context that the compiler makes. Make it with <c>JsonSerializerDefaults.Web</c> for names in camel case.</param>
    /// <returns>Null for the JSON value <c>null</c>.</returns>
    /// <exception cref="HttpProtocolException">The body is something else (415), or is missing, broken or of another form (400).</exception>
    /// <exception cref="InvalidOperationException">The body is a stream, as in an awaited handler.</exception>
    public T? Json<T>(JsonTypeInfo<T> type)
    {
        ArgumentNullException.ThrowIfNull(type);
        return ParseJson(JsonBytes(), type, static (body, type) => JsonSerializer.Deserialize(body, type));
    }

    /// <summary>The same by reflection, for programs that are not trimmed and not compiled ahead.</summary>
    /// <param name="options">Null: <see cref="JsonSerializerOptions.Web"/>, names in any case.</param>
    /// <returns>Null for the JSON value <c>null</c>.</returns>
    /// <exception cref="HttpProtocolException">The body is something else (415), or is missing, broken or of another form (400).</exception>
    /// <exception cref="InvalidOperationException">The body is a stream, as in an awaited handler.</exception>
    [RequiresUnreferencedCode(Reflection), RequiresDynamicCode(Reflection)]
    public T? Json<T>(JsonSerializerOptions? options = null) => ParseJson(JsonBytes(), options ?? JsonSerializerOptions.Web, static (body, options) => JsonSerializer.Deserialize<T>(body, options));

    /// <summary>Reads the body of an awaited handler as JSON (<c>application/json</c>, or a type that ends in <c>+json</c>).</summary>
    /// <param name="type">From a context that the compiler makes. Make it with <c>JsonSerializerDefaults.Web</c> for names in camel case.</param>
    /// <param name="cancellationToken">Gives up.</param>
    /// <returns>Null for the JSON value <c>null</c>.</returns>
    /// <exception cref="HttpProtocolException">The body is something else (415), is larger than <see cref="HttpOptions.BufferedBodyLimitBytes"/> (413), or is missing, broken or of another form (400).</exception>
    public async ValueTask<T?> ReadJsonAsync<T>(JsonTypeInfo<T> type, CancellationToken cancellationToken = default)
    {
        ArgumentNullException.ThrowIfNull(type);
        CheckJsonType();
        ReadOnlyMemory<byte> body = await ReadBodyAsync(cancellationToken).ConfigureAwait(false);
        return ParseJson(body.Span, type, static (body, type) => JsonSerializer.Deserialize(body, type));
    }

    /// <summary>The same by reflection, for programs that are not trimmed and not compiled ahead.</summary>
    /// <param name="options">Null: <see cref="JsonSerializerOptions.Web"/>, names in any case.</param>
    /// <param name="cancellationToken">Gives up.</param>
    /// <returns>Null for the JSON value <c>null</c>.</returns>
    /// <exception cref="HttpProtocolException">The body is something else (415), is larger than <see cref="HttpOptions.BufferedBodyLimitBytes"/> (413), or is missing, broken or of another form (400).</exception>
    [RequiresUnreferencedCode(Reflection), RequiresDynamicCode(Reflection)]
    public async ValueTask<T?> ReadJsonAsync<T>(JsonSerializerOptions? options = null, CancellationToken cancellationToken = default)
    {
        CheckJsonType();
        ReadOnlyMemory<byte> body = await ReadBodyAsync(cancellationToken).ConfigureAwait(false);
        return ParseJson(body.Span, options ?? JsonSerializerOptions.Web, static (body, options) => JsonSerializer.Deserialize<T>(body, options));
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
            // Its text names types of the program.
            throw Session.Mistake(400, $"The body is no JSON of the expected form{(e.Path is { Length: > 0 } path ? $" (at {path})" : "")}");
        }
    }

    private ReadOnlySpan<byte> JsonBytes()
    {
        if (StreamedBody is not null && KnownBody is null) throw new InvalidOperationException("The body of this request is a stream, because its handler is awaited: await ReadJsonAsync.");
        CheckJsonType();
        return BodyBytes;
    }

    // A body without a type may be what a small client sends; one that says what it is is believed.
    private void CheckJsonType()
    {
        ReadOnlySpan<byte> type = this[HttpField.ContentType];
        int end = type.IndexOf((byte)';');
        if (end >= 0) type = type[..end];
        type = HttpBytes.Trim(type);
        if (type.IsEmpty || Ascii.EqualsIgnoreCase(type, "application/json"u8) || (type.Length > 5 && Ascii.EqualsIgnoreCase(type[^5..], "+json"u8))) return;
        throw Session.Mistake(415, "The body is no application/json");
    }
}
