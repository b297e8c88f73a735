using System.Buffers;
using System.Globalization;
using System.Security.Cryptography;
using System.Text;
using System.Text.Json;

namespace Whimbrel.Clusters;

/// <summary>What JetStream says of a stream, or why it does not, without I/O.</summary>
/// <param name="Epoch">When it was made, in ticks.</param>
/// <param name="First">Oldest message that is there; one behind the last when none is.</param>
/// <param name="Last">Newest message there ever was.</param>
internal sealed record NatsStream(ulong Epoch, ulong First, ulong Last)
{
    internal const int NotThere = 10059;
    internal const int Different = 10058;
    internal const int Overlaps = 10065;

    /// <summary>What a message has beyond its payload in the count of a stream, with room to spare.</summary>
    private const int MostAroundMessage = 2048;

    /// <summary>Names have no dots, and a length that files may have.</summary>
    internal static string NameOf(string subject) => $"whimbrel_{Convert.ToHexStringLower(SHA256.HashData(Encoding.UTF8.GetBytes(subject)).AsSpan(0, 16))}";

    /// <summary>Where its messages are published. Not the subject itself, on which news is told.</summary>
    internal static string SubjectOf(string subject) => subject + ".log";

    /// <summary>What it is to be.</summary>
    internal static byte[] Configure(string subject, HistoryLimits limits, int maxPayload)
    {
        ArrayBufferWriter<byte> bytes = new();
        using (Utf8JsonWriter json = new(bytes))
        {
            json.WriteStartObject();
            json.WriteString("name", NameOf(subject));
            json.WriteString("description", $"Whimbrel: {subject}");
            json.WriteStartArray("subjects");
            json.WriteStringValue(SubjectOf(subject));
            json.WriteEndArray();
            json.WriteString("retention", "limits");
            json.WriteString("discard", "old");
            json.WriteString("storage", "memory");
            json.WriteNumber("num_replicas", 1);
            json.WriteNumber("max_consumers", -1);
            json.WriteNumber("max_msgs", limits.MaxCount);
            // The newest is kept in any case: there has to be room for the largest.
            json.WriteNumber("max_bytes", Math.Max(limits.MaxBytes, (long)maxPayload + MostAroundMessage));
            json.WriteNumber("max_age", (long)limits.MaxAge.TotalMicroseconds * 1000);
            json.WriteBoolean("allow_direct", true);
            json.WriteEndObject();
        }

        return bytes.WrittenSpan.ToArray();
    }

    /// <summary>Which message is wanted.</summary>
    internal static byte[] Get(ulong offset) => Encoding.ASCII.GetBytes(string.Create(CultureInfo.InvariantCulture, $"{{\"seq\":{offset}}}"));

    /// <summary>Whether a message was stored, and if not, why.</summary>
    internal static bool IsStored(ReadOnlySpan<byte> json, out string? why)
    {
        why = null;
        try
        {
            Utf8JsonReader reader = new(json);
            using JsonDocument document = JsonDocument.ParseValue(ref reader);
            if (ErrorOf(document.RootElement) is { } error) why = error.Text;
            return why is null && document.RootElement.TryGetProperty("seq", out JsonElement seq) && seq.TryGetUInt64(out ulong offset) && offset > 0;
        }
        catch (Exception e) when (e is JsonException or InvalidOperationException)
        {
            return false;
        }
    }

    /// <summary>The stream, or the number of an error with its text; 0 where it is neither.</summary>
    internal static NatsStream? Read(ReadOnlySpan<byte> json, out int error, out string text)
    {
        (error, text) = (0, "it cannot be read");
        try
        {
            Utf8JsonReader reader = new(json);
            using JsonDocument document = JsonDocument.ParseValue(ref reader);
            JsonElement root = document.RootElement;
            if (ErrorOf(root) is { } found)
            {
                (error, text) = found;
                return null;
            }

            JsonElement state = root.GetProperty("state");
            ulong first = state.GetProperty("first_seq").GetUInt64(), last = state.GetProperty("last_seq").GetUInt64();
            bool isEmpty = state.GetProperty("messages").GetUInt64() == 0;
            return new NatsStream((ulong)root.GetProperty("created").GetDateTimeOffset().UtcTicks, isEmpty ? last + 1 : first, last);
        }
        catch (Exception e) when (e is JsonException or InvalidOperationException or KeyNotFoundException or FormatException)
        {
            return null;
        }
    }

    private static (int Number, string Text)? ErrorOf(JsonElement root)
    {
        if (!root.TryGetProperty("error", out JsonElement error)) return null;
        int number = error.TryGetProperty("err_code", out JsonElement code) && code.TryGetInt32(out int given) ? given : 0;
        return (number, error.TryGetProperty("description", out JsonElement text) ? BrokerSession.Shown(Encoding.UTF8.GetBytes(text.GetString() ?? "")) : "");
    }
}
