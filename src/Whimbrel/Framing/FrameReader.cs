using System.Buffers.Binary;
using Kind = Whimbrel.FrameFormat.FrameKind;

namespace Whimbrel;

// Parses frames without I/O and without a copy: a frame is a view of the bytes it was found in. Incomplete data stays
// with the caller, as unconsumed bytes do (contract 3 of Session); the reader only keeps how far it has searched.

/// <summary>Reason why the data contains no valid frame. The reader stops after any of them.</summary>
public enum FrameError
{
    /// <summary>No error.</summary>
    None,

    /// <summary>
    /// A message is longer than <see cref="FrameFormat.LimitBytes"/>, or its delimiter was not found within that
    /// length.
    /// </summary>
    TooLong,

    /// <summary>A length has its top bit set, or a varint has more than 63 bits.</summary>
    LengthOverflow,

    /// <summary>A length that includes itself is smaller than its own size.</summary>
    LengthTooSmall,

    /// <summary>More empty messages in a row than <see cref="FrameFormat.EmptyLimit"/>.</summary>
    TooManyEmpty,
}

/// <summary>One frame, as views of the bytes it was found in; valid as long as they are.</summary>
public readonly ref struct Frame
{
    internal Frame(ReadOnlySpan<byte> header, ReadOnlySpan<byte> message, int bytes)
    {
        Header = header;
        Message = message;
        Bytes = bytes;
    }

    /// <summary>Bytes before the length; empty if the format has no header.</summary>
    public ReadOnlySpan<byte> Header { get; }

    /// <summary>The message.</summary>
    public ReadOnlySpan<byte> Message { get; }

    /// <summary>Number of bytes of the whole frame on the wire. The next frame begins after them.</summary>
    public int Bytes { get; }
}

/// <summary>
/// Finds the frames of one stream of bytes. It stores no data: the caller passes the unread bytes, and passes an
/// incomplete frame again from its start, with more data. One thread at a time.
/// </summary>
/// <param name="format">Format of the frames.</param>
public sealed class FrameReader(FrameFormat format)
{
    private readonly FrameFormat _format = format ?? throw new ArgumentNullException(nameof(format));
    // Including the delimiter, and the CR of a line.
    private readonly int _most = format.LimitBytes + format.DelimiterBytes.Length + (format.Kind == Kind.Line ? 1 : 0);
    private int _scanned; // of the incomplete frame: no delimiter begins in these bytes
    private int _empty;

    /// <summary>
    /// Error in the stream. After any other value than <see cref="FrameError.None"/>, no more frames are found.
    /// </summary>
    public FrameError Error { get; private set; }

    /// <summary>Number of unread bytes after the last complete frame, for sessions.</summary>
    internal int Unfinished { get; set; }

    /// <summary>
    /// Finds the next frame. The total time for a stream is linear in its bytes, however they are split.
    /// </summary>
    /// <param name="unread">All bytes after the last frame.</param>
    /// <param name="frame">The frame.</param>
    /// <returns>False if more bytes are needed, or if <see cref="Error"/> is set.</returns>
    public bool TryRead(ReadOnlySpan<byte> unread, out Frame frame)
    {
        frame = default;
        if (Error != FrameError.None) return false;
        return _format.Kind switch
        {
            Kind.Prefix => TryReadPrefixed(unread, out frame),
            Kind.Varint => TryReadVarint(unread, out frame),
            Kind.Fixed => TryTake(unread, 0, (ulong)_format.LimitBytes, out frame),
            _ => TryReadDelimited(unread, out frame),
        };
    }

    private bool TryReadPrefixed(ReadOnlySpan<byte> unread, out Frame frame)
    {
        frame = default;
        int size = _format.PrefixBytes, start = _format.HeaderBytes + size;
        if (unread.Length < start) return false;
        ReadOnlySpan<byte> number = unread[_format.HeaderBytes..];
        bool isLittle = _format.IsLittleEndian;
        ulong length = size switch
        {
            1 => number[0],
            2 => isLittle
                ? BinaryPrimitives.ReadUInt16LittleEndian(number)
                : BinaryPrimitives.ReadUInt16BigEndian(number),
            4 => isLittle
                ? BinaryPrimitives.ReadUInt32LittleEndian(number)
                : BinaryPrimitives.ReadUInt32BigEndian(number),
            _ => isLittle
                ? BinaryPrimitives.ReadUInt64LittleEndian(number)
                : BinaryPrimitives.ReadUInt64BigEndian(number),
        };
        if (length > long.MaxValue) return Fail(FrameError.LengthOverflow);
        if (_format.CountsItself)
        {
            if (length < (ulong)size) return Fail(FrameError.LengthTooSmall);
            length -= (ulong)size;
        }

        return TryTake(unread, start, length, out frame);
    }

    private bool TryReadVarint(ReadOnlySpan<byte> unread, out Frame frame)
    {
        frame = default;
        ulong length = 0;
        for (int i = 0, at = _format.HeaderBytes; at < unread.Length; i++, at++)
        {
            // The tenth byte would hold bit 63 and higher bits.
            if (i == FrameFormat.MostVarint - 1) return Fail(FrameError.LengthOverflow);
            length |= (ulong)(unread[at] & 0x7F) << (7 * i);
            if (unread[at] < 0x80) return TryTake(unread, at + 1, length, out frame);
        }

        return false;
    }

    /// <summary>Takes a frame. The length is compared with the limit before any calculation with it.</summary>
    private bool TryTake(ReadOnlySpan<byte> unread, int start, ulong length, out Frame frame)
    {
        frame = default;
        if (length > (ulong)_format.LimitBytes) return Fail(FrameError.TooLong);
        if (unread.Length - start < (int)length || !Count((int)length)) return false;
        frame = new Frame(unread[.._format.HeaderBytes], unread.Slice(start, (int)length), start + (int)length);
        return true;
    }

    private bool TryReadDelimited(ReadOnlySpan<byte> unread, out Frame frame)
    {
        frame = default;
        ReadOnlySpan<byte> delimiter = _format.DelimiterBytes;
        ReadOnlySpan<byte> window = unread.Length > _most ? unread[.._most] : unread;
        int found =
            delimiter.Length == 1 ? window[_scanned..].IndexOf(delimiter[0]) : window[_scanned..].IndexOf(delimiter);
        if (found < 0)
        {
            if (window.Length == _most) return Fail(FrameError.TooLong);
            _scanned = Math.Max(0, window.Length - delimiter.Length + 1);
            return false;
        }

        int end = _scanned + found, length = end;
        _scanned = 0;
        if (_format.Kind == Kind.Line && end > 0 && window[end - 1] == '\r') length--;
        if (length > _format.LimitBytes) return Fail(FrameError.TooLong);
        if (!Count(length)) return false;
        int bytes = end + delimiter.Length;
        frame = new Frame(default, window[..(_format.KeepsDelimiter ? bytes : length)], bytes);
        return true;
    }

    private bool Count(int length)
    {
        _empty = length == 0 ? _empty + 1 : 0;
        return _empty <= _format.EmptyLimit || Fail(FrameError.TooManyEmpty);
    }

    private bool Fail(FrameError error)
    {
        Error = error;
        return false;
    }
}
