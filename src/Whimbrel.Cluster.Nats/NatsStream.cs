using System.Buffers;
using System.Globalization;
using System.Security.Cryptography;
using System.Text;
using System.Text.Json;

namespace Whimbrel.Clusters;

/// <summary>State of a JetStream stream, and its requests and answers, without I/O.</summary>
/// <param name="Epoch">Creation time, in ticks.</param>
/// <param name="First">Sequence of the oldest message; <paramref name="Last"/> plus 1 if there is none.</param>
/// <param name="Last">Sequence of the last message ever stored.</param>
internal sealed record NatsStream(ulong Epoch, ulong First, ulong Last)
{
    internal const int NotThere = 10059;
    internal const int Different = 10058;
    internal const int Overlaps = 10065;

    /// <summary>More than the overhead of a message in a stream's byte count.</summary>
    private const int MostAroundMessage = 2048;

    /// <summary>Returns the name of a stream: without dots, and short enough for a file name.</summary>
    internal static string NameOf(string subject) =>
        $"whimbrel_{Convert.ToHexStringLower(SHA256.HashData(Encoding.UTF8.GetBytes(subject)).AsSpan(0, 16))}";

    /// <summary>Returns the subject of a stream's messages. The subject itself carries the announcements.</summary>
    internal static string SubjectOf(string subject) => subject + ".log";

    /// <summary>Returns the configuration of a stream as JSON.</summary>
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
            // The newest message is always kept, so there must be room for the largest.
            json.WriteNumber("max_bytes", Math.Max(limits.MaxBytes, (long)maxPayload + MostAroundMessage));
            json.WriteNumber("max_age", (long)limits.MaxAge.TotalMicroseconds * 1000);
            json.WriteBoolean("allow_direct", true);
            json.WriteEndObject();
        }

        return bytes.WrittenSpan.ToArray();
    }

    /// <summary>Returns the request for a message.</summary>
    internal static byte[] Get(ulong offset) =>
        Encoding.ASCII.GetBytes(string.Create(CultureInfo.InvariantCulture, $"{{\"seq\":{offset}}}"));

    /// <summary>Returns whether a message was stored; otherwise <paramref name="why"/> is the reason.</summary>
    internal static bool IsStored(ReadOnlySpan<byte> json, out string? why)
    {
        why = null;
        try
        {
            Utf8JsonReader reader = new(json);
            using JsonDocument document = JsonDocument.ParseValue(ref reader);
            if (ErrorOf(document.RootElement) is { } error) why = error.Text;
            return why is null && document.RootElement.TryGetProperty("seq", out JsonElement seq)
                && seq.TryGetUInt64(out ulong offset) && offset > 0;
        }
        catch (Exception e) when (e is JsonException or InvalidOperationException)
        {
            return false;
        }
    }

    /// <summary>
    /// Reads a stream's state, or the code of an error and its text; code 0 if the answer is neither.
    /// </summary>
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
            return new NatsStream((ulong)root.GetProperty("created").GetDateTimeOffset().UtcTicks,
                isEmpty ? last + 1 : first, last);
        }
        catch (Exception e)
            when (e is JsonException or InvalidOperationException or KeyNotFoundException or FormatException)
        {
            return null;
        }
    }

    private static (int Number, string Text)? ErrorOf(JsonElement root)
    {
        if (!root.TryGetProperty("error", out JsonElement error)) return null;
        int number =
            error.TryGetProperty("err_code", out JsonElement code) && code.TryGetInt32(out int given) ? given : 0;
        return (number, error.TryGetProperty("description", out JsonElement text)
            ? BrokerSession.Shown(Encoding.UTF8.GetBytes(text.GetString() ?? ""))
            : "");
    }
}
