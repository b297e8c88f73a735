using System.Buffers.Binary;
using System.Text;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http.Tests.WebSockets;

/// <summary>Events of a frame reader, in order. Stored as bytes so that millions can be compared in seconds; printable
/// as text.</summary>
internal sealed class FrameLog
{
    private const byte CompressedBit = 0x40;
    private const byte BrokenBit = 0x80;
    private const int HeadBytes = 5;

    private byte[] _bytes = new byte[128];
    private int _length;

    /// <summary>Adds a whole message or a control frame.</summary>
    internal void Tell(WebSocketOpcode opcode, bool isCompressed, ReadOnlySpan<byte> payload) =>
        Add((byte)((byte)opcode | (isCompressed ? CompressedBit : 0)), payload);

    /// <summary>Adds the end: a rule was violated.</summary>
    internal void Break(WebSocketRule rule) => Add(BrokenBit, [(byte)rule]);

    internal void Clear() => _length = 0;

    internal bool IsAs(FrameLog other) =>
        _bytes.AsSpan(0, _length).SequenceEqual(other._bytes.AsSpan(0, other._length));

    /// <summary>One entry per event: <c>Text abc</c>, <c>Text* </c> and compressed bytes, <c>! Rule</c>. Bytes are
    /// shown as Latin 1 characters.</summary>
    internal List<string> ToList()
    {
        List<string> entries = [];
        for (int at = 0; at < _length;)
        {
            byte kind = _bytes[at];
            ReadOnlySpan<byte> payload = _bytes.AsSpan(at + HeadBytes,
                BinaryPrimitives.ReadInt32LittleEndian(_bytes.AsSpan(at + 1)));
            at += HeadBytes + payload.Length;
            if (kind == BrokenBit) entries.Add($"! {(WebSocketRule)payload[0]}");
            else entries.Add($"{(WebSocketOpcode)(kind & 15)}{((kind & CompressedBit) != 0 ? "*" : "")} "
                + $"{Encoding.Latin1.GetString(payload)}");
        }

        return entries;
    }

    private void Add(byte kind, ReadOnlySpan<byte> payload)
    {
        int length = _length + HeadBytes + payload.Length;
        if (length > _bytes.Length) Array.Resize(ref _bytes, 2 * length);
        _bytes[_length] = kind;
        BinaryPrimitives.WriteInt32LittleEndian(_bytes.AsSpan(_length + 1), payload.Length);
        payload.CopyTo(_bytes.AsSpan(_length + HeadBytes));
        _length = length;
    }
}
