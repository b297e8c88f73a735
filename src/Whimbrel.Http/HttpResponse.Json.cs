using System.Buffers;
using System.Diagnostics.CodeAnalysis;
using System.Text.Json;
using System.Text.Json.Serialization.Metadata;

namespace Whimbrel.Http;

// JSON responses.
public readonly partial struct HttpResponse
{
    private const string Reflection = "The members of the value are found at run time, where trimming may have removed "
        + "them. Give a JsonTypeInfo of a JsonSerializerContext.";

    [ThreadStatic]
    private static Utf8JsonWriter? t_json;

    [ThreadStatic]
    private static ArrayBufferWriter<byte>? t_jsonBytes;

    /// <summary>Responds with JSON, as <c>application/json</c>.</summary>
    /// <param name="value">Value to write.</param>
    /// <param name="type">Metadata from a source-generated context, so that no reflection is used.</param>
    public void Json<T>(T value, JsonTypeInfo<T> type)
    {
        ArgumentNullException.ThrowIfNull(type);
        MustBeOpen();
        // Indentation and escaping are settings of the writer, and the cached one has the defaults.
        if (type.Options is { WriteIndented: true } or { Encoder: not null })
        {
            Bytes(JsonSerializer.SerializeToUtf8Bytes(value, type), "application/json"u8);
            return;
        }

        ArrayBufferWriter<byte> bytes = t_jsonBytes ??= new ArrayBufferWriter<byte>();
        bytes.ResetWrittenCount();
        Utf8JsonWriter writer = t_json ??= new Utf8JsonWriter(bytes);
        writer.Reset(bytes);
        JsonSerializer.Serialize(writer, value, type);
        writer.Flush();
        Bytes(bytes.WrittenSpan, "application/json"u8);
        if (bytes.Capacity > LargestKeptJson) t_jsonBytes = null; // a large response does not keep its memory
    }

    /// <summary>
    /// Responds with any object as JSON, as <c>application/json</c>, by reflection. For programs without trimming and
    /// native AOT. It allocates the text.
    /// </summary>
    /// <param name="value">Value to write, with the members of its run-time class. Null becomes <c>null</c>.</param>
    /// <param name="options">Options; null for <see cref="JsonSerializerOptions.Web"/>, names in camel case.</param>
    /// <exception cref="NotSupportedException">A member cannot be serialized.</exception>
    /// <exception cref="JsonException">The value contains itself, or is nested too deeply.</exception>
    [RequiresUnreferencedCode(Reflection), RequiresDynamicCode(Reflection)]
    public void Json(object? value, JsonSerializerOptions? options = null)
    {
        MustBeOpen();
        Bytes(JsonSerializer.SerializeToUtf8Bytes(value, value?.GetType() ?? typeof(object),
            options ?? JsonSerializerOptions.Web), "application/json"u8);
    }
}
