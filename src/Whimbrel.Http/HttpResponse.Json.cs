using System.Buffers;
using System.Diagnostics.CodeAnalysis;
using System.Text.Json;
using System.Text.Json.Serialization.Metadata;

namespace Whimbrel.Http;

// Answers with JSON.
public readonly partial struct HttpResponse
{
    private const string Reflection = "The members of the value are found at run time, where trimming may have removed them. Give a JsonTypeInfo of a JsonSerializerContext.";

    [ThreadStatic]
    private static Utf8JsonWriter? t_json;

    [ThreadStatic]
    private static ArrayBufferWriter<byte>? t_jsonBytes;

    /// <summary>Answers with JSON, as <c>application/json</c>.</summary>
    /// <param name="value">What to write.</param>
    /// <param name="type">How: from a context that the compiler makes, so that nothing is looked up at run time.</param>
    public void Json<T>(T value, JsonTypeInfo<T> type)
    {
        ArgumentNullException.ThrowIfNull(type);
        MustBeOpen();
        // Indents and escapes belong to the writer, and the one that is kept has the defaults.
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
        if (bytes.Capacity > LargestKeptJson) t_jsonBytes = null; // one large answer does not keep its memory for good
    }

    /// <summary>
    /// Answers with JSON, as <c>application/json</c>, of any object: its members are found by reflection. For programs that are not trimmed and not compiled ahead; it allocates the text.
    /// </summary>
    /// <param name="value">What to write, with the members of the class that it is. Null is <c>null</c>.</param>
    /// <param name="options">Null: <see cref="JsonSerializerOptions.Web"/>, names in camel case.</param>
    /// <exception cref="NotSupportedException">It has a member that cannot be written.</exception>
    /// <exception cref="JsonException">It contains itself, or is too deep.</exception>
    [RequiresUnreferencedCode(Reflection), RequiresDynamicCode(Reflection)]
    public void Json(object? value, JsonSerializerOptions? options = null)
    {
        MustBeOpen();
        Bytes(JsonSerializer.SerializeToUtf8Bytes(value, value?.GetType() ?? typeof(object), options ?? JsonSerializerOptions.Web), "application/json"u8);
    }
}
