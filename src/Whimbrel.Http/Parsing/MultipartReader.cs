using System.Buffers;
using System.Text;

namespace Whimbrel.Http.Parsing;

/// <summary>
/// Reads a body of parts (<c>multipart/form-data</c>) as offsets, independent of how the bytes are split. Strict: no
/// text before the first boundary or after the last, lines end in CR LF, each part has one name. Names are ranges of
/// the bytes from which the head was read.
/// </summary>
internal sealed class MultipartReader
{
    /// <summary>Largest head of a part in bytes, including its empty line.</summary>
    internal const int HeadLimitBytes = 4096;

    private const int FieldLimit = 16;
    private const int MaxBoundary = 70;
    private static readonly SearchValues<byte> s_boundary =
        SearchValues.Create("'()+_,-./:=? 0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"u8);

    private readonly byte[] _delimiter; // CR LF -- boundary
    private readonly int _partLimit;
    private int _parts;
    private int _scanned;
    private int _lineStart;
    private int _epilogue;
    private Place _place;

    /// <summary>Creates a reader for one body.</summary>
    /// <param name="boundary">Boundary from <see cref="TryFindBoundary"/>.</param>
    /// <param name="partLimit">Largest number of parts.</param>
    internal MultipartReader(ReadOnlySpan<byte> boundary, int partLimit)
    {
        _delimiter = [.. "\r\n--"u8, .. boundary];
        _partLimit = partLimit;
    }

    private enum Place
    {
        Start,
        BehindBoundary,
        Head,
        Data,
        Epilogue,
        Broken,
    }

    /// <summary>Broken rule.</summary>
    internal MultipartRule Rule { get; private set; }

    /// <summary>Offset of the data.</summary>
    internal int Start { get; private set; }

    /// <summary>Length of the data.</summary>
    internal int Length { get; private set; }

    /// <summary>Name of the part, without quotes, with backslashes.</summary>
    internal Range Name { get; private set; }

    /// <summary>File name in the same form; null for none.</summary>
    internal Range? FileName { get; private set; }

    /// <summary>Content-Type; null for none.</summary>
    internal Range? ContentType { get; private set; }

    /// <summary>Gets the boundary of a Content-Type. Returns false if it is not <c>multipart/form-data</c>, or has no
    /// valid boundary.</summary>
    internal static bool TryFindBoundary(ReadOnlySpan<byte> contentType, out ReadOnlySpan<byte> boundary)
    {
        boundary = default;
        int end = contentType.IndexOf((byte)';');
        if (end < 0 || !Ascii.EqualsIgnoreCase(HttpBytes.Trim(contentType[..end]), "multipart/form-data"u8))
            return false;
        Parameters rest = new(contentType[end..]);
        while (rest.TryNext(out ReadOnlySpan<byte> name, out Range value))
        {
            if (!Ascii.EqualsIgnoreCase(name, "boundary"u8)) continue;
            if (!boundary.IsEmpty) return false;
            boundary = contentType[end..][value];
            if (boundary.Length is 0 or > MaxBoundary || boundary.ContainsAnyExcept(s_boundary) || boundary[^1] == ' ')
                return false;
        }

        return rest.IsAtEnd && !boundary.IsEmpty;
    }

    /// <summary>Continues to read.</summary>
    /// <param name="unread">Bytes that the last call did not consume, followed by new bytes.</param>
    /// <param name="taken">Number of bytes consumed.</param>
    internal MultipartReading Read(ReadOnlySpan<byte> unread, out int taken)
    {
        taken = 0;
        while (true)
        {
            ReadOnlySpan<byte> rest = unread[taken..];
            switch (_place)
            {
                case Place.Start:
                    ReadOnlySpan<byte> first = _delimiter.AsSpan(2);
                    int known = Math.Min(first.Length, rest.Length);
                    if (!rest[..known].SequenceEqual(first[..known])) return Break(MultipartRule.Start);
                    if (known < first.Length) return MultipartReading.NeedMore;
                    taken += known;
                    _place = Place.BehindBoundary;
                    continue;
                case Place.BehindBoundary:
                    if (rest.Length < 2)
                        return rest is [not ((byte)'\r' or (byte)'-')]
                            ? Break(MultipartRule.BoundaryEnd)
                            : MultipartReading.NeedMore;
                    bool isLast = rest.StartsWith("--"u8);
                    if (!isLast && !rest.StartsWith("\r\n"u8)) return Break(MultipartRule.BoundaryEnd);
                    if (!isLast && ++_parts > _partLimit) return Break(MultipartRule.TooManyParts);
                    taken += 2;
                    _scanned = _lineStart = 0;
                    _place = isLast ? Place.Epilogue : Place.Head;
                    continue;
                case Place.Head:
                    return ReadHead(rest, ref taken);
                case Place.Data:
                    return ReadData(rest, ref taken);
                case Place.Epilogue:
                    // Only a line end may follow.
                    for (; taken < unread.Length; taken++, _epilogue++)
                    {
                        if (_epilogue == 2 || unread[taken] != "\r\n"u8[_epilogue]) return Break(MultipartRule.Rest);
                    }

                    return MultipartReading.NeedMore;
                default:
                    return MultipartReading.Broken;
            }
        }
    }

