using System.Runtime.CompilerServices;

namespace Whimbrel.Http.Parsing;

/// <summary>
/// Reads the head of a request or a response, as offsets into the bytes it is given. Knows no connection and no clock.
/// </summary>
/// <remarks>
/// <list type="number">
/// <item>What is given begins with the head's first byte, each time, and has all that has come since. What was seen before is not
/// looked at again, so the work is linear in the bytes however they come.</item>
/// <item>What comes out depends on the bytes and not on where they were cut: a control character is seen when it comes, all else when its
/// line is whole. The first rule that is broken is the one that is told, and nothing can be read after it.</item>
/// <item>Requests are not repaired. What is not allowed is refused, also where others guess (docs/design/0022). A response that is read leniently may have
/// four irregular forms, which have one meaning each: no space after the status, a status from 600 to 999, a folded field, equal lengths several times.</item>
/// <item>It allocates only when there are more fields than ever before.</item>
/// </list>
/// Open <see cref="HttpBodyReader"/> next.
/// </remarks>
internal sealed partial class HttpReader
{
    private const int FirstFields = 16;

    // For each kind of field the index of the first one, if its bit is set: a word is cleared for each message, and not an array.
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

    /// <summary>The rule that was broken.</summary>
    internal HttpRule Rule { get; private set; }

    /// <summary>Bytes of the head, with the empty line.</summary>
    internal int HeadLength { get; private set; }

    /// <summary>How many fields it has.</summary>
    internal int Count { get; private set; }

    /// <summary>True for a response.</summary>
    internal bool IsResponse { get; private set; }

    /// <summary>0 or 1: the digit after <c>HTTP/1.</c>; 1 for a higher one.</summary>
    internal int MinorVersion { get; private set; }

    internal HttpVerb Verb { get; private set; }

    internal Range Method { get; private set; }

    internal Range Target { get; private set; }

    /// <summary>The path of the target: empty for <c>*</c> and for CONNECT.</summary>
    internal Range Path { get; private set; }

    /// <summary>What stands behind the question mark.</summary>
    internal Range Query { get; private set; }

    /// <summary>The authority, of the target if it has one, else of Host.</summary>
    internal Range Authority { get; private set; }

    internal bool HasEncodedPath { get; private set; }

    internal int Status { get; private set; }

    internal Range Reason { get; private set; }

    internal HttpFraming Framing { get; private set; }

    /// <summary>Content-Length, or -1.</summary>
    internal long ContentLength { get; private set; }

    /// <summary>A value has CR LF in it, which stands for spaces: <see cref="Unfold"/>.</summary>
    internal bool HasFolds { get; private set; }

    /// <summary>Expect: 100-continue, which HTTP/1.0 does not have.</summary>
    internal bool ExpectsContinue { get; private set; }

    /// <summary>Whether the connection may be used again: by version and Connection.</summary>
    internal bool IsPersistent => !_saysClose && (MinorVersion == 1 || _saysKeepAlive);

    /// <summary>Connection names Upgrade, and there is such a field.</summary>
    internal bool WantsUpgrade => _saysUpgrade && Has(HttpField.Upgrade);

    internal ref readonly HttpFieldPlace this[int index] => ref _fields[index];

    /// <summary>The index of the first field of this kind at or behind another, or -1.</summary>
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

    /// <summary>The index of the only field of this kind, or -1: there is none, or more than one.</summary>
    internal int IndexOfOnly(HttpField field)
    {
        int index = IndexOf(field);
        return index >= 0 && IndexOf(field, index + 1) < 0 ? index : -1;
    }

    /// <summary>What it has found, in as little memory as that takes: for who keeps it. Not to be read on with.</summary>
    internal HttpReader Copy()
    {
        HttpReader copy = (HttpReader)MemberwiseClone();
        copy._fields = _fields[..Count];
        copy._first = [.. _first];
        return copy;
    }

    // ------------------------------------------------------------------ reading

    /// <summary>Begins with a request.</summary>
    internal void BeginRequest(in HttpReaderLimits limits) => Begin(limits, isResponse: false, answersHead: false);

    /// <summary>Begins with a response.</summary>
    /// <param name="limits">How large it may become.</param>
    /// <param name="answersHead">The request was HEAD: there is no body, whatever the fields say.</param>
    internal void BeginResponse(in HttpReaderLimits limits, bool answersHead) => Begin(limits, isResponse: true, answersHead);

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

    /// <summary>Reads on. See the head of this class for what to give.</summary>
    /// <param name="unread">From the head's first byte on.</param>
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

    /// <summary>Where the CR of the line is that began at the last end, or -1: more is needed, or a rule was broken.</summary>
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
        else if (place.Field is HttpField.Host or HttpField.TransferEncoding or HttpField.ContentType) return HttpRule.DuplicateField;
        else if (place.Field is HttpField.ContentLength && !_isLenient) return HttpRule.DuplicateField;
        return Understand(place, unread[place.ValueStart..]);
    }

    private bool Has(HttpField field) => (_has >> (int)field & 1) != 0;

    [MethodImpl(MethodImplOptions.NoInlining)]
    private void GrowFields() => Array.Resize(ref _fields, Math.Min(_fields.Length * 2, _limits.Fields));
}
