using System.Buffers;
using System.Buffers.Text;
using System.Text.Encodings.Web;
using System.Text.Json;

namespace Whimbrel.Clusters;

/// <summary>Protocol lines from a bus to a server, without I/O.</summary>
internal static class NatsLines
{
    /// <summary>More than the length of PUB, two spaces, a length and CR LF.</summary>
    internal const int MostAroundSubject = 24;

    internal static readonly byte[] Ping = "PING\r\n"u8.ToArray();

    private static readonly JsonWriterOptions s_json = new() { Encoder = JavaScriptEncoder.UnsafeRelaxedJsonEscaping };

    /// <summary>Writes the line before a payload.</summary>
    /// <param name="target">Buffer of at least the length of the subject plus <see cref="MostAroundSubject"/>.</param>
    /// <param name="subject">Subject, ASCII.</param>
    /// <param name="payload">Length of the payload.</param>
    /// <returns>Length of the line.</returns>
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

    /// <summary>Writes a request with a reply subject and its payload.</summary>
    internal static void WriteRequest(ArrayBufferWriter<byte> target, string subject, string reply,
        ReadOnlySpan<byte> payload)
    {
        target.Write(System.Text.Encoding.ASCII.GetBytes(string.Create(
            System.Globalization.CultureInfo.InvariantCulture, $"PUB {subject} {reply} {payload.Length}\r\n")));
        target.Write(payload);
        target.Write("\r\n"u8);
    }

    /// <summary>Returns CONNECT and a PING. The PONG shows that CONNECT was accepted.</summary>
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