    /// <summary>Signals the end of the body. Returns whether it was complete.</summary>
    internal bool Finish()
    {
        if (_place == Place.Epilogue && _epilogue != 1) return true;
        if (_place != Place.Broken) Break(MultipartRule.Truncated);
        return false;
    }

    /// <summary>Returns the status for a rule.</summary>
    internal static int StatusOf(MultipartRule rule) =>
        rule is MultipartRule.TooManyParts or MultipartRule.HeadTooLarge ? 413 : 400;

    /// <summary>Returns the error as a sentence without its full stop.</summary>
    internal static string TextOf(MultipartRule rule) => rule switch
    {
        MultipartRule.Start => "The form does not begin with its boundary",
        MultipartRule.BoundaryEnd => "A boundary of the form is not followed by a line end",
        MultipartRule.TooManyParts => "The form has too many parts",
        MultipartRule.HeadTooLarge => "The head of a part is too large",
        MultipartRule.BadHead => "The head of a part is malformed",
        MultipartRule.BadDisposition => "A part does not have exactly one Content-Disposition with a name",
        MultipartRule.Encoded => "A part has an unsupported Content-Transfer-Encoding",
        MultipartRule.Rest => "Bytes follow the last boundary of the form",
        MultipartRule.Truncated => "The form was not finished",
        _ => "Nothing is wrong",
    };

    private MultipartReading Break(MultipartRule rule)
    {
        Rule = rule;
        _place = Place.Broken;
        return MultipartReading.Broken;
    }

    // ------------------------------------------------------------------ the head of a part

    private MultipartReading ReadHead(ReadOnlySpan<byte> rest, ref int taken)
    {
        // Each scan continues where the last one stopped; lines are parsed when the empty one has arrived.
        while (true)
        {
            int end = HttpLines.FindEnd(rest, ref _scanned, HeadLimitBytes - 2, out HttpRule rule);
            if (rule != HttpRule.None)
                return Break(rule == HttpRule.HeadTooLarge ? MultipartRule.HeadTooLarge : MultipartRule.BadHead);
            if (end < 0) return MultipartReading.NeedMore;
            if (end > _lineStart)
            {
                _scanned = _lineStart = end + 2;
                continue;
            }

            if (!TryUnderstand(rest[.._lineStart], taken)) return MultipartReading.Broken;
            taken += end + 2;
            _place = Place.Data;
            return MultipartReading.Part;
        }
    }

    private bool TryUnderstand(ReadOnlySpan<byte> head, int offset)
    {
        Name = default;
        FileName = ContentType = null;
        bool hasDisposition = false;
        int fields = 0, start = 0;
        while (start < head.Length)
        {
            int end = start + head[start..].IndexOf("\r\n"u8);
            if (HttpLines.Split(head[start..end], start, out HttpFieldPlace place) != HttpRule.None)
                return Fail(MultipartRule.BadHead);
            if (++fields > FieldLimit) return Fail(MultipartRule.HeadTooLarge);
            Range value = new(place.ValueStart, place.ValueStart + place.ValueLength);
            ReadOnlySpan<byte> name = head.Slice(place.NameStart, place.NameLength);
            if (place.Field == HttpField.ContentDisposition)
            {
                if (hasDisposition || !TryReadDisposition(head[value], offset + place.ValueStart))
                    return Fail(MultipartRule.BadDisposition);
                hasDisposition = true;
            }
            else if (place.Field == HttpField.ContentType)
            {
                if (ContentType is not null) return Fail(MultipartRule.BadHead);
                ContentType = new Range(offset + value.Start.Value, offset + value.End.Value);
            }
            else if (Ascii.EqualsIgnoreCase(name, "Content-Transfer-Encoding"u8) && !IsPlain(head[value]))
            {
                return Fail(MultipartRule.Encoded);
            }

            start = end + 2;
        }

        return hasDisposition || Fail(MultipartRule.BadDisposition);
    }

