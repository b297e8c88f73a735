using System.Buffers;
using System.Buffers.Text;
using System.Diagnostics.CodeAnalysis;
using System.Text;

namespace Whimbrel.Http.Parsing;

/// <summary>
/// Writes the head of a message into the caller's memory. Arguments that would split or change the message throw at the
/// call: a name that is no token, a value with a control character, a second framing. If the memory is too small, it
/// stops and sets <see cref="IsFull"/>: the caller starts again with more.
/// </summary>
internal ref struct HttpWriter
{
    private readonly Span<byte> _room;
    private int _status;
    private Written _written;
    private bool _isFramed;

    internal HttpWriter(Span<byte> room) => _room = room;

    private enum Written
    {
        Nothing,
        StartLine,
        Head,
    }

    /// <summary>Number of bytes written.</summary>
    internal int Length { get; private set; }

    /// <summary>Whether the memory was too small: the written bytes are useless.</summary>
    internal bool IsFull { get; private set; }

    // ------------------------------------------------------------------ start line

    internal void StatusLine(int status)
    {
        Enter(Written.Nothing);
        _written = Written.StartLine;
        _status = status;
        Add(StatusLines.For(status));
    }

    internal void StatusLine(int status, ReadOnlySpan<byte> reason)
    {
        Enter(Written.Nothing);
        CheckValue(reason, nameof(reason));
        _written = Written.StartLine;
        _status = status;
        Add(StatusLines.Start(status));
        Add(reason);
        Add("\r\n"u8);
    }

    internal void RequestLine(ReadOnlySpan<byte> method, ReadOnlySpan<byte> target)
    {
        Enter(Written.Nothing);
        if (!HttpBytes.IsToken(method)) RefuseMethod();
        if (target.IsEmpty || target.ContainsAnyExcept(HttpBytes.Query)) RefuseTarget();
        _written = Written.StartLine;
        Add(method);
        Add(" "u8);
        Add(target);
        Add(" HTTP/1.1\r\n"u8);
    }

    // ------------------------------------------------------------------ fields

    internal void Field(HttpField field, ReadOnlySpan<byte> value)
    {
        CheckNotFraming(field);
        CheckValue(value, nameof(value));
        AddField(KnownFields.NameOf(field), value);
    }

    internal void Field(ReadOnlySpan<byte> name, ReadOnlySpan<byte> value)
    {
        CheckName(name);
        CheckValue(value, nameof(value));
        AddField(name, value);
    }

    /// <summary>Writes a field with a text value.</summary>
    internal void Field(HttpField field, string value)
    {
        CheckNotFraming(field);
        CheckText(value);
        Enter(Written.StartLine);
        Add(KnownFields.NameOf(field));
        Add(": "u8);
        if (!IsFull && Encoding.ASCII.TryGetBytes(value, _room[Length..], out int written)) Length += written;
        else IsFull = true;
        Add("\r\n"u8);
    }

    /// <summary>Writes fields produced by <see cref="TryWriteField"/>, with their line ends.</summary>
    internal void CheckedFields(ReadOnlySpan<byte> lines)
    {
        Enter(Written.StartLine);
        Add(lines);
    }

    internal void ContentLength(long bytes)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(bytes);
        Frame(isChunked: false, bytes);
        Add("Content-Length: "u8);
        AddNumber(bytes);
        Add("\r\n"u8);
    }

    internal void Chunked()
    {
        Frame(isChunked: true, 0);
        Add("Transfer-Encoding: chunked\r\n"u8);
    }

    internal void EndHead()
    {
        Enter(Written.StartLine);
        _written = Written.Head;
        Add("\r\n"u8);
    }

    /// <summary>Writes bytes after the head, to be sent with it.</summary>
    internal void Body(ReadOnlySpan<byte> bytes)
    {
        Enter(Written.Head);
        Add(bytes);
    }

    /// <summary>Writes one field as a line. Returns false if it does not fit.</summary>
    internal static bool TryWriteField(Span<byte> room, ReadOnlySpan<char> name, ReadOnlySpan<char> value,
        out int written)
    {
        if (!HttpBytes.IsToken(name)) RefuseName();
        CheckText(value);
        written = name.Length + value.Length + 4;
        if (room.Length < written) return false;
        Encoding.Latin1.GetBytes(name, room);
        CheckNotFraming(KnownFields.Find(room[..name.Length]));
        ": "u8.CopyTo(room[name.Length..]);
        Encoding.Latin1.GetBytes(value, room[(name.Length + 2)..]);
        "\r\n"u8.CopyTo(room[(written - 2)..]);
        return true;
    }

    /// <summary>Writes one field as a line, with a name and a value checked by a reader.</summary>
    /// <param name="room">Buffer, four bytes longer than both.</param>
    /// <param name="name">A token.</param>
    /// <param name="value">Value without control characters.</param>
    internal static void WriteChecked(Span<byte> room, ReadOnlySpan<byte> name, ReadOnlySpan<byte> value)
    {
        name.CopyTo(room);
        ": "u8.CopyTo(room[name.Length..]);
        value.CopyTo(room[(name.Length + 2)..]);
        "\r\n"u8.CopyTo(room[(name.Length + 2 + value.Length)..]);
    }

    /// <summary>Writes the line before a chunk.</summary>
    /// <param name="room">Buffer of at least 10 bytes.</param>
    /// <param name="length">Length of the chunk, 1 or more: 0 would end the body.</param>
    internal static int WriteChunkLine(Span<byte> room, int length)
    {
        ArgumentOutOfRangeException.ThrowIfNegativeOrZero(length);
        Utf8Formatter.TryFormat(length, room, out int digits, new StandardFormat('x'));
        "\r\n"u8.CopyTo(room[digits..]);
        return digits + 2;
    }

    // ------------------------------------------------------------------ checks

    internal static void CheckName(ReadOnlySpan<byte> name)
    {
        if (!HttpBytes.IsToken(name)) RefuseName();
        CheckNotFraming(KnownFields.Find(name));
    }

    /// <summary>Rejects control characters except HTAB, and spaces at both ends, because readers remove them.</summary>
    internal static void CheckValue(ReadOnlySpan<byte> value, string name)
    {
        if (value.ContainsAny(HttpBytes.NotInLine)) RefuseControl(name);
        if (!value.IsEmpty && (value[0] is (byte)' ' or (byte)'\t' || value[^1] is (byte)' ' or (byte)'\t'))
            RefuseSpace(name);
    }

    /// <summary>Checks as <see cref="CheckValue"/>, and rejects non-ASCII characters.</summary>
    internal static void CheckText(ReadOnlySpan<char> value)
    {
        foreach (char c in value)
        {
            if (c is < ' ' and not '\t' or '\x7F') RefuseControl(nameof(value));
            if (c > '\x7F') RefuseLetter();
        }

        if (!value.IsEmpty && (value[0] is ' ' or '\t' || value[^1] is ' ' or '\t')) RefuseSpace(nameof(value));
    }

    private static void CheckNotFraming(HttpField field)
    {
        if (field is HttpField.ContentLength or HttpField.TransferEncoding) RefuseFraming();
    }

    private void Frame(bool isChunked, long bytes)
    {
        Enter(Written.StartLine);
        if (_isFramed)
            throw new InvalidOperationException(
                "The message has its framing already: a body has one length, or is chunked.");
        bool hasNoBody = _status is >= 100 and < 200 or 204;
        if (hasNoBody || (_status == 304 && isChunked))
            throw new InvalidOperationException($"An answer with status {_status} has no body.");
        _isFramed = true;
    }

    private readonly void Enter(Written wanted)
    {
        if (_written != wanted)
            throw new InvalidOperationException(
                "The parts of a message come in their order: start line, fields, end of the head, body.");
    }

    [DoesNotReturn]
    private static void RefuseName() => throw new ArgumentException(
        "The name of a field is a token: letters, digits and a few signs, at least one of them.", "name");

    [DoesNotReturn]
    private static void RefuseFraming() => throw new ArgumentException(
        "Content-Length and Transfer-Encoding follow from the body: they are not set as fields.", "name");

    [DoesNotReturn]
    private static void RefuseControl(string name) => throw new ArgumentException("A value has no control characters: "
        + "CR and LF would end its line, and what follows would be taken for a field.", name);

    [DoesNotReturn]
    private static void RefuseSpace(string name) =>
        throw new ArgumentException("A value has no space at its ends: a reader takes it away.", name);

    [DoesNotReturn]
    private static void RefuseLetter() => throw new ArgumentException(
        "A value is ASCII: encode other letters as its field says, for instance by percent signs.", "value");

    [DoesNotReturn]
    private static void RefuseMethod() => throw new ArgumentException("A method is a token.", "method");

    [DoesNotReturn]
    private static void RefuseTarget() => throw new ArgumentException(
        "A target is visible ASCII without a fragment: encode all else by percent signs.", "target");

    // ------------------------------------------------------------------ bytes

    private void AddField(ReadOnlySpan<byte> name, ReadOnlySpan<byte> value)
    {
        Enter(Written.StartLine);
        Add(name);
        Add(": "u8);
        Add(value);
        Add("\r\n"u8);
    }

    private void AddNumber(long number)
    {
        if (IsFull) return;
        IsFull = !Utf8Formatter.TryFormat(number, _room[Length..], out int written);
        Length += written;
    }

    private void Add(ReadOnlySpan<byte> bytes)
    {
        if (IsFull) return;
        if (bytes.TryCopyTo(_room[Length..])) Length += bytes.Length;
        else IsFull = true;
    }
}
