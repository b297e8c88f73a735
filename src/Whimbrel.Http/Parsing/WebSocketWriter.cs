using System.Buffers.Binary;
using System.Security.Cryptography;

namespace Whimbrel.Http.Parsing;

/// <summary>Writes the heads of frames for one end. Whether there is a mask follows from its role, and each frame of a client has a new key that nobody can guess.</summary>
internal readonly struct WebSocketWriter(WebSocketRole role)
{
    /// <summary>Longest head.</summary>
    internal const int MostHeadBytes = 14;

    private const int KeysAtOnce = 256;

    [ThreadStatic]
    private static uint[]? t_keys;

    [ThreadStatic]
    private static int t_nextKey;

    /// <summary>Whether the payload must be masked by the key of its head.</summary>
    internal bool Masks => role == WebSocketRole.Client;

    /// <summary>Bytes of a whole frame.</summary>
    internal int FrameLength(int length) => HeadLength(length) + length;

    /// <summary>Bytes of the head of a frame.</summary>
    /// <param name="length">Of its payload.</param>
    internal int HeadLength(long length) => 2 + (length > ushort.MaxValue ? 8 : length > WebSocketReader.MostControlBytes ? 2 : 0) + (Masks ? 4 : 0);

    /// <summary>Writes a head.</summary>
    /// <param name="target">At least <see cref="HeadLength"/> bytes.</param>
    /// <param name="opcode">What the frame is.</param>
    /// <param name="isFinal">The last of its message; always for a control frame.</param>
    /// <param name="isCompressed">The message is compressed; on its first frame only.</param>
    /// <param name="length">Of the payload.</param>
    /// <param name="key">To mask it by; 0 when it is not masked.</param>
    /// <returns>Bytes written.</returns>
    internal int WriteHead(Span<byte> target, WebSocketOpcode opcode, bool isFinal, bool isCompressed, long length, out uint key)
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
    /// <param name="target">At least <see cref="HeadLength"/> and the payload.</param>
    /// <param name="opcode">What the frame is.</param>
    /// <param name="payload">Copied, and masked on the way.</param>
    /// <param name="isCompressed">The payload is a compressed message.</param>
    /// <returns>Bytes written.</returns>
    internal int WriteFrame(Span<byte> target, WebSocketOpcode opcode, ReadOnlySpan<byte> payload, bool isCompressed = false)
    {
        int head = WriteHead(target, opcode, isFinal: true, isCompressed, payload.Length, out uint key);
        if (Masks) WebSocketMask.Copy(payload, target[head..], key);
        else payload.CopyTo(target[head..]);
        return head + payload.Length;
    }

    // From the system's generator, many at a time: a call for each frame would cost more than the frame.
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
