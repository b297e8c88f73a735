using System;
using System.Buffers.Binary;
using System.Text;

namespace OldPrograms.Proto;

/// The messages of the protocol example, in the layout of Fast Binary Encoding: total size, offset of the struct, size
/// and type of the struct, its fields at fixed offsets. A text is an offset to its size and bytes. Read and written by
/// hand.
public struct Message
{
    public const int Request = 1, Response = 2, Reject = 3, Notify = 4, Disconnect = 5;
    public const int MostBytes = 1024 * 1024;

    private const int StructStart = 8, FieldStart = 16;

    public int Type;
    public Guid Id;
    public string Text;
    public uint Length;
    public uint Hash;

    public byte[] Write()
    {
        byte[] text = Text == null ? null : Encoding.UTF8.GetBytes(Text);
        int fields = FieldStart + (HasId ? 16 : 0), end = fields + (Type == Response ? 8 : text == null ? 0 : 4);
        byte[] bytes = new byte[end + (text == null ? 0 : 4 + text.Length)];
        BinaryPrimitives.WriteInt32LittleEndian(bytes, bytes.Length);
        BinaryPrimitives.WriteInt32LittleEndian(bytes.AsSpan(4), StructStart);
        BinaryPrimitives.WriteInt32LittleEndian(bytes.AsSpan(8), end - StructStart);
        BinaryPrimitives.WriteInt32LittleEndian(bytes.AsSpan(12), Type);
        if (HasId) Id.TryWriteBytes(bytes.AsSpan(FieldStart), bigEndian: true, out _);
        if (Type == Response)
        {
            BinaryPrimitives.WriteUInt32LittleEndian(bytes.AsSpan(fields), Length);
            BinaryPrimitives.WriteUInt32LittleEndian(bytes.AsSpan(fields + 4), Hash);
        }
        else if (text != null)
        {
            BinaryPrimitives.WriteInt32LittleEndian(bytes.AsSpan(fields), end);
            BinaryPrimitives.WriteInt32LittleEndian(bytes.AsSpan(end), text.Length);
            text.CopyTo(bytes, end + 4);
        }

        return bytes;
    }

    /// Size of the first message, or 0 while it is unknown. Throws for invalid bytes.
    public static int SizeOf(ReadOnlySpan<byte> bytes)
    {
        if (bytes.Length < 4) return 0;
        int size = BinaryPrimitives.ReadInt32LittleEndian(bytes);
        if (size < FieldStart || size > MostBytes) throw new FormatException("A message has 16 bytes up to 1 MiB.");
        return size;
    }

    /// Reads a whole message. Throws for invalid bytes.
    public static Message Read(ReadOnlySpan<byte> bytes)
    {
        int start = Int(bytes, 4), type = Int(bytes, 12);
        if (start != StructStart || type < Request || type > Disconnect) throw new FormatException("No message of this protocol.");
        var message = new Message { Type = type };
        int at = FieldStart;
        if (message.HasId)
        {
            message.Id = new Guid(Part(bytes, at, 16), bigEndian: true);
            at += 16;
        }

        if (type == Response)
        {
            message.Length = (uint)Int(bytes, at);
            message.Hash = (uint)Int(bytes, at + 4);
        }
        else if (type != Disconnect)
        {
            int text = Int(bytes, at);
            message.Text = Encoding.UTF8.GetString(Part(bytes, text + 4, Int(bytes, text)));
        }

        return message;
    }

    /// A simple hash that both ends can compute.
    public static uint HashOf(string text)
    {
        uint hash = 0x811C9DC5;
        foreach (byte b in Encoding.UTF8.GetBytes(text)) hash = (hash ^ b) * 0x01000193;
        return hash;
    }

    private readonly bool HasId => Type != Notify;

    private static int Int(ReadOnlySpan<byte> bytes, int at) => BinaryPrimitives.ReadInt32LittleEndian(Part(bytes, at, 4));

    private static ReadOnlySpan<byte> Part(ReadOnlySpan<byte> bytes, int at, int size)
    {
        if (at < 0 || size < 0 || size > bytes.Length - at) throw new FormatException("A part of a message lies outside of it.");
        return bytes.Slice(at, size);
    }
}