    private bool Fail(MultipartRule rule)
    {
        Break(rule);
        return false;
    }

    private static bool IsPlain(ReadOnlySpan<byte> encoding) =>
        Ascii.EqualsIgnoreCase(encoding, "binary"u8) || Ascii.EqualsIgnoreCase(encoding, "8bit"u8)
        || Ascii.EqualsIgnoreCase(encoding, "7bit"u8);

    private bool TryReadDisposition(ReadOnlySpan<byte> value, int offset)
    {
        int end = value.IndexOf((byte)';');
        if (end < 0 || !Ascii.EqualsIgnoreCase(HttpBytes.Trim(value[..end]), "form-data"u8)) return false;
        Parameters rest = new(value[end..]);
        offset += end;
        bool hasName = false;
        while (rest.TryNext(out ReadOnlySpan<byte> name, out Range text))
        {
            Range place = new(offset + text.Start.Value, offset + text.End.Value);
            if (Ascii.EqualsIgnoreCase(name, "name"u8))
            {
                if (hasName) return false;
                hasName = true;
                Name = place;
            }
            else if (Ascii.EqualsIgnoreCase(name, "filename"u8))
            {
                if (FileName is not null) return false;
                FileName = place;
            }
        }

        return rest.IsAtEnd && hasName;
    }

    // ------------------------------------------------------------------ data

    private MultipartReading ReadData(ReadOnlySpan<byte> rest, ref int taken)
    {
        int at = rest.IndexOf(_delimiter);
        if (at == 0)
        {
            taken += _delimiter.Length;
            _place = Place.BehindBoundary;
            return MultipartReading.PartEnd;
        }

        int length = at > 0 ? at : rest.Length - HeldBack(rest);
        if (length == 0) return MultipartReading.NeedMore;
        Start = taken;
        Length = length;
        taken += length;
        return MultipartReading.Data;
    }

    /// <summary>Returns the number of bytes at the end that may begin a boundary, which has one CR, at its
    /// start.</summary>
    private int HeldBack(ReadOnlySpan<byte> rest)
    {
        int tail = Math.Min(rest.Length, _delimiter.Length - 1);
        int cr = rest[^tail..].LastIndexOf((byte)'\r');
        if (cr < 0) return 0;
        ReadOnlySpan<byte> held = rest[^(tail - cr)..];
        return held.SequenceEqual(_delimiter.AsSpan(0, held.Length)) ? held.Length : 0;
    }

    // ------------------------------------------------------------------ parameters

    /// <summary>Parameters after a value: <c>; name=token; name="text"</c>. In quoted text a backslash escapes the next
    /// quote or backslash.</summary>
    private ref struct Parameters
    {
        private readonly ReadOnlySpan<byte> _text;
        private int _at;

        internal Parameters(ReadOnlySpan<byte> text) => _text = text;

        /// <summary>Whether all were read, and none is malformed.</summary>
        internal readonly bool IsAtEnd => _at == _text.Length;

        internal bool TryNext(out ReadOnlySpan<byte> name, out Range value)
        {
            name = default;
            value = default;
            int at = SkipSpaces(_at);
            if (at == _text.Length || _text[at] != ';') return false;
            at = SkipSpaces(at + 1);
            int nameStart = at;
            while (at < _text.Length && HttpBytes.Token.Contains(_text[at])) at++;
            name = _text[nameStart..at];
            if (name.IsEmpty || at + 1 >= _text.Length || _text[at] != '=') return false;
            at++;
            int start = at;
            if (_text[at] != '"')
            {
                while (at < _text.Length && HttpBytes.Token.Contains(_text[at])) at++;
                if (at == start) return false;
                value = new Range(start, at);
                _at = at;
                return true;
            }

            for (at = ++start; at < _text.Length && _text[at] != '"'; at++)
            {
                // Other backslashes stand for themselves, because old browsers send whole paths.
                if (_text[at] == '\\' && at + 1 < _text.Length && _text[at + 1] is (byte)'"' or (byte)'\\') at++;
            }

            if (at >= _text.Length) return false;
            value = new Range(start, at);
            _at = at + 1;
            return true;
        }

        private readonly int SkipSpaces(int at)
        {
            while (at < _text.Length && _text[at] is (byte)' ' or (byte)'\t') at++;
            return at;
        }
    }
}
