using System.Buffers;
using System.Buffers.Binary;

namespace Whimbrel;

// How a stream of bytes is cut into frames. Plain data, checked once when it is made, and shared by any number of readers and
// sessions. It does no I/O: FrameReader finds frames by it, Write forms them (docs/design/0045).

/// <summary>How messages lie in a stream of bytes: behind their length, before a delimiter, as lines, or all of one size. Immutable; any thread.</summary>
public sealed class FrameFormat
{
    internal const int MostHeader = 64;
    internal const int MostDelimiter = 64;
    internal const int MostVarint = 10;
    private const int DefaultLimit = 64 * 1024;
    private const int DefaultEmpty = 1024;

    private readonly byte[] _delimiter;

    private FrameFormat(FrameKind kind, byte[] delimiter, int limitBytes, int emptyLimit)
    {
        if (limitBytes is < 1 or > 1 << 30) Diagnostics.Throw.OutOfRange(nameof(limitBytes), limitBytes, "between 1 byte and 1 GiB");
        if (emptyLimit < 0) Diagnostics.Throw.OutOfRange(nameof(emptyLimit), emptyLimit, "0 or more");
        Kind = kind;
        _delimiter = delimiter;
        LimitBytes = limitBytes;
        EmptyLimit = emptyLimit;
    }

    /// <summary>Most bytes of a message, without header, length and delimiter.</summary>
    public int LimitBytes { get; }

    /// <summary>Most empty messages in a row: each costs a call, and a block of them costs thousands. A protocol whose heartbeat is an empty frame sets more.</summary>
    public int EmptyLimit { get; }

    internal FrameKind Kind { get; }

    internal int PrefixBytes { get; private init; }

    internal int HeaderBytes { get; private init; }

    internal bool IsLittleEndian { get; private init; }

    internal bool CountsItself { get; private init; }

    internal bool KeepsDelimiter { get; private init; }

    internal ReadOnlySpan<byte> DelimiterBytes => _delimiter;

    /// <summary>Messages behind their length as a number of fixed size.</summary>
    /// <param name="prefixBytes">Size of the number: 1, 2, 4 or 8.</param>
    /// <param name="littleEndian">Its least significant byte comes first; else the most significant, as usual in networks.</param>
    /// <param name="countsItself">The number counts its own bytes, too. A header before it is never counted.</param>
    /// <param name="headerBytes">Bytes before the number that belong to the message, 0 to 64.</param>
    /// <param name="limitBytes">See <see cref="LimitBytes"/>; 1 byte to 1 GiB.</param>
    /// <param name="emptyLimit">See <see cref="EmptyLimit"/>; 0 or more.</param>
    public static FrameFormat LengthPrefix(
        int prefixBytes, bool littleEndian = false, bool countsItself = false, int headerBytes = 0, int limitBytes = DefaultLimit, int emptyLimit = DefaultEmpty)
    {
        if (prefixBytes is not (1 or 2 or 4 or 8)) Diagnostics.Throw.OutOfRange(nameof(prefixBytes), prefixBytes, "1, 2, 4 or 8");
        CheckHeader(headerBytes);
        return new FrameFormat(FrameKind.Prefix, [], limitBytes, emptyLimit)
        {
            PrefixBytes = prefixBytes, IsLittleEndian = littleEndian, CountsItself = countsItself, HeaderBytes = headerBytes,
        };
    }

    /// <summary>Messages behind their length as a varint: seven bits in each byte, the least significant first, the top bit set in all but the last.</summary>
    /// <param name="headerBytes">Bytes before the number that belong to the message, 0 to 64.</param>
    /// <param name="limitBytes">See <see cref="LimitBytes"/>; 1 byte to 1 GiB.</param>
    /// <param name="emptyLimit">See <see cref="EmptyLimit"/>; 0 or more.</param>
    public static FrameFormat VarintPrefix(int headerBytes = 0, int limitBytes = DefaultLimit, int emptyLimit = DefaultEmpty)
    {
        CheckHeader(headerBytes);
        return new FrameFormat(FrameKind.Varint, [], limitBytes, emptyLimit) { HeaderBytes = headerBytes };
    }

    /// <summary>Messages that each end with the same bytes.</summary>
    /// <param name="delimiter">Those bytes, 1 to 64. Copied.</param>
    /// <param name="keep">They are given as a part of the message; else they are left out.</param>
    /// <param name="limitBytes">See <see cref="LimitBytes"/>; 1 byte to 1 GiB.</param>
    /// <param name="emptyLimit">See <see cref="EmptyLimit"/>; 0 or more.</param>
    public static FrameFormat Delimited(ReadOnlySpan<byte> delimiter, bool keep = false, int limitBytes = DefaultLimit, int emptyLimit = DefaultEmpty)
    {
        if (delimiter.Length is < 1 or > MostDelimiter) Diagnostics.Throw.OutOfRange(nameof(delimiter), delimiter.Length, "1 to 64 bytes long");
        return new FrameFormat(FrameKind.Delimiter, delimiter.ToArray(), limitBytes, emptyLimit) { KeepsDelimiter = keep };
    }

