using System.Buffers;
using System.Buffers.Binary;

namespace Whimbrel;

// Rules for splitting a stream of bytes into frames. Plain data, validated once when it is created, and shared by any
// number of readers and sessions. It performs no I/O: FrameReader finds frames, Write encodes them (docs/design/0045).

/// <summary>
/// Format of messages in a stream of bytes: after a length, before a delimiter, as lines, or of a fixed size.
/// Immutable; any thread.
/// </summary>
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
        if (limitBytes is < 1 or > 1 << 30)
            Diagnostics.Throw.OutOfRange(nameof(limitBytes), limitBytes, "between 1 byte and 1 GiB");
        if (emptyLimit < 0) Diagnostics.Throw.OutOfRange(nameof(emptyLimit), emptyLimit, "0 or more");
        Kind = kind;
        _delimiter = delimiter;
        LimitBytes = limitBytes;
        EmptyLimit = emptyLimit;
    }

    /// <summary>Maximum length of a message in bytes, without header, length and delimiter.</summary>
    public int LimitBytes { get; }

    /// <summary>
    /// Maximum number of empty messages in a row. Each costs a call, and one received block can contain thousands.
    /// Protocols with empty frames as heartbeats set more.
    /// </summary>
    public int EmptyLimit { get; }

    internal FrameKind Kind { get; }

    internal int PrefixBytes { get; private init; }

    internal int HeaderBytes { get; private init; }

    internal bool IsLittleEndian { get; private init; }

    internal bool CountsItself { get; private init; }

    internal bool KeepsDelimiter { get; private init; }

    internal ReadOnlySpan<byte> DelimiterBytes => _delimiter;

    /// <summary>Creates a format of messages after a length of fixed size.</summary>
    /// <param name="prefixBytes">Size of the length in bytes: 1, 2, 4 or 8.</param>
    /// <param name="littleEndian">True for a little-endian length; false for big-endian, as usual in networks.</param>
    /// <param name="countsItself">True if the length includes its own bytes. A header before it is never
    /// included.</param>
    /// <param name="headerBytes">Number of bytes before the length that belong to the message, 0 to 64.</param>
    /// <param name="limitBytes">Maximum message length, see <see cref="LimitBytes"/>; 1 byte to 1 GiB.</param>
    /// <param name="emptyLimit">Maximum number of empty messages, see <see cref="EmptyLimit"/>; 0 or more.</param>
    public static FrameFormat LengthPrefix(
        int prefixBytes, bool littleEndian = false, bool countsItself = false, int headerBytes = 0,
        int limitBytes = DefaultLimit, int emptyLimit = DefaultEmpty)
    {
        if (prefixBytes is not (1 or 2 or 4 or 8))
            Diagnostics.Throw.OutOfRange(nameof(prefixBytes), prefixBytes, "1, 2, 4 or 8");
        CheckHeader(headerBytes);
        return new FrameFormat(FrameKind.Prefix, [], limitBytes, emptyLimit)
        {
            PrefixBytes = prefixBytes, IsLittleEndian = littleEndian, CountsItself = countsItself,
            HeaderBytes = headerBytes,
        };
    }

    /// <summary>
    /// Creates a format of messages after a length as a varint: seven bits in each byte, the least significant first,
    /// the top bit set in all but the last.
    /// </summary>
    /// <param name="headerBytes">Number of bytes before the length that belong to the message, 0 to 64.</param>
    /// <param name="limitBytes">Maximum message length, see <see cref="LimitBytes"/>; 1 byte to 1 GiB.</param>
    /// <param name="emptyLimit">Maximum number of empty messages, see <see cref="EmptyLimit"/>; 0 or more.</param>
    public static FrameFormat VarintPrefix(int headerBytes = 0, int limitBytes = DefaultLimit,
        int emptyLimit = DefaultEmpty)
    {
        CheckHeader(headerBytes);
        return new FrameFormat(FrameKind.Varint, [], limitBytes, emptyLimit) { HeaderBytes = headerBytes };
    }

    /// <summary>Creates a format of messages that each end with the same bytes.</summary>
    /// <param name="delimiter">Delimiter, 1 to 64 bytes. Copied.</param>
    /// <param name="keep">True if the delimiter is part of the delivered message.</param>
    /// <param name="limitBytes">Maximum message length, see <see cref="LimitBytes"/>; 1 byte to 1 GiB.</param>
    /// <param name="emptyLimit">Maximum number of empty messages, see <see cref="EmptyLimit"/>; 0 or more.</param>
    public static FrameFormat Delimited(ReadOnlySpan<byte> delimiter, bool keep = false, int limitBytes = DefaultLimit,
        int emptyLimit = DefaultEmpty)
    {
        if (delimiter.Length is < 1 or > MostDelimiter)
            Diagnostics.Throw.OutOfRange(nameof(delimiter), delimiter.Length, "1 to 64 bytes long");
        return new FrameFormat(FrameKind.Delimiter, delimiter.ToArray(), limitBytes, emptyLimit)
        {
            KeepsDelimiter = keep
        };
    }

    /// <summary>
    /// Creates a format of text lines: each ends with LF or CR LF, which are not part of the message. Written with LF.
    /// </summary>
    /// <param name="limitBytes">Maximum message length, see <see cref="LimitBytes"/>; 1 byte to 1 GiB.</param>
    /// <param name="emptyLimit">Maximum number of empty messages, see <see cref="EmptyLimit"/>; 0 or more.</param>
    public static FrameFormat Line(int limitBytes = DefaultLimit, int emptyLimit = DefaultEmpty) =>
        new(FrameKind.Line, [(byte)'\n'], limitBytes, emptyLimit);

    /// <summary>Creates a format of consecutive messages of the same size.</summary>
    /// <param name="bytes">Size of each message, 1 byte to 1 GiB.</param>
    public static FrameFormat FixedSize(int bytes) => new(FrameKind.Fixed, [], bytes, 0);

    /// <summary>Writes one message as it is sent over the wire.</summary>
    /// <param name="to">Writer for the frame, such as a <see cref="MessageWriter"/>.</param>
    /// <param name="message">Message without header, length and delimiter.</param>
    /// <param name="header">Bytes before the length; exactly as long as the format requires.</param>
    /// <exception cref="ArgumentException">A reader of this format could not parse the message: it is too long, of
    /// another size, contains the delimiter, or the header has another length.</exception>
    public void Write(IBufferWriter<byte> to, ReadOnlySpan<byte> message, ReadOnlySpan<byte> header = default)
    {
        ArgumentNullException.ThrowIfNull(to);
        Span<byte> head = stackalloc byte[MostHeader + MostVarint];
        int length = WriteHead(head, message, header);
        to.Write(head[..length]);
        to.Write(message);
        to.Write(_delimiter);
    }

    /// <summary>Checks the message and writes the bytes before it.</summary>
    internal int WriteHead(Span<byte> to, ReadOnlySpan<byte> message, ReadOnlySpan<byte> header)
    {
        if (header.Length != HeaderBytes)
            throw new ArgumentException($"The header has {header.Length} bytes, and the format says {HeaderBytes}.",
                nameof(header));
        if (message.Length > LimitBytes) throw new ArgumentException(
            $"The message has {message.Length} bytes, and the limit of the format is {LimitBytes}.", nameof(message));
        header.CopyTo(to);
        switch (Kind)
        {
            case FrameKind.Prefix: return HeaderBytes + WritePrefix(to[HeaderBytes..], message.Length);
            case FrameKind.Varint: return HeaderBytes + WriteVarint(to[HeaderBytes..], message.Length);
            case FrameKind.Fixed:
                if (message.Length != LimitBytes)
                    throw new ArgumentException(
                        $"The message has {message.Length} bytes, and those of the format have {LimitBytes}.",
                        nameof(message));
                return 0;
            default:
                if (WouldEndEarly(message))
                    throw new ArgumentException(
                        "The message holds what ends a message of this format: the peer would see two, or another one.",
                        nameof(message));
                return 0;
        }
    }

    private int WritePrefix(Span<byte> to, int length)
    {
        ulong number = (ulong)length + (CountsItself ? (ulong)PrefixBytes : 0);
        if (PrefixBytes < 8 && number >> (8 * PrefixBytes) != 0)
            throw new ArgumentException($"A length of {number} does not fit into {PrefixBytes} bytes.", nameof(length));
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

    /// <summary>
    /// Returns whether the message contains the delimiter, or ends with bytes that form it together with the delimiter
    /// after them; or whether a line would lose its CR.
    /// </summary>
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
        if (headerBytes is < 0 or > MostHeader)
            Diagnostics.Throw.OutOfRange(nameof(headerBytes), headerBytes, "0 to 64");
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
