using System.Buffers.Binary;
using System.Text;

namespace Whimbrel.Tls;

/// <summary>
/// Content of a client's first message, which is in the clear. Parsed before a layer is created, so that the server
/// name selects the options from the start, and failures can be described. The layer gets the same bytes. Sans-I/O. A
/// value on the stack with views of the input: an ordinary handshake allocates nothing for it.
/// </summary>
internal ref struct TlsHello
{
    /// <summary>Maximum size of a ClientHello; larger ones are rejected. Real ones have up to 3 KiB.</summary>
    internal const int MostBytes = 64 * 1024;

    private const int RecordHeader = 5;

    /// <summary>Marks that the only version is none of those that have a bit.</summary>
    private const byte UnknownVersion = 0x80;

    // One bit for each of 0x0300 to 0x0304: other values in a list are GREASE and must be ignored.
    private byte _versions;
    private ReadOnlySpan<byte> _name;
    private ReadOnlySpan<byte> _protocols;

    /// <summary>Result of parsing.</summary>
    internal enum Outcome
    {
        /// <summary>The message is incomplete.</summary>
        NeedsMore,

        /// <summary>The message is complete, or so unusual that the layer should report the mistake.</summary>
        Found,

        /// <summary>The data is not TLS.</summary>
        NotTls,
    }

    /// <summary>True if it contains a version.</summary>
    internal readonly bool HasVersions => _versions != 0;

    /// <summary>True if it contains application protocols.</summary>
    internal readonly bool HasProtocols => !_protocols.IsEmpty;

    /// <summary>The versions, such as "TLS 1.0, 1.1", for messages.</summary>
    internal readonly string VersionText
    {
        get
        {
            List<string> names = [];
            for (ushort version = 0x0300; version <= 0x0304; version++)
            {
                if (Offers(version)) names.Add(version == 0x0300 ? "SSL 3.0" : $"1.{version - 0x0301}");
            }

            return names.Count == 0 ? "no version that is known" : "TLS " + string.Join(", ", names);
        }
    }

    /// <summary>The offered application protocols, for messages.</summary>
    internal readonly string ProtocolText
    {
        get
        {
            List<string> names = [];
            for (ReadOnlySpan<byte> rest = _protocols; TryNext(ref rest, out ReadOnlySpan<byte> name);)
                names.Add(Encoding.UTF8.GetString(name));
            return string.Join(", ", names);
        }
    }

    /// <summary>Returns whether it offers a version, as on the wire (0x0304 is 1.3).</summary>
    internal readonly bool Offers(int version) =>
        version is >= 0x0300 and <= 0x0304 && (_versions & 1 << (version - 0x0300)) != 0;

    /// <summary>Returns whether it offers this application protocol.</summary>
    internal readonly bool OffersProtocol(string name)
    {
        Span<byte> ours = stackalloc byte[byte.MaxValue];
        if (!Encoding.UTF8.TryGetBytes(name, ours, out int length)) return false;
        for (ReadOnlySpan<byte> rest = _protocols; TryNext(ref rest, out ReadOnlySpan<byte> theirs);)
        {
            if (theirs.SequenceEqual(ours[..length])) return true;
        }

        return false;
    }

    /// <summary>Returns whether this is the only application protocol that it offers.</summary>
    internal readonly bool OffersOnly(ReadOnlySpan<byte> protocol)
    {
        ReadOnlySpan<byte> rest = _protocols;
        return TryNext(ref rest, out ReadOnlySpan<byte> first) && rest.IsEmpty && first.SequenceEqual(protocol);
    }

    /// <summary>Returns the requested server name in lower case, or null.</summary>
    /// <param name="last">Earlier result, or null. Returned again if it is the same, because most clients of a server
    /// request one name.</param>
    internal readonly string? NameOr(string? last)
    {
        if (_name.IsEmpty) return null;
        return last is not null && Ascii.EqualsIgnoreCase(_name, last)
            ? last
            : Encoding.ASCII.GetString(_name).ToLowerInvariant();
    }

    /// <summary>Parses the data received so far, from its first byte.</summary>
    internal static Outcome Read(ReadOnlySpan<byte> input, out TlsHello hello)
    {
        hello = default;
        if (input.IsEmpty) return Outcome.NeedsMore;
        // 0x16 is a handshake record. Any other first byte is not TLS.
        if (input[0] != 0x16 || (input.Length > 1 && input[1] != 3)) return Outcome.NotTls;
        ReadOnlySpan<byte> message = default;
        int at = 0;
        // Nearly always one record; a client may split its message into several.
        while (true)
        {
            if (input.Length - at < RecordHeader) return Outcome.NeedsMore;
            int length = BinaryPrimitives.ReadUInt16BigEndian(input[(at + 3)..]);
            if (input[at] != 0x16 || length == 0 || length > 16 * 1024 + 256) return Strange(out hello);
            if (input.Length - at - RecordHeader < length)
            {
                // A message that cannot become a ClientHello is not waited for.
                if (at == 0 && input.Length > RecordHeader && input[RecordHeader] != 1) return Strange(out hello);
                return Outcome.NeedsMore;
            }

            ReadOnlySpan<byte> part = input.Slice(at + RecordHeader, length);
            at += RecordHeader + length;
            if (message.IsEmpty) message = part;
            else message = (byte[])[.. message, .. part];
            if (message[0] != 1) return Strange(out hello);
            if (message.Length < 4) continue;
            int whole = 4 + (message[1] << 16 | message[2] << 8 | message[3]);
            if (whole > MostBytes) return Strange(out hello);
            if (message.Length < whole) continue;
            hello = default;
            hello.ReadBody(message[4..whole]);
            return Outcome.Found;
        }
    }

    /// <summary>Returns Found for unusual messages: the layer rejects them with better texts.</summary>
    private static Outcome Strange(out TlsHello hello)
    {
        hello = default;
        return Outcome.Found;
    }

    private void ReadBody(ReadOnlySpan<byte> body)
    {
        if (body.Length < 35) return;
        ushort legacy = BinaryPrimitives.ReadUInt16BigEndian(body);
        ReadOnlySpan<byte> rest = body[34..];
        if (!Skip8(ref rest) || !Skip16(ref rest) || !Skip8(ref rest) || rest.Length < 2)
        {
            AddOnly(legacy);
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

        if (HasVersions) return;
        // Without the extension the number is the highest version, and the lower ones are supported, too.
        for (ushort version = 0x0301; version <= Math.Min(legacy, (ushort)0x0303); version++) Add(version);
        if (!HasVersions) AddOnly(legacy);
    }

    private void ReadExtension(int type, ReadOnlySpan<byte> data)
    {
        switch (type)
        {
            case 0 when data.Length >= 5 && data[2] == 0:
                int length = BinaryPrimitives.ReadUInt16BigEndian(data[3..]);
                if (length > 0 && data.Length - 5 >= length && _name.IsEmpty)
                    _name = Printable(data.Slice(5, length)).TrimEnd((byte)'.');
                break;
            case 16 when data.Length > 2:
                _protocols = data[2..];
                break;
            case 43 when data.Length > 1:
                for (int i = 1; i + 1 < data.Length; i += 2) Add(BinaryPrimitives.ReadUInt16BigEndian(data[i..]));
                break;
        }
    }

    private void Add(ushort version)
    {
        if (version is >= 0x0300 and <= 0x0304) _versions |= (byte)(1 << (version - 0x0300));
    }

    private void AddOnly(ushort version)
    {
        Add(version);
        if (_versions == 0) _versions = UnknownVersion;
    }

    private static bool TryNext(scoped ref ReadOnlySpan<byte> rest, out ReadOnlySpan<byte> name)
    {
        name = default;
        if (rest.Length <= 1 || rest.Length <= rest[0]) return false;
        name = rest.Slice(1, rest[0]);
        rest = rest[(1 + rest[0])..];
        return true;
    }

    private static ReadOnlySpan<byte> Printable(ReadOnlySpan<byte> name) =>
        name.ContainsAnyExceptInRange((byte)33, (byte)126) ? default : name;

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
}
