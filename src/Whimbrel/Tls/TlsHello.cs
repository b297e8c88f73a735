using System.Buffers.Binary;
using System.Text;

namespace Whimbrel.Tls;

/// <summary>
/// What a client says in its first message, in the clear: read before a layer is made, so that the name chooses the options
/// from the start, and so that a failure can be told in words. Read only; the layer gets the same bytes. Sans-I/O.
/// </summary>
internal sealed class TlsHello
{
    /// <summary>A ClientHello larger than this is refused: real ones have up to 3 KiB.</summary>
    internal const int MostBytes = 64 * 1024;

    private const int RecordHeader = 5;

    private TlsHello()
    {
    }

    /// <summary>What reading ended with.</summary>
    internal enum Outcome
    {
        /// <summary>It is not whole yet.</summary>
        NeedsMore,

        /// <summary>It is whole, or so strange that the layer shall say what is wrong.</summary>
        Found,

        /// <summary>This is not TLS.</summary>
        NotTls,
    }

    /// <summary>The name asked for, in small letters; null when none is.</summary>
    internal string? ServerName { get; private set; }

    /// <summary>The versions offered, as on the wire (0x0304 is 1.3).</summary>
    internal List<ushort> Versions { get; } = [];

    /// <summary>The application protocols offered.</summary>
    internal List<string> ApplicationProtocols { get; } = [];

    /// <summary>"TLS 1.0, 1.1", for messages.</summary>
    internal string VersionText => VersionsText(Versions);

    /// <summary>Reads what has arrived so far, from its first byte.</summary>
    internal static Outcome Read(ReadOnlySpan<byte> input, out TlsHello? hello)
    {
        hello = null;
        if (input.IsEmpty) return Outcome.NeedsMore;
        // 0x16 is a handshake record. Anything that begins otherwise is no TLS that this century speaks.
        if (input[0] != 0x16 || (input.Length > 1 && input[1] != 3)) return Outcome.NotTls;
        byte[]? joined = null;
        ReadOnlySpan<byte> message = default;
        int at = 0;
        // Nearly always one record; a client may cut its message into several.
        while (true)
        {
            if (input.Length - at < RecordHeader) return Outcome.NeedsMore;
            int length = BinaryPrimitives.ReadUInt16BigEndian(input[(at + 3)..]);
            if (input[at] != 0x16 || length == 0 || length > 16 * 1024 + 256) return Strange(out hello);
            if (input.Length - at - RecordHeader < length)
            {
                // What cannot become a ClientHello is not waited for.
                if (at == 0 && input.Length > RecordHeader && input[RecordHeader] != 1) return Strange(out hello);
                return Outcome.NeedsMore;
            }

            ReadOnlySpan<byte> part = input.Slice(at + RecordHeader, length);
            at += RecordHeader + length;
            if (message.IsEmpty) message = part;
            else message = joined = [.. message, .. part];
            if (message[0] != 1) return Strange(out hello);
            if (message.Length < 4) continue;
            int whole = 4 + (message[1] << 16 | message[2] << 8 | message[3]);
            if (whole > MostBytes) return Strange(out hello);
            if (message.Length < whole) continue;
            hello = new TlsHello();
            hello.ReadBody(message[4..whole]);
            return Outcome.Found;
        }
    }

    /// <summary>The layer refuses it, with better words than ours.</summary>
    private static Outcome Strange(out TlsHello? hello)
    {
        hello = new TlsHello();
        return Outcome.Found;
    }

    private void ReadBody(ReadOnlySpan<byte> body)
    {
        if (body.Length < 35) return;
        ushort legacy = BinaryPrimitives.ReadUInt16BigEndian(body);
        ReadOnlySpan<byte> rest = body[34..];
        if (!Skip8(ref rest) || !Skip16(ref rest) || !Skip8(ref rest) || rest.Length < 2)
        {
            Versions.Add(legacy);
            return;
        }

        rest = rest[2..];
        while (rest.Length >= 4)
        {
            int type = BinaryPrimitives.ReadUInt16BigEndian(rest);
            int length = BinaryPrimitives.ReadUInt16BigEndian(rest[2..]);
            if (rest.Length - 4 < length) break;
            ReadExtension(type, rest.Slice(4, length));
            rest = rest[(4 + length)..];
        }

        if (Versions.Count > 0) return;
        // Without the extension the number is the best one, and those below are spoken, too.
        for (ushort version = 0x0301; version <= Math.Min(legacy, (ushort)0x0303); version++) Versions.Add(version);
        if (Versions.Count == 0) Versions.Add(legacy);
    }

    private void ReadExtension(int type, ReadOnlySpan<byte> data)
    {
        switch (type)
        {
            case 0 when data.Length >= 5 && data[2] == 0:
                int length = BinaryPrimitives.ReadUInt16BigEndian(data[3..]);
                if (length > 0 && data.Length - 5 >= length && ServerName is null) ServerName = NameOf(data.Slice(5, length));
                break;
            case 16 when data.Length > 2:
                for (ReadOnlySpan<byte> rest = data[2..]; rest.Length > 1 && rest.Length > rest[0]; rest = rest[(1 + rest[0])..]) ApplicationProtocols.Add(Encoding.UTF8.GetString(rest.Slice(1, rest[0])));
                break;
            case 43 when data.Length > 1:
                for (int i = 1; i + 1 < data.Length; i += 2)
                {
                    ushort version = BinaryPrimitives.ReadUInt16BigEndian(data[i..]);
                    if (version is >= 0x0300 and <= 0x0304) Versions.Add(version); // the others are noise that is meant to be ignored
                }

                break;
        }
    }

    private static string? NameOf(ReadOnlySpan<byte> name)
    {
        foreach (byte c in name)
        {
            if (c is <= 32 or >= 127) return null;
        }

        return Encoding.ASCII.GetString(name).TrimEnd('.').ToLowerInvariant();
    }

    private static bool Skip8(ref ReadOnlySpan<byte> rest)
    {
        if (rest.IsEmpty || rest.Length - 1 < rest[0]) return false;
        rest = rest[(1 + rest[0])..];
        return true;
    }

    private static bool Skip16(ref ReadOnlySpan<byte> rest)
    {
        if (rest.Length < 2) return false;
        int length = BinaryPrimitives.ReadUInt16BigEndian(rest);
        if (rest.Length - 2 < length) return false;
        rest = rest[(2 + length)..];
        return true;
    }

    private static string VersionsText(List<ushort> versions)
    {
        List<string> names = [];
        for (ushort version = 0x0300; version <= 0x0304; version++)
        {
            if (versions.Contains(version)) names.Add(version == 0x0300 ? "SSL 3.0" : $"1.{version - 0x0301}");
        }

        return names.Count == 0 ? "no version that is known" : "TLS " + string.Join(", ", names);
    }
}