    /// <summary>Lines of text: each ends with LF or CR LF, which are left out. Written with LF.</summary>
    /// <param name="limitBytes">See <see cref="LimitBytes"/>; 1 byte to 1 GiB.</param>
    /// <param name="emptyLimit">See <see cref="EmptyLimit"/>; 0 or more.</param>
    public static FrameFormat Line(int limitBytes = DefaultLimit, int emptyLimit = DefaultEmpty) =>
        new(FrameKind.Line, [(byte)'\n'], limitBytes, emptyLimit);

    /// <summary>Messages that are all of one size, one behind the other.</summary>
    /// <param name="bytes">That size, 1 byte to 1 GiB.</param>
    public static FrameFormat FixedSize(int bytes) => new(FrameKind.Fixed, [], bytes, 0);

    /// <summary>Writes one message as it goes over the wire.</summary>
    /// <param name="to">Where to, such as a <see cref="MessageWriter"/>.</param>
    /// <param name="message">The message, without header, length and delimiter.</param>
    /// <param name="header">What stands before the length; exactly as long as the format says.</param>
    /// <exception cref="ArgumentException">A reader of this format would not find this message: it is too long, of another size, holds the delimiter, or the header has another length.</exception>
    public void Write(IBufferWriter<byte> to, ReadOnlySpan<byte> message, ReadOnlySpan<byte> header = default)
    {
        ArgumentNullException.ThrowIfNull(to);
        Span<byte> head = stackalloc byte[MostHeader + MostVarint];
        int length = WriteHead(head, message, header);
        to.Write(head[..length]);
        to.Write(message);
        to.Write(_delimiter);
    }

    /// <summary>What goes before the message, after a look at whether it may be written at all.</summary>
    internal int WriteHead(Span<byte> to, ReadOnlySpan<byte> message, ReadOnlySpan<byte> header)
    {
        if (header.Length != HeaderBytes) throw new ArgumentException($"The header has {header.Length} bytes, and the format says {HeaderBytes}.", nameof(header));
        if (message.Length > LimitBytes) throw new ArgumentException($"The message has {message.Length} bytes, and the limit of the format is {LimitBytes}.", nameof(message));
        header.CopyTo(to);
        switch (Kind)
        {
            case FrameKind.Prefix: return HeaderBytes + WritePrefix(to[HeaderBytes..], message.Length);
            case FrameKind.Varint: return HeaderBytes + WriteVarint(to[HeaderBytes..], message.Length);
            case FrameKind.Fixed:
                if (message.Length != LimitBytes) throw new ArgumentException($"The message has {message.Length} bytes, and those of the format have {LimitBytes}.", nameof(message));
                return 0;
            default:
                if (WouldEndEarly(message)) throw new ArgumentException("The message holds what ends a message of this format: the peer would see two, or another one.", nameof(message));
                return 0;
        }
    }

    private int WritePrefix(Span<byte> to, int length)
    {
        ulong number = (ulong)length + (CountsItself ? (ulong)PrefixBytes : 0);
        if (PrefixBytes < 8 && number >> (8 * PrefixBytes) != 0) throw new ArgumentException($"A length of {number} does not fit into {PrefixBytes} bytes.", nameof(length));
        Span<byte> bytes = stackalloc byte[8];
        if (IsLittleEndian) BinaryPrimitives.WriteUInt64LittleEndian(bytes, number);
        else BinaryPrimitives.WriteUInt64BigEndian(bytes, number << (8 * (8 - PrefixBytes)));
        bytes[..PrefixBytes].CopyTo(to);
        return PrefixBytes;
    }

    private static int WriteVarint(Span<byte> to, int length)
    {
        int count = 0;
        uint rest = (uint)length;
        for (; rest >= 0x80; rest >>= 7) to[count++] = (byte)(rest | 0x80);
        to[count++] = (byte)rest;
        return count;
    }

    /// <summary>The delimiter lies in the message, or begins in its end and goes on in the delimiter behind it; or the end of a line would lose its CR.</summary>
    private bool WouldEndEarly(ReadOnlySpan<byte> message)
    {
        ReadOnlySpan<byte> delimiter = _delimiter;
        if (message.IndexOf(delimiter) >= 0 || (Kind == FrameKind.Line && message.EndsWith("\r"u8))) return true;
        for (int k = 1; k < delimiter.Length; k++)
        {
            if (delimiter[k..].SequenceEqual(delimiter[..^k]) && message.EndsWith(delimiter[..k])) return true;
        }

        return false;
    }

    private static void CheckHeader(int headerBytes)
    {
        if (headerBytes is < 0 or > MostHeader) Diagnostics.Throw.OutOfRange(nameof(headerBytes), headerBytes, "0 to 64");
    }

    internal enum FrameKind
    {
        Fixed,
        Prefix,
        Varint,
        Delimiter,
        Line,
    }
}
