using System.Buffers;
using System.Buffers.Text;
using System.Globalization;
using System.Text;
using Whimbrel.Http;
using Buffer = NetCoreServer.Buffer;

namespace Whimbrel.Compat;

/// <summary>
/// Common part of requests and responses of NetCoreServer: a start line of three words, header fields and a body, as
/// the bytes of one message with the position of each part. It can be composed in any order. Input that could not be
/// parsed again is rejected.
/// </summary>
internal sealed class HttpMessage
{
    private const int MostKeptBytes = 256 * 1024;
    private const int LongestKeptWord = 128;

    private static readonly SearchValues<char> s_token =
        SearchValues.Create("!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz");

    private readonly List<Field> _fields = [];
    private Part _first;
    private Part _second;
    private Part _third;
    private int _lineEnd;
    private int _fieldsEnd;
    private int _bodyStart;
    private bool _hasLength;
    private bool _isOpen;
    private bool _hasOwnFraming;

    // Text of the start line, once requested, because the next message of a connection usually has the same words.
    private string? _firstText;
    private string? _secondText;
    private string? _thirdText;

    private record struct Part(int Start, int Length);

    private record struct Field(Part Name, Part Value);

    internal Buffer Bytes { get; private set; } = new();

    internal bool IsBroken { get; set; }

    internal int FieldCount => _fields.Count;

    /// <summary>Announced length. Missing bytes are sent separately, or still to be received.</summary>
    internal int BodyLength { get; private set; }

    internal string First => TextOf(_first, ref _firstText);

    internal string Second => TextOf(_second, ref _secondText);

    internal string Third => TextOf(_third, ref _thirdText);

    internal ReadOnlySpan<byte> FirstBytes => BytesOf(_first);

    /// <summary>True if the head is complete: a body follows, which may be empty.</summary>
    internal bool HasBody => _bodyStart > 0;

    /// <summary>Body bytes that are present.</summary>
    internal Span<byte> Body => _bodyStart == 0 ? default : Bytes.AsSpan()[_bodyStart..];

    /// <summary>Number of announced body bytes that are missing.</summary>
    internal int MissingBytes => _bodyStart == 0 ? 0 : BodyLength - Body.Length;

    internal (string Name, string Value) FieldAt(int index) =>
        (uint)index < (uint)_fields.Count ? (TextOf(_fields[index].Name), TextOf(_fields[index].Value)) : ("", "");

    /// <summary>Value of the first field with this name, or null.</summary>
    internal string? ValueOf(ReadOnlySpan<byte> name) => Find(name) is { } field ? TextOf(field.Value) : null;

    private Field? Find(ReadOnlySpan<byte> name)
    {
        foreach (Field field in _fields)
        {
            if (Ascii.EqualsIgnoreCase(BytesOf(field.Name), name)) return field;
        }

        return null;
    }

    /// <summary>True if a list field contains a word, ignoring case, in any of its lines.</summary>
    internal bool Lists(ReadOnlySpan<byte> name, ReadOnlySpan<byte> word)
    {
        foreach (Field field in _fields)
        {
            if (!Ascii.EqualsIgnoreCase(BytesOf(field.Name), name)) continue;
            ReadOnlySpan<byte> list = BytesOf(field.Value);
            foreach (Range element in list.Split((byte)','))
            {
                if (Ascii.EqualsIgnoreCase(list[element].Trim(" \t"u8), word)) return true;
            }
        }

        return false;
    }

    // ------------------------------------------------------------------ composing

    internal void Clear()
    {
        // The buffer of one large body is not kept.
        if (Bytes.Capacity > MostKeptBytes) Bytes = new Buffer();
        Bytes.Clear();
        _fields.Clear();
        _first = _second = _third = default;
        _lineEnd = _fieldsEnd = _bodyStart = BodyLength = 0;
        _hasLength = _isOpen = _hasOwnFraming = IsBroken = false;
    }

