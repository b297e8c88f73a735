using System.Text;

namespace Whimbrel.Http.Parsing;

// Fields that determine destination, framing and connection.
internal sealed partial class HttpReader
{
    private bool _saysClose;
    private bool _saysKeepAlive;
    private bool _saysUpgrade;
    private bool _isUnknownExpectation;
    private bool _isChunked;

    private HttpRule Understand(in HttpFieldPlace place, ReadOnlySpan<byte> bytes)
    {
        ReadOnlySpan<byte> value = bytes[..place.ValueLength];
        switch (place.Field)
        {
            case HttpField.Host:
                if (!HttpBytes.IsAuthority(bytes, place.ValueLength))
                    return IsResponse ? HttpRule.None : HttpRule.BadHost;
                return HttpRule.None;
            case HttpField.ContentLength:
                return _isLenient ? ReadLengths(value) : ReadLength(value);
            case HttpField.TransferEncoding:
                _isChunked = true;
                return CheckCoding(value);
            case HttpField.Connection:
                ReadConnection(value);
                return HttpRule.None;
            case HttpField.Expect:
                if (!IsResponse) ReadExpect(value);
                return HttpRule.None;
            default:
                return HttpRule.None;
        }
    }

    private HttpRule ReadLength(ReadOnlySpan<byte> value)
    {
        if (!HttpBytes.TryParseLength(value, out long length)) return HttpRule.BadContentLength;
        if (ContentLength >= 0 && ContentLength != length) return HttpRule.DuplicateField;
        ContentLength = length;
        return HttpRule.None;
    }

    // A server and a proxy may both have written the same number (RFC 9110, 8.6).
    private HttpRule ReadLengths(ReadOnlySpan<byte> value)
    {
        while (value.IndexOf((byte)',') is >= 0 and int comma)
        {
            if (ReadLength(HttpBytes.Trim(value[..comma])) is not HttpRule.None and HttpRule rule) return rule;
            value = HttpBytes.Trim(value[(comma + 1)..]);
        }

        return ReadLength(value);
    }

    /// <summary>Continues a field of a response (RFC 9112, 5.2). Fields for framing must not be folded.</summary>
    private HttpRule Fold(ReadOnlySpan<byte> line)
    {
        HttpFieldPlace place = _fields[Count - 1];
        if (!_isLenient || place.Field is HttpField.ContentLength or HttpField.TransferEncoding)
            return HttpRule.FoldedField;
        ReadOnlySpan<byte> value = HttpBytes.Trim(line);
        if (value.IsEmpty) return HttpRule.None;
        int start = _lineStart + line.IndexOf(value[0]), end = start + value.Length;
        if (place.ValueLength == 0) place = place with { ValueStart = start };
        else HasFolds = true;
        _fields[Count - 1] = place with { ValueLength = end - place.ValueStart };
        // Options are tokens without spaces, so each lies in one line.
        if (place.Field == HttpField.Connection) ReadConnection(value);
        return HttpRule.None;
    }

    /// <summary>Replaces the line ends in values by spaces.</summary>
    /// <param name="head">Copy of the bytes that were read.</param>
    internal void Unfold(Span<byte> head)
    {
        for (int index = 0; index < Count; index++)
        {
            Span<byte> value = head.Slice(_fields[index].ValueStart, _fields[index].ValueLength);
            value.Replace((byte)'\r', (byte)' ');
            value.Replace((byte)'\n', (byte)' ');
        }
    }

    // Exactly chunked. A list of other codings that ends in it is unsupported; anything else leaves the end of the
    // message undefined.
    private static HttpRule CheckCoding(ReadOnlySpan<byte> value)
    {
        if (Ascii.EqualsIgnoreCase(value, "chunked"u8)) return HttpRule.None;
        int count = 0;
        bool isChunkedLast = false;
        if (value.IsEmpty || value[0] == ',' || value[^1] == ',') return HttpRule.BadTransferEncoding;
        while (HttpBytes.TryNextElement(ref value, out ReadOnlySpan<byte> coding))
        {
            if (!HttpBytes.IsToken(coding) || isChunkedLast) return HttpRule.BadTransferEncoding;
            isChunkedLast = Ascii.EqualsIgnoreCase(coding, "chunked"u8);
            count++;
        }

        return isChunkedLast && count > 1 ? HttpRule.UnsupportedTransferEncoding : HttpRule.BadTransferEncoding;
    }

    private void ReadConnection(ReadOnlySpan<byte> value)
    {
        while (HttpBytes.TryNextElement(ref value, out ReadOnlySpan<byte> option))
        {
            if (Ascii.EqualsIgnoreCase(option, "keep-alive"u8)) _saysKeepAlive = true;
            else if (Ascii.EqualsIgnoreCase(option, "close"u8)) _saysClose = true;
            else if (Ascii.EqualsIgnoreCase(option, "upgrade"u8)) _saysUpgrade = true;
        }
    }

    private void ReadExpect(ReadOnlySpan<byte> value)
    {
        if (!Ascii.EqualsIgnoreCase(value, "100-continue"u8)) _isUnknownExpectation = true;
        else ExpectsContinue = MinorVersion == 1;
    }

    // ------------------------------------------------------------------ the whole head

    private HttpRule FrameRequest(ReadOnlySpan<byte> unread)
    {
        if (_isChunked && MinorVersion == 0) return HttpRule.TransferEncodingIn10;
        if (_isChunked && ContentLength >= 0) return HttpRule.TwoFramings;
        if (MinorVersion == 0 && ContentLength < 0 && Verb is (HttpVerb.Post or HttpVerb.Put or HttpVerb.Patch))
            return HttpRule.MissingLength;
        int host = IndexOf(HttpField.Host);
        if (host < 0 && MinorVersion == 1 && _limits.RequireHost) return HttpRule.MissingHost;
        if (host >= 0)
        {
            ref readonly HttpFieldPlace place = ref _fields[host];
            Range value = new(place.ValueStart, place.ValueStart + place.ValueLength);
            if (Authority.Equals(default)) Authority = value;
            else if (!Ascii.EqualsIgnoreCase(unread[Authority], unread[value])) return HttpRule.HostDisagrees;
        }

        if (_isUnknownExpectation) return HttpRule.UnknownExpectation;
        Framing = _isChunked ? HttpFraming.Chunked : ContentLength > 0 ? HttpFraming.Length : HttpFraming.None;
        // Without a body there is nothing to wait for.
        if (Framing == HttpFraming.None) ExpectsContinue = false;
        return Framing == HttpFraming.Length && ContentLength > _limits.BodyBytes
            ? HttpRule.BodyTooLarge
            : HttpRule.None;
    }

    private HttpRule FrameResponse()
    {
        if (_isChunked && MinorVersion == 0) return HttpRule.TransferEncodingIn10;
        if (_isChunked && ContentLength >= 0) return HttpRule.TwoFramings;
        if (Status is < 200 or 204)
        {
            if (_isChunked || ContentLength > 0) return HttpRule.ForbiddenBody;
            return HttpRule.None;
        }

        if (Status == 304 || _answersHead) return HttpRule.None;
        Framing = _isChunked ? HttpFraming.Chunked : ContentLength switch
        {
            < 0 => HttpFraming.UntilClose,
            0 => HttpFraming.None,
            _ => HttpFraming.Length,
        };
        return Framing == HttpFraming.Length && ContentLength > _limits.BodyBytes
            ? HttpRule.BodyTooLarge
            : HttpRule.None;
    }
}
