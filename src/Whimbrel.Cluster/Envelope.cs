using System.Buffers.Binary;
using System.Security.Cryptography;

namespace Whimbrel.Clusters;

/// <summary>
/// The wire format between nodes. Version 2, little endian: version (1), flags (1: kind, 0x80 signed, 0x40 repeated),
/// instance (8), epoch (4), sequence (8), length of the node id (1) and of the group name (2). Then node id and group
/// name in UTF-8, the payload, and, if signed, HMAC-SHA256 of all before it. The payload of a broadcast is one or
/// several messages with consecutive sequences. Before each is its length, seven bits per byte, lowest first. (In
/// version 1 it was one message without a length.) Nothing is deserialized.
/// </summary>
internal readonly ref struct Envelope
{
    internal const byte CurrentVersion = 2;
    internal const int HeadBytes = 25;
    internal const int MostNodeBytes = 64;
    internal const int MostGroupBytes = 256;
    internal const int MacBytes = HMACSHA256.HashSizeInBytes;
    internal const int MostLengthBytes = 4;
    internal const int MostOverheadBytes = HeadBytes + MostNodeBytes + MostGroupBytes + MostLengthBytes + MacBytes;

    /// <summary>Maximum length of an envelope with several broadcasts. A larger one has a single broadcast.</summary>
    internal const int MostJoinedBytes = 8 * 1024;

    private const int SequenceAt = 14;
    private const byte KindMask = 0x0F;
    private const byte IsSigned = 0x80;
    private const byte IsAgain = 0x40;
    private const int FlagsAt = 1;

    internal EnvelopeKind Kind { get; init; }

    /// <summary>Random number of the publishing process, because node ids can be set by users and may repeat.</summary>
    internal ulong Instance { get; init; }

    /// <summary>Epoch of the sequence. Increases when the node starts the group's sequence from 1 again.</summary>
    internal uint Epoch { get; init; }

    /// <summary>Number of the first broadcast in it, per node, epoch and group, starting at 1.</summary>
    internal ulong Sequence { get; init; }

    /// <summary>Number of broadcasts in it; 0 for other kinds.</summary>
    internal int Count { get; init; }

    /// <summary>Whether the broadcasts were published before and may have been lost with the broker.</summary>
    internal bool IsRepeated { get; init; }

    internal ReadOnlySpan<byte> Node { get; init; }

    internal ReadOnlySpan<byte> Group { get; init; }

    internal ReadOnlySpan<byte> Payload { get; init; }

    internal static int Length(int nodeBytes, int groupBytes, int payloadBytes, bool isSigned) =>
        HeadBytes + nodeBytes + groupBytes + payloadBytes + (isSigned ? MacBytes : 0);

    /// <summary>Writes all fields but sequence and signature, which <see cref="Seal"/> adds.</summary>
    internal static void Write(Span<byte> target, EnvelopeKind kind, ulong instance, uint epoch,
        ReadOnlySpan<byte> node, ReadOnlySpan<byte> group, ReadOnlySpan<byte> payload, bool isSigned)
    {
        target[0] = CurrentVersion;
        target[1] = (byte)((byte)kind | (isSigned ? IsSigned : 0));
        BinaryPrimitives.WriteUInt64LittleEndian(target[2..], instance);
        BinaryPrimitives.WriteUInt32LittleEndian(target[10..], epoch);
        target[22] = (byte)node.Length;
        BinaryPrimitives.WriteUInt16LittleEndian(target[23..], (ushort)group.Length);
        node.CopyTo(target[HeadBytes..]);
        group.CopyTo(target[(HeadBytes + node.Length)..]);
        payload.CopyTo(target[(HeadBytes + node.Length + group.Length)..]);
    }

    /// <summary>Marks broadcasts as repeated. Must be called before <see cref="Seal"/>.</summary>
    internal static void MarkRepeated(Span<byte> envelope) => envelope[FlagsAt] |= IsAgain;

    internal static void Seal(Span<byte> envelope, ulong sequence, ReadOnlySpan<byte> key)
    {
        BinaryPrimitives.WriteUInt64LittleEndian(envelope[SequenceAt..], sequence);
        if (!key.IsEmpty) HMACSHA256.HashData(key, envelope[..^MacBytes], envelope[^MacBytes..]);
    }

    /// <param name="bytes">Received bytes, untrusted.</param>
    /// <param name="key">Key for signatures. Empty: signatures are ignored.</param>
    /// <param name="envelope">Views of the bytes.</param>
    internal static EnvelopeResult TryRead(ReadOnlySpan<byte> bytes, ReadOnlySpan<byte> key, out Envelope envelope)
    {
        envelope = default;
        if (bytes.IsEmpty) return EnvelopeResult.Refused;
        if (bytes[0] != CurrentVersion) return EnvelopeResult.UnknownVersion;
        if (bytes.Length < HeadBytes) return EnvelopeResult.Refused;
        byte flags = bytes[1];
        bool isSigned = (flags & IsSigned) != 0;
        int node = bytes[22];
        int group = BinaryPrimitives.ReadUInt16LittleEndian(bytes[23..]);
        int payloadAt = HeadBytes + node + group;
        int end = bytes.Length - (isSigned ? MacBytes : 0);
        if ((flags & ~(KindMask | IsSigned | IsAgain)) != 0 || (flags & KindMask) > (byte)EnvelopeKind.Goodbye)
            return EnvelopeResult.Refused;
        if ((flags & IsAgain) != 0 && (flags & KindMask) != (byte)EnvelopeKind.Broadcast) return EnvelopeResult.Refused;
        if (node is 0 or > MostNodeBytes || group > MostGroupBytes || payloadAt > end) return EnvelopeResult.Refused;
        if (!key.IsEmpty && !(isSigned && IsAuthentic(bytes, key))) return EnvelopeResult.NotSigned;
        envelope = new Envelope
        {
            Kind = (EnvelopeKind)(flags & KindMask),
            Instance = BinaryPrimitives.ReadUInt64LittleEndian(bytes[2..]),
            Epoch = BinaryPrimitives.ReadUInt32LittleEndian(bytes[10..]),
            Sequence = BinaryPrimitives.ReadUInt64LittleEndian(bytes[SequenceAt..]),
            IsRepeated = (flags & IsAgain) != 0,
            Node = bytes.Slice(HeadBytes, node),
            Group = bytes.Slice(HeadBytes + node, group),
            Payload = bytes[payloadAt..end],
        };
        if (envelope.Kind == EnvelopeKind.Broadcast
            && (envelope = envelope with { Count = CountMessages(envelope.Payload) }).Count == 0)
            return EnvelopeResult.Refused;
        bool isRight = envelope.Kind is EnvelopeKind.Query or EnvelopeKind.PresenceQuery
            || (envelope.Sequence > 0 && envelope.Sequence <= long.MaxValue - (ulong)envelope.Count);
        return isRight && Utf8IsValid(envelope.Node) && Utf8IsValid(envelope.Group)
            ? EnvelopeResult.Read
            : EnvelopeResult.Refused;
    }

    /// <summary>Returns the encoded length of a message, including its length prefix.</summary>
    internal static int MessageLength(int message) =>
        message + (message < 1 << 7 ? 1 : message < 1 << 14 ? 2 : message < 1 << 21 ? 3 : 4);

    internal static void WriteMessage(Span<byte> target, ReadOnlySpan<byte> message)
    {
        int at = 0;
        for (uint rest = (uint)message.Length; ; rest >>= 7)
        {
            target[at++] = (byte)(rest < 0x80 ? rest : rest | 0x80);
            if (rest < 0x80) break;
        }

        message.CopyTo(target[at..]);
    }

    /// <summary>
    /// Takes the first message from the rest of a payload. Returns false if there is none or it is truncated.
    /// </summary>
    internal static bool TryTakeMessage(ref ReadOnlySpan<byte> rest, out ReadOnlySpan<byte> message)
    {
        message = default;
        int length = 0, at = 0;
        while (at < rest.Length && at < MostLengthBytes)
        {
            byte part = rest[at];
            length |= (part & 0x7F) << (7 * at++);
            if (part >= 0x80) continue;
            if (length > rest.Length - at) return false;
            message = rest.Slice(at, length);
            rest = rest[(at + length)..];
            return true;
        }

        return false;
    }

    // 0 if the payload is invalid: a node publishes no empty message.
    private static int CountMessages(ReadOnlySpan<byte> payload)
    {
        int count = 0;
        for (; !payload.IsEmpty; count++)
        {
            if (!TryTakeMessage(ref payload, out ReadOnlySpan<byte> message) || message.IsEmpty) return 0;
        }

        return count;
    }

    private static bool Utf8IsValid(ReadOnlySpan<byte> text) => System.Text.Unicode.Utf8.IsValid(text);

    private static bool IsAuthentic(ReadOnlySpan<byte> bytes, ReadOnlySpan<byte> key)
    {
        Span<byte> mac = stackalloc byte[MacBytes];
        HMACSHA256.HashData(key, bytes[..^MacBytes], mac);
        return CryptographicOperations.FixedTimeEquals(mac, bytes[^MacBytes..]);
    }
}
