using System.Buffers.Binary;
using System.Security.Cryptography;

namespace Whimbrel.Http.Parsing;

/// <summary>Writes frames for one end. Its role determines the mask; each frame of a client has a new unpredictable
/// key.</summary>
internal readonly struct WebSocketWriter(WebSocketRole role)
{
    /// <summary>Largest length of a head.</summary>
    internal const int MostHeadBytes = 14;

    private const int KeysAtOnce = 256;

    [ThreadStatic]
    private static uint[]? t_keys;

    [ThreadStatic]
    private static int t_nextKey;

    /// <summary>Whether the payload must be masked by the key of its head.</summary>
    internal bool Masks => role == WebSocketRole.Client;

    /// <summary>Returns the length of a whole frame.</summary>
    internal int FrameLength(int length) => HeadLength(length) + length;

    /// <summary>Returns the length of the head of a frame.</summary>
    /// <param name="length">Length of its payload.</param>
    internal int HeadLength(long length) =>
        2 + (length > ushort.MaxValue ? 8 : length > WebSocketReader.MostControlBytes ? 2 : 0) + (Masks ? 4 : 0);

    /// <summary>Writes a head.</summary>
    /// <param name="target">Buffer of at least <see cref="HeadLength"/> bytes.</param>
    /// <param name="opcode">Opcode of the frame.</param>
    /// <param name="isFinal">Whether it is the last of its message; always true for a control frame.</param>
    /// <param name="isCompressed">Whether the message is compressed; on its first frame only.</param>
    /// <param name="length">Length of the payload.</param>
    /// <param name="key">Key to mask the payload; 0 if it is not masked.</param>
    /// <returns>Number of bytes written.</returns>
    internal int WriteHead(Span<byte> target, WebSocketOpcode opcode, bool isFinal, bool isCompressed, long length,
        out uint key)
    {
        target[0] = (byte)((isFinal ? 0x80 : 0) | (isCompressed ? 0x40 : 0) | (int)opcode);
        int written = 2;
        byte mask = Masks ? (byte)0x80 : (byte)0;
        if (length <= WebSocketReader.MostControlBytes)
        {
            target[1] = (byte)(mask | (int)length);
        }
        else if (length <= ushort.MaxValue)
        {
            target[1] = (byte)(mask | 126);
            BinaryPrimitives.WriteUInt16BigEndian(target[2..], (ushort)length);
            written = 4;
        }
        else
        {
            target[1] = (byte)(mask | 127);
            BinaryPrimitives.WriteInt64BigEndian(target[2..], length);
            written = 10;
        }

        key = 0;
        if (!Masks) return written;
        key = NewKey();
        BinaryPrimitives.WriteUInt32LittleEndian(target[written..], key);
        return written + 4;
    }

    /// <summary>Writes a whole frame.</summary>
    /// <param name="target">Buffer for <see cref="HeadLength"/> and the payload.</param>
    /// <param name="opcode">Opcode of the frame.</param>
    /// <param name="payload">Payload, masked while copying.</param>
    /// <param name="isCompressed">Whether the payload is a compressed message.</param>
    /// <returns>Number of bytes written.</returns>
    internal int WriteFrame(Span<byte> target, WebSocketOpcode opcode, ReadOnlySpan<byte> payload,
        bool isCompressed = false)
    {
        int head = WriteHead(target, opcode, isFinal: true, isCompressed, payload.Length, out uint key);
        if (Masks) WebSocketMask.Copy(payload, target[head..], key);
        else payload.CopyTo(target[head..]);
        return head + payload.Length;
    }

    // From the system's generator, many keys at a time: a call per frame would cost more than the frame.
    private static uint NewKey()
    {
        uint[] keys = t_keys ??= new uint[KeysAtOnce];
        int next = t_nextKey;
        if (next == 0) RandomNumberGenerator.Fill(System.Runtime.InteropServices.MemoryMarshal.AsBytes(keys.AsSpan()));
        t_nextKey = (next + 1) % KeysAtOnce;
        uint key = keys[next];
        keys[next] = 0;
        return key;
    }
}