    /// <summary>Clears the message and releases its memory.</summary>
    internal void Release()
    {
        Clear();
        if (Bytes.Capacity > 0) Bytes = new Buffer();
        _fields.Capacity = 0;
        _firstText = _secondText = _thirdText = null;
    }

    internal void Begin(string first, string second, string third)
    {
        CheckWord(first, nameof(first));
        CheckText(third, nameof(third));
        second = UrlOf(second);
        Clear();
        _first = Append(first, " ");
        _second = Append(second, " ");
        _third = Append(third, "\r\n");
        _lineEnd = _fieldsEnd = (int)Bytes.Size;
    }

    /// <summary>Adds a field. Content-Length and Transfer-Encoding are kept only until there is a body, which sets its
    /// own length.</summary>
    internal void Add(string name, string value)
    {
        ArgumentNullException.ThrowIfNull(name);
        if (name.Length == 0 || name.AsSpan().ContainsAnyExcept(s_token))
            throw new ArgumentException(
                "The name of a field is a token: letters, digits and a few signs, at least one of them.", nameof(name));
        CheckText(value, nameof(value));
        if (IsFraming(name))
        {
            if (HasBody) return;
            _hasOwnFraming = true;
        }

        Insert(name, value, _hasLength ? _fields.Count - 1 : _fields.Count,
            _hasLength ? _fields[^1].Name.Start : _fieldsEnd);
    }

    private static bool IsFraming(string name) => name.Equals("Content-Length", StringComparison.OrdinalIgnoreCase)
        || name.Equals("Transfer-Encoding", StringComparison.OrdinalIgnoreCase);

    // A second length, or a coding beside a length, would be parsed differently by different parsers.
    private void RemoveOwnFraming()
    {
        _hasOwnFraming = false;
        for (int index = _fields.Count - 1; index >= 0; index--)
        {
            Field field = _fields[index];
            if (!IsFraming(TextOf(field.Name))) continue;
            int start = field.Name.Start;
            int length = field.Value.Start + field.Value.Length + 2 - start;
            Span<byte> all = Bytes.AsSpan();
            all[(start + length)..].CopyTo(all[start..]);
            Bytes.Resize(Bytes.Size - length);
            _fieldsEnd -= length;
            _fields.RemoveAt(index);
            Move(start + length, -length);
        }
    }

    /// <summary>Adds a field before all others, unless it exists.</summary>
    /// <param name="name">Short name used by the library.</param>
    /// <param name="value">Validated value.</param>
    internal void AddFirst(string name, string value)
    {
        Span<byte> bytes = stackalloc byte[name.Length];
        Encoding.ASCII.GetBytes(name, bytes);
        if (_lineEnd > 0 && Find(bytes) is null) Insert(name, value, 0, _lineEnd);
    }

    /// <summary>Appends to the value of the last field with this name. False if there is none.</summary>
    internal bool Extend(ReadOnlySpan<byte> name, string more)
    {
        CheckText(more, nameof(more));
        for (int index = _fields.Count - 1; index >= 0; index--)
        {
            Field field = _fields[index];
            if (!Ascii.EqualsIgnoreCase(BytesOf(field.Name), name)) continue;
            int length = Encoding.UTF8.GetByteCount(more);
            Encoding.UTF8.GetBytes(more, MakeRoom(field.Value.Start + field.Value.Length, length));
            _fields[index] = field with { Value = field.Value with { Length = field.Value.Length + length } };
            return true;
        }

        return false;
    }

    /// <summary>Ends the head and begins a body. A second call replaces the first body.</summary>
    /// <param name="length">Number of body bytes.</param>
    /// <param name="isFramed">False for a message that must have neither a body nor a length.</param>
    internal void BeginBody(int length, bool isFramed = true)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(length);
        if (_lineEnd == 0) throw new InvalidOperationException("A message begins with its start line.");
        if (!isFramed && length > 0)
            throw new ArgumentException("A response with this status has no body.", nameof(length));
        if (_hasOwnFraming) RemoveOwnFraming();
        if (_hasLength)
        {
            _fieldsEnd = _fields[^1].Name.Start;
            _fields.RemoveAt(_fields.Count - 1);
        }

