using System.Text;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http.Tests.WebSockets.Cases;

/// <summary>
/// One case: frames that a peer sends to an end which sends every message back, what must come, and how it must end.
/// The same for both roles: masks follow from the role.
/// </summary>
/// <param name="Id">Its number in the public catalogue of cases, or a word for those that it does not have.</param>
/// <param name="Sent">The frames.</param>
/// <param name="Back">What must come back before the close frame, as <c>Text abc</c> or <c>Pong abc</c>, in
/// Latin-1.</param>
internal sealed record Case(string Id, IReadOnlyList<CaseFrame> Sent, IReadOnlyList<string> Back)
{
    internal const int OneWrite = 0;
    internal const int ByFrames = -1;

    /// <summary>Bytes per write, or <see cref="OneWrite"/>, or <see cref="ByFrames"/>.</summary>
    internal int Chop { get; init; }

    /// <summary>Expected close status. 1005: a close frame without status. 1000: the response to the runner's
    /// close.</summary>
    internal int End { get; init; } = 1000;

    /// <summary>Number of payload bytes that reveal the error: the end must come without those after them. 0: all
    /// bytes.</summary>
    internal int Enough { get; init; }

    /// <summary>True if the frames close the connection or violate a rule, so that the runner sends no close frame of
    /// its own.</summary>
    internal bool EndsItself => End != 1000 || Sent.Any(static f => (f.First & 15) == 8);

    internal int Length => Sent.Sum(static f => f.Payload.Length + 14);

    /// <summary><see cref="Enough"/> on the wire. The frames before it are short ones.</summary>
    internal int EnoughBytes(WebSocketRole role)
    {
        int head = role == WebSocketRole.Server ? 6 : 2, at = 0, left = Enough;
        foreach (CaseFrame frame in Sent)
        {
            at += head + Math.Min(left, frame.Payload.Length);
            left -= frame.Payload.Length;
            if (left <= 0) break;
        }

        return at;
    }

    /// <summary>All writes to an end in this role.</summary>
    internal List<byte[]> Writes(WebSocketRole role)
    {
        List<byte[]> frames = [.. Sent.Select((f, i) => f.Bytes(role, 0x9E37_79B9u * (uint)(i + 1)))];
        if (EndsItself) frames.Add(new CaseFrame(0x81, "late"u8.ToArray()).Bytes(role, 1));
        else frames.Add(new CaseFrame(0x88, [0x03, 0xE8]).Bytes(role, 2));
        if (Chop == ByFrames) return frames;
        byte[] all = [.. frames.SelectMany(static f => f)];
        return Chop == OneWrite ? [all] : [.. all.Chunk(Chop)];
    }

    /// <summary>Expected events, including the end.</summary>
    internal List<string> Expected => [.. Back, $"Close {End}"];

    /// <summary>Received events, decoded by the reference reader.</summary>
    internal static List<string> Events(byte[] received, WebSocketRole role)
    {
        List<string> events = PlainFrames.Read(received, role == WebSocketRole.Client, long.MaxValue,
            mayCompress: true);
        // Our close reasons are texts for people, so only the status is compared.
        for (int i = 0; i < events.Count; i++)
        {
            if (!events[i].StartsWith("Close ", StringComparison.Ordinal)) continue;
            byte[] payload = Encoding.Latin1.GetBytes(events[i][6..]);
            events[i] = $"Close {(payload.Length == 0 ? 1005 : payload[0] * 256 + payload[1])}";
        }

        return events;
    }
}

/// <summary>A frame as a peer writes it, valid or not.</summary>
/// <param name="First">FIN, reserved bits and opcode.</param>
/// <param name="Payload">Unmasked payload.</param>
internal readonly record struct CaseFrame(byte First, byte[] Payload)
{
    internal byte[] Bytes(WebSocketRole role, uint key)
    {
        int length = Payload.Length;
        byte mask = role == WebSocketRole.Server ? (byte)0x80 : (byte)0;
        byte[] head = length switch
        {
            < 126 => [First, (byte)(mask | length)],
            < 65536 => [First, (byte)(mask | 126), (byte)(length >> 8), (byte)length],
            _ => [First, (byte)(mask | 127), 0, 0, 0, 0, (byte)(length >> 24), (byte)(length >> 16),
                (byte)(length >> 8), (byte)length],
        };
        if (mask == 0) return [.. head, .. Payload];
        byte[] four = [(byte)(key >> 24), (byte)(key >> 16), (byte)(key >> 8), (byte)key];
        byte[] masked = new byte[length];
        for (int i = 0; i < length; i++) masked[i] = (byte)(Payload[i] ^ four[i & 3]);
        return [.. head, .. four, .. masked];
    }
}
