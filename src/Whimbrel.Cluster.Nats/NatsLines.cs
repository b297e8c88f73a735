using System.Buffers;
using System.Buffers.Text;
using System.Text.Encodings.Web;
using System.Text.Json;

namespace Whimbrel.Clusters;

/// <summary>What a bus says to a server, without I/O.</summary>
internal static class NatsLines
{
    /// <summary>PUB, two spaces, a length and CR LF, with room to spare.</summary>
    internal const int MostAroundSubject = 24;

    internal static readonly byte[] Ping = "PING\r\n"u8.ToArray();

    private static readonly JsonWriterOptions s_json = new() { Encoder = JavaScriptEncoder.UnsafeRelaxedJsonEscaping };

    /// <summary>The line before a payload.</summary>
    /// <param name="target">The length of the subject and <see cref="MostAroundSubject"/> at least.</param>
    /// <param name="subject">ASCII.</param>
    /// <param name="payload">How many bytes follow.</param>
    /// <returns>How many bytes it has.</returns>
    internal static int WritePublish(Span<byte> target, string subject, int payload)
    {
        "PUB "u8.CopyTo(target);
        int at = 4 + System.Text.Encoding.ASCII.GetBytes(subject, target[4..]);
        target[at++] = (byte)' ';
        Utf8Formatter.TryFormat(payload, target[at..], out int digits);
        at += digits;
        "\r\n"u8.CopyTo(target[at..]);
        return at + 2;
    }

    /// <summary>A message that is to be answered, with its payload.</summary>
    internal static void WriteRequest(ArrayBufferWriter<byte> target, string subject, string reply, ReadOnlySpan<byte> payload)
    {
        target.Write(System.Text.Encoding.ASCII.GetBytes(string.Create(System.Globalization.CultureInfo.InvariantCulture, $"PUB {subject} {reply} {payload.Length}\r\n")));
        target.Write(payload);
        target.Write("\r\n"u8);
    }

    /// <summary>CONNECT, and the PING whose answer says that it was taken.</summary>
    internal static byte[] Connect(string? user, string? password, string? token)
    {
        ArrayBufferWriter<byte> bytes = new();
        bytes.Write("CONNECT "u8);
        using (Utf8JsonWriter json = new(bytes, s_json))
        {
            json.WriteStartObject();
            json.WriteBoolean("verbose", false);
            json.WriteBoolean("pedantic", false);
            json.WriteBoolean("headers", true);
            json.WriteBoolean("no_responders", true);
            json.WriteBoolean("echo", true);
            json.WriteNumber("protocol", 1);
            json.WriteString("lang", "whimbrel");
            json.WriteString("name", "whimbrel");
            json.WriteString("version", "0.1.0");
            if (user is not null) json.WriteString("user", user);
            if (password is not null) json.WriteString("pass", password);
            if (token is not null) json.WriteString("auth_token", token);
            json.WriteEndObject();
        }

        bytes.Write("\r\nPING\r\n"u8);
        return bytes.WrittenSpan.ToArray();
    }
}