        Bytes.Resize(_fieldsEnd);
        _hasLength = isFramed;
        if (isFramed)
        {
            Span<byte> digits = stackalloc byte[16];
            Utf8Formatter.TryFormat(length, digits, out int count);
            Part name = Append("Content-Length"u8, ": "u8);
            _fields.Add(new Field(name, Append(digits[..count], "\r\n"u8)));
            _fieldsEnd = (int)Bytes.Size;
        }

        Bytes.Append("\r\n"u8);
        _bodyStart = (int)Bytes.Size;
        BodyLength = length;
    }

    internal void SetBody(ReadOnlySpan<byte> body, bool isFramed = true)
    {
        if (!isFramed) body = default;
        BeginBody(body.Length, isFramed);
        Bytes.Append(body);
    }

    internal void SetBody(ReadOnlySpan<char> body, bool isFramed = true)
    {
        if (!isFramed) body = default;
        BeginBody(Encoding.UTF8.GetByteCount(body), isFramed);
        Bytes.Append(body);
    }

    // ------------------------------------------------------------------ read from the peer

    /// <summary>
    /// Stores the head of a parsed message. A body of unknown length gets a length when it is complete (<see
    /// cref="EndTaken"/>), in place of the removed coding, so that the message can be sent again as it is stored.
    /// </summary>
    internal void Take(HttpMessageReader reader, bool isRequest)
    {
        Clear();
        ReadOnlySpan<byte> version = reader.MinorVersion == 0 ? "HTTP/1.0"u8 : "HTTP/1.1"u8;
        if (isRequest)
        {
            _first = Append(reader.Method, " "u8);
            _second = Append(reader.Target, " "u8);
            _third = Append(version, "\r\n"u8);
        }
        else
        {
            Span<byte> digits = stackalloc byte[16];
            Utf8Formatter.TryFormat(reader.Status, digits, out int count);
            _first = Append(version, " "u8);
            _second = Append(digits[..count], " "u8);
            _third = Append(reader.Reason, "\r\n"u8);
        }

        _lineEnd = (int)Bytes.Size;
        _isOpen = reader.BodyLength < 0;
        for (int index = 0; index < reader.FieldCount; index++)
        {
            if (_isOpen && Ascii.EqualsIgnoreCase(reader.NameAt(index), "Transfer-Encoding"u8)) continue;
            Part name = Append(reader.NameAt(index), ": "u8);
            _fields.Add(new Field(name, Append(reader.ValueAt(index), "\r\n"u8)));
        }

        _fieldsEnd = (int)Bytes.Size;
        Bytes.Append("\r\n"u8);
        _bodyStart = (int)Bytes.Size;
        // Body limits are far below this.
        if (!_isOpen) BodyLength = (int)Math.Min(reader.BodyLength, int.MaxValue);
    }

    /// <summary>Appends a piece of its body.</summary>
    internal void Take(ReadOnlySpan<byte> piece)
    {
        Bytes.Append(piece);
        if (_isOpen) BodyLength += piece.Length;
    }

    /// <summary>Called when the body is complete.</summary>
    internal void EndTaken()
    {
        if (_isOpen)
            Insert("Content-Length", BodyLength.ToString(CultureInfo.InvariantCulture), _fields.Count, _fieldsEnd);
        _isOpen = false;
    }

    // ------------------------------------------------------------------ bytes

    private string TextOf(Part part) => part.Length == 0 ? "" : Encoding.UTF8.GetString(BytesOf(part));

    private string TextOf(Part part, ref string? kept)
    {
        // Read once, because programs may call this on several threads.
        string? before = kept;
        if (before is not null && Ascii.Equals(BytesOf(part), before)) return before;
        string text = TextOf(part);
        if (text.Length <= LongestKeptWord) kept = text;
        return text;
    }

    private ReadOnlySpan<byte> BytesOf(Part part) => Bytes.AsSpan().Slice(part.Start, part.Length);

    private Part Append(ReadOnlySpan<char> text, ReadOnlySpan<char> end)
    {
        Part part = new((int)Bytes.Size, (int)Bytes.Append(text));
        Bytes.Append(end);
        return part;
    }

    private Part Append(ReadOnlySpan<byte> text, ReadOnlySpan<byte> end)
    {
        Part part = new((int)Bytes.Size, (int)Bytes.Append(text));
        Bytes.Append(end);
        return part;
    }

    private void Insert(string name, string value, int index, int at)
    {
        if (_lineEnd == 0) throw new InvalidOperationException("A message begins with its start line.");
        if (at == Bytes.Size)
        {
            // The usual case: at the end.
            Part key = Append(name, ": ");
            _fields.Add(new Field(key, Append(value, "\r\n")));
            _fieldsEnd = (int)Bytes.Size;
            return;
        }

        int length = Encoding.UTF8.GetByteCount(value);
        Span<byte> line = MakeRoom(at, name.Length + length + 4);
        int written = Encoding.ASCII.GetBytes(name, line);
        ": "u8.CopyTo(line[written..]);
        Encoding.UTF8.GetBytes(value, line[(written + 2)..]);
        "\r\n"u8.CopyTo(line[^2..]);
        _fields.Insert(index, new Field(new Part(at, name.Length), new Part(at + name.Length + 2, length)));
        if (_fieldsEnd == at) _fieldsEnd += line.Length;
    }

    // The positions of everything after it move.
    private Span<byte> MakeRoom(int at, int length)
    {
        int size = (int)Bytes.Size;
        Bytes.Resize(size + length);
        Span<byte> all = Bytes.AsSpan();
        all[at..size].CopyTo(all[(at + length)..]);
        Move(at, length);
        if (_fieldsEnd > at) _fieldsEnd += length;
        if (_bodyStart > 0) _bodyStart += length;
        return all.Slice(at, length);
    }

    private void Move(int from, int by)
    {
        for (int index = 0; index < _fields.Count; index++)
        {
            Field field = _fields[index];
            if (field.Name.Start >= from)
                _fields[index] = new Field(field.Name with { Start = field.Name.Start + by },
                    field.Value with { Start = field.Value.Start + by });
        }
    }

    // The original builders accept any URL. Characters that would end the word, or be parsed differently by different
    // parsers, are percent-encoded as UTF-8.
    private static string UrlOf(string url)
    {
        ArgumentNullException.ThrowIfNull(url);
        if (url.Length == 0) return "/";
        if (!url.AsSpan().ContainsAnyExceptInRange('!', '~')) return url;
        StringBuilder text = new(url.Length + 16);
        foreach (byte each in Encoding.UTF8.GetBytes(url))
        {
            if (each is >= (byte)'!' and <= (byte)'~') text.Append((char)each);
            else text.Append(CultureInfo.InvariantCulture, $"%{each:X2}");
        }

        return text.ToString();
    }

    private static void CheckWord(string word, string name)
    {
        ArgumentException.ThrowIfNullOrEmpty(word, name);
        if (word.AsSpan().ContainsAnyExceptInRange('!', '~'))
            throw new ArgumentException("A method and a version are words of visible ASCII: a space would end the "
                + "word, and a reader would take what follows for the URL.", name);
    }

    private static void CheckText(string text, string name)
    {
        ArgumentNullException.ThrowIfNull(text, name);
        if (text.AsSpan().ContainsAny('\r', '\n', '\0'))
            throw new ArgumentException("The text contains CR, LF or NUL, which would end its line: a reader would "
                + "take what follows for a field of its own. Remove or encode these characters.", name);
    }
}
