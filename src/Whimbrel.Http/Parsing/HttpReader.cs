using System.Runtime.CompilerServices;

namespace Whimbrel.Http.Parsing;

/// <summary>
/// Reads the head of a request or a response, as offsets into the given bytes. It has no connection and no clock.
/// </summary>
/// <remarks>
/// <list type="number">
/// <item>Each call gets all bytes from the first byte of the head on. Earlier bytes are not scanned again, so the work
/// is linear in the bytes.</item>
/// <item>The result does not depend on how the bytes are split: a control character is found when it arrives, all else
/// when its line is complete. The first broken rule is reported, and no more can be read.</item>
/// <item>Requests are not repaired: malformed ones are rejected, also where other servers guess (docs/design/0022). A
/// lenient response may have four irregular but unambiguous forms: no space after the status, a status from 600 to 999,
/// a folded field, repeated equal lengths.</item>
/// <item>It allocates only when a head has more fields than any before.</item>
/// </list>
/// Next: <see cref="HttpBodyReader"/>.
/// </remarks>
internal sealed partial class HttpReader
{
    private const int FirstFields = 16;

    // Index of the first field of each kind, valid if its bit is set. So a word is cleared for each message, and not an
    // array.
    private ulong _has;
    private short[] _first = new short[KnownFields.Count];
    private HttpFieldPlace[] _fields = new HttpFieldPlace[FirstFields];
    private HttpReaderLimits _limits;
    private Expected _expected;
    private int _lineStart;
    private int _scanned;
    private bool _answersHead;
    private bool _isLenient;

    private enum Expected
    {
        StartLine,
        Fields,
        Nothing,
    }

    // ------------------------------------------------------------------ what it found

    /// <summary>Broken rule.</summary>
    internal HttpRule Rule { get; private set; }

    /// <summary>Bytes of the head, including the empty line.</summary>
    internal int HeadLength { get; private set; }

    /// <summary>Number of fields.</summary>
    internal int Count { get; private set; }

    /// <summary>Whether it is a response.</summary>
    internal bool IsResponse { get; private set; }

    /// <summary>Digit after <c>HTTP/1.</c>: 0 or 1; 1 for a higher one.</summary>
    internal int MinorVersion { get; private set; }

    internal HttpVerb Verb { get; private set; }

    internal Range Method { get; private set; }

    internal Range Target { get; private set; }

    /// <summary>Path of the target: empty for <c>*</c> and for CONNECT.</summary>
    internal Range Path { get; private set; }

    /// <summary>Query after the question mark.</summary>
    internal Range Query { get; private set; }

    /// <summary>Authority of the target, or, if it has none, of Host.</summary>
    internal Range Authority { get; private set; }

    internal bool HasEncodedPath { get; private set; }

    internal int Status { get; private set; }

    internal Range Reason { get; private set; }

    internal HttpFraming Framing { get; private set; }

    /// <summary>Content-Length, or -1.</summary>
    internal long ContentLength { get; private set; }

    /// <summary>Whether a value has CR LF in place of spaces: <see cref="Unfold"/>.</summary>
    internal bool HasFolds { get; private set; }

    /// <summary>Whether the request has Expect: 100-continue. False for HTTP/1.0.</summary>
    internal bool ExpectsContinue { get; private set; }

    /// <summary>Whether the connection may be reused, by version and Connection.</summary>
    internal bool IsPersistent => !_saysClose && (MinorVersion == 1 || _saysKeepAlive);

    /// <summary>Whether Connection names Upgrade, and there is such a field.</summary>
    internal bool WantsUpgrade => _saysUpgrade && Has(HttpField.Upgrade);

    internal ref readonly HttpFieldPlace this[int index] => ref _fields[index];

    /// <summary>Returns the index of the first field of this kind from an index on, or -1.</summary>
    internal int IndexOf(HttpField field, int from = 0)
    {
        if (!Has(field)) return -1;
        int index = _first[(int)field];
        if (index >= from) return index;
        for (index = from; index < Count; index++)
        {
            if (_fields[index].Field == field) return index;
        }

        return -1;
    }

    /// <summary>Returns the index of the only field of this kind; -1 if there is none, or more than one.</summary>
    internal int IndexOfOnly(HttpField field)
    {
        int index = IndexOf(field);
        return index >= 0 && IndexOf(field, index + 1) < 0 ? index : -1;
    }

    /// <summary>Returns a compact copy of the result, for long-term use. It cannot read further.</summary>
    internal HttpReader Copy()
    {
        HttpReader copy = (HttpReader)MemberwiseClone();
        copy._fields = _fields[..Count];
        copy._first = [.. _first];
        return copy;
    }

    // ------------------------------------------------------------------ reading

