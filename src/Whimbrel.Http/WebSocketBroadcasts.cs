using System.Buffers;
using Whimbrel.Buffers;
using Whimbrel.Http.Parsing;
using Whimbrel.Http.WebSockets;

namespace Whimbrel.Http;

/// <summary>
/// Broadcasts messages to groups that contain WebSocket sessions. A frame is written once for all members that get the
/// same form, and compressed at most once. Members without WebSocket get the bytes unframed.
/// </summary>
public static class WebSocketBroadcasts
{
    // Classes of members. 0 is for sessions without a form of their own.
    private const int ServerPlain = 1;
    private const int ServerDeflated = 2; // without a context, in the widest window used for sending
    private const int ClientMasked = 3;

    private const int DeflateBits = 12;
    private const int LeastDeflated = 64;

    [ThreadStatic]
    private static Deflater? t_deflater;

    /// <summary>Sends a text message to all members.</summary>
    /// <param name="group">Group; its members are served as for
    /// <see cref="SessionGroup.Broadcast(ReadOnlySpan{byte}, Session)"/>.</param>
    /// <param name="utf8">Text in UTF-8, checked once.</param>
    /// <param name="except">Member that does not get the message; null for none.</param>
    /// <exception cref="ArgumentException">The text is not UTF-8. Nothing was sent.</exception>
    /// <exception cref="InvalidOperationException">The group is <see cref="Server.Sessions"/>, which has no forms for
    /// members of different protocols.</exception>
    public static SendResult BroadcastText(this SessionGroup group, ReadOnlySpan<byte> utf8, Session? except = null)
    {
        WebSocketSession.CheckText(utf8);
        return Broadcast(group, WebSocketOpcode.Text, utf8, except);
    }

    /// <summary>Sends a text message to all members, encoded once.</summary>
    /// <param name="group">Group; its members are served as for
    /// <see cref="SessionGroup.Broadcast(ReadOnlySpan{byte}, Session)"/>.</param>
    /// <param name="text">The text. An unpaired surrogate becomes U+FFFD.</param>
    /// <param name="except">Member that does not get the message; null for none.</param>
    /// <exception cref="InvalidOperationException">As for bytes.</exception>
    public static SendResult BroadcastText(this SessionGroup group, string text, Session? except = null)
    {
        ArgumentNullException.ThrowIfNull(text);
        using Utf8Text utf8 = new(text, stackalloc byte[Utf8Text.SmallBytes]);
        return Broadcast(group, WebSocketOpcode.Text, utf8.Bytes, except);
    }

    /// <summary>Sends a binary message to all members.</summary>
    /// <param name="group">Group; its members are served as for
    /// <see cref="SessionGroup.Broadcast(ReadOnlySpan{byte}, Session)"/>.</param>
    /// <param name="data">Payload.</param>
    /// <param name="except">Member that does not get the message; null for none.</param>
    public static SendResult BroadcastBinary(this SessionGroup group, ReadOnlySpan<byte> data,
        Session? except = null) => Broadcast(group, WebSocketOpcode.Binary, data, except);

    /// <summary>Sends a ping to all WebSocket members.</summary>
    /// <param name="group">The group.</param>
    /// <param name="payload">Up to 125 bytes.</param>
    public static SendResult BroadcastPing(this SessionGroup group, ReadOnlySpan<byte> payload = default)
    {
        ArgumentOutOfRangeException.ThrowIfGreaterThan(payload.Length, WebSocketReader.MostControlBytes,
            nameof(payload));
        return Broadcast(group, WebSocketOpcode.Ping, payload, null);
    }

    /// <summary>
    /// Closes all WebSocket members, each after its earlier messages; other members stay. With
    /// <see cref="Server.Sessions"/> it closes all WebSockets of a server. Completes when each close was requested.
    /// Each member ends when its peer has answered, or after its own timeout.
    /// </summary>
    /// <param name="group">The group.</param>
    /// <param name="status">Status, as in <see cref="WebSocketSession.Close(WebSocketStatus, string)"/>.</param>
    /// <param name="reason">Reason text, as there.</param>
    /// <exception cref="ArgumentOutOfRangeException">The status may not be sent.</exception>
    public static ValueTask CloseAllAsync(this SessionGroup group, WebSocketStatus status = WebSocketStatus.GoingAway,
        string reason = "")
    {
        ArgumentNullException.ThrowIfNull(group);
        WebSocketSession.Check(status, reason);
        return group.ForEachAsync(session => (session as WebSocketSession)?.Close(status, reason));
    }

    internal static int ClassOf(WebSocketRole role, in DeflateTerms? terms)
    {
        if (role == WebSocketRole.Client) return ClientMasked;
        return terms is { ServerForgets: true, ServerBits: >= DeflateBits } ? ServerDeflated : ServerPlain;
    }

    private readonly ref struct Message(WebSocketOpcode opcode, ReadOnlySpan<byte> payload)
    {
        internal readonly WebSocketOpcode Opcode = opcode;
        internal readonly ReadOnlySpan<byte> Payload = payload;
    }

    private static SendResult Broadcast(SessionGroup group, WebSocketOpcode opcode, ReadOnlySpan<byte> payload,
        Session? except)
    {
        ArgumentNullException.ThrowIfNull(group);
        return group.Broadcast(new Message(opcode, payload), Write, except);
    }

    private static void Write(Message message, int memberClass, IBufferWriter<byte> output)
    {
        switch (memberClass)
        {
            case ServerPlain:
                WriteFrame(new WebSocketWriter(WebSocketRole.Server), message.Opcode, message.Payload, false, output);
                break;
            case ServerDeflated:
                WriteDeflated(message, output);
                break;
            case ClientMasked:
                WriteFrame(new WebSocketWriter(WebSocketRole.Client), message.Opcode, message.Payload, false, output);
                break;
            default:
                if (message.Opcode != WebSocketOpcode.Ping) output.Write(message.Payload);
                break;
        }
    }

    private static void WriteFrame(WebSocketWriter writer, WebSocketOpcode opcode, ReadOnlySpan<byte> payload,
        bool isCompressed, IBufferWriter<byte> output)
    {
        Span<byte> target = output.GetSpan(writer.FrameLength(payload.Length));
        output.Advance(writer.WriteFrame(target, opcode, payload, isCompressed));
    }

    private static void WriteDeflated(Message message, IBufferWriter<byte> output)
    {
        WebSocketWriter writer = new(WebSocketRole.Server);
        if (message.Opcode == WebSocketOpcode.Ping || message.Payload.Length < LeastDeflated)
        {
            WriteFrame(writer, message.Opcode, message.Payload, false, output);
            return;
        }

        MessageBuffer packed = default;
        try
        {
            Deflater deflater = t_deflater ??= new Deflater(level: 1, DeflateBits, memoryLevel: 5);
            deflater.Add(message.Payload, isLast: true, ref packed);
            WriteFrame(writer, message.Opcode, packed.Span, true, output);
        }
        finally
        {
            packed.Release();
        }
    }
}