    /// <summary>Begins a request.</summary>
    internal void BeginRequest(in HttpReaderLimits limits) => Begin(limits, isResponse: false, answersHead: false);

    /// <summary>Begins a response.</summary>
    /// <param name="limits">Size limits.</param>
    /// <param name="answersHead">Whether the request was HEAD: there is no body, whatever the fields are.</param>
    internal void BeginResponse(in HttpReaderLimits limits, bool answersHead) =>
        Begin(limits, isResponse: true, answersHead);

    private void Begin(in HttpReaderLimits limits, bool isResponse, bool answersHead)
    {
        _limits = limits;
        _answersHead = answersHead;
        _isLenient = isResponse && limits.IsLenient;
        IsResponse = isResponse;
        _has = 0;
        _expected = Expected.StartLine;
        _lineStart = _scanned = 0;
        _saysClose = _saysKeepAlive = _saysUpgrade = _isUnknownExpectation = _isChunked = false;
        Rule = HttpRule.None;
        Count = HeadLength = MinorVersion = Status = 0;
        Verb = HttpVerb.Other;
        Method = Target = Path = Query = Authority = Reason = default;
        HasEncodedPath = ExpectsContinue = HasFolds = false;
        ContentLength = -1;
        Framing = HttpFraming.None;
    }

    /// <summary>Continues to read.</summary>
    /// <param name="unread">All bytes from the first byte of the head on.</param>
    internal HttpReading Read(ReadOnlySpan<byte> unread)
    {
        if (Rule != HttpRule.None) return HttpReading.Broken;
        while (_expected != Expected.Nothing)
        {
            int end = FindLineEnd(unread, out HttpRule rule);
            if (end < 0 && rule == HttpRule.None) return HttpReading.NeedMore;
            if (rule == HttpRule.None) rule = ReadLine(unread, unread[_lineStart..end], end + 2);
            if (rule != HttpRule.None) return Break(rule);
            _lineStart = _scanned = end + 2;
        }

        return HttpReading.Done;
    }

    private HttpReading Break(HttpRule rule)
    {
        Rule = rule;
        return HttpReading.Broken;
    }

    /// <summary>Returns the index of the CR that ends the current line; -1 if more bytes are needed, or a rule was
    /// broken.</summary>
    private int FindLineEnd(ReadOnlySpan<byte> unread, out HttpRule rule)
    {
        bool isStart = _expected == Expected.StartLine;
        int last = _limits.HeadBytes - 2;
        if (isStart) last = Math.Min(last, _lineStart + _limits.StartLineBytes);
        int end = HttpLines.FindEnd(unread, ref _scanned, last, out rule);
        if (rule == HttpRule.HeadTooLarge && isStart && !IsResponse) rule = HttpRule.LineTooLong;
        return end;
    }

    private HttpRule ReadLine(ReadOnlySpan<byte> unread, ReadOnlySpan<byte> line, int next)
    {
        if (_expected == Expected.Fields)
        {
            if (!line.IsEmpty) return ReadField(unread, line);
            _expected = Expected.Nothing;
            HeadLength = next;
            return IsResponse ? FrameResponse() : FrameRequest(unread);
        }

        if (line.IsEmpty) return IsResponse || _lineStart > 0 ? HttpRule.EmptyLines : HttpRule.None;
        _expected = Expected.Fields;
        return IsResponse ? ReadStatusLine(line) : ReadRequestLine(unread, line);
    }

    private HttpRule ReadField(ReadOnlySpan<byte> unread, ReadOnlySpan<byte> line)
    {
        if (line[0] is (byte)' ' or (byte)'\t') return Count == 0 ? HttpRule.LeadingSpace : Fold(line);
        HttpRule rule = HttpLines.Split(line, _lineStart, out HttpFieldPlace place);
        if (rule != HttpRule.None) return rule;
        if (Count == _limits.Fields) return HttpRule.TooManyFields;
        if (Count == _fields.Length) GrowFields();
        _fields[Count++] = place;
        if (place.Field == HttpField.Other) return HttpRule.None;
        if (!Has(place.Field))
        {
            _has |= 1UL << (int)place.Field;
            _first[(int)place.Field] = (short)(Count - 1);
        }
        else if (place.Field is HttpField.Host or HttpField.TransferEncoding or HttpField.ContentType)
            return HttpRule.DuplicateField;
        else if (place.Field is HttpField.ContentLength && !_isLenient) return HttpRule.DuplicateField;
        return Understand(place, unread[place.ValueStart..]);
    }

    private bool Has(HttpField field) => (_has >> (int)field & 1) != 0;

    [MethodImpl(MethodImplOptions.NoInlining)]
    private void GrowFields() => Array.Resize(ref _fields, Math.Min(_fields.Length * 2, _limits.Fields));
}
