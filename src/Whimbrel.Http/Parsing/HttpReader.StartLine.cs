using System.Text;

namespace Whimbrel.Http.Parsing;

// Start line. Offsets are those of the line plus its start. Searches also get the bytes after the searched ones (see
// HttpBytes.LengthOf).
internal sealed partial class HttpReader
{
    private const int VersionLength = 8;

    private HttpRule ReadRequestLine(ReadOnlySpan<byte> unread, ReadOnlySpan<byte> line)
    {
        int space = line.IndexOf((byte)' ');
        if (space <= 0) return HttpRule.BadMethod;
        Verb = VerbOf(line[..space]);
        if (Verb == HttpVerb.Other && !HttpBytes.IsToken(line[..space])) return HttpRule.BadMethod;
        Method = At(0, space);

        // The target is between the first and the last space: a third space is an invalid byte in it.
        int targetStart = space + 1, versionStart = line.Length - VersionLength;
        if (versionStart <= targetStart || line[versionStart - 1] != ' ') return HttpRule.BadVersion;
        HttpRule rule = ReadVersion(line[versionStart..]);
        if (rule != HttpRule.None) return rule;
        int targetLength = versionStart - 1 - targetStart;
        if (targetLength == 0) return HttpRule.BadTarget;
        Target = At(targetStart, targetLength);
        return ReadTarget(unread[(_lineStart + targetStart)..], targetLength, targetStart);
    }

    private HttpRule ReadVersion(ReadOnlySpan<byte> version)
    {
        if (!version.StartsWith("HTTP/"u8) || version[6] != '.' || !char.IsAsciiDigit((char)version[5])
            || !char.IsAsciiDigit((char)version[7]))
            return HttpRule.BadVersion;
        if (version[5] != '1') return HttpRule.UnsupportedVersion;
        // A higher minor version is handled as 1.1 (RFC 9110, 2.5).
        MinorVersion = version[7] == '0' ? 0 : 1;
        return HttpRule.None;
    }

    private static HttpVerb VerbOf(ReadOnlySpan<byte> method)
    {
        HttpVerb verb = method.Length switch
        {
            3 => method[0] == 'G' ? HttpVerb.Get : HttpVerb.Put,
            4 => method[0] == 'H' ? HttpVerb.Head : HttpVerb.Post,
            5 => method[0] == 'P' ? HttpVerb.Patch : HttpVerb.Trace,
            6 => HttpVerb.Delete,
            7 => method[0] == 'O' ? HttpVerb.Options : HttpVerb.Connect,
            _ => HttpVerb.Other,
        };
        return method.SequenceEqual(NameOf(verb)) ? verb : HttpVerb.Other;
    }

    /// <summary>Returns the name of a method; empty for <see cref="HttpVerb.Other"/>.</summary>
    internal static ReadOnlySpan<byte> NameOf(HttpVerb verb) => verb switch
    {
        HttpVerb.Get => "GET"u8,
        HttpVerb.Head => "HEAD"u8,
        HttpVerb.Post => "POST"u8,
        HttpVerb.Put => "PUT"u8,
        HttpVerb.Delete => "DELETE"u8,
        HttpVerb.Connect => "CONNECT"u8,
        HttpVerb.Options => "OPTIONS"u8,
        HttpVerb.Trace => "TRACE"u8,
        HttpVerb.Patch => "PATCH"u8,
        _ => default,
    };

    // ------------------------------------------------------------------ target

    private HttpRule ReadTarget(ReadOnlySpan<byte> bytes, int length, int start)
    {
        ReadOnlySpan<byte> target = bytes[..length];
        if (target[0] == '/' && Verb != HttpVerb.Connect) return ReadPath(bytes, length, start);
        if (Verb == HttpVerb.Connect) return ReadAuthorityForm(target, start);
        if (target is [(byte)'*']) return Verb == HttpVerb.Options ? HttpRule.None : HttpRule.TargetForm;

        int scheme = SchemeLength(target);
        if (scheme == 0) return IsOfQueryBytes(target) ? HttpRule.TargetForm : HttpRule.BadTarget;
        int end = target[scheme..].IndexOfAny((byte)'/', (byte)'?');
        ReadOnlySpan<byte> authority = end < 0 ? target[scheme..] : target.Slice(scheme, end);
        if (!HttpBytes.IsAuthority(authority)) return IsOfQueryBytes(authority) ? HttpRule.BadHost : HttpRule.BadTarget;
        Authority = At(start + scheme, authority.Length);
        int rest = scheme + authority.Length;
        return ReadPath(bytes[rest..], length - rest, start + rest);
    }

    private HttpRule ReadAuthorityForm(ReadOnlySpan<byte> target, int start)
    {
        if (!HttpBytes.IsAuthority(target, needsPort: true))
            return IsOfQueryBytes(target) ? HttpRule.TargetForm : HttpRule.BadTarget;
        Authority = At(start, target.Length);
        return HttpRule.None;
    }

    private static bool IsOfQueryBytes(ReadOnlySpan<byte> target) => !target.ContainsAnyExcept(HttpBytes.Query);

    private static int SchemeLength(ReadOnlySpan<byte> target)
    {
        if (target.Length > 7 && Ascii.EqualsIgnoreCase(target[..7], "http://"u8)) return 7;
        return target.Length > 8 && Ascii.EqualsIgnoreCase(target[..8], "https://"u8) ? 8 : 0;
    }

    private HttpRule ReadPath(ReadOnlySpan<byte> bytes, int length, int start)
    {
        int at = 0;
        while (true)
        {
            at += HttpBytes.LengthOf(HttpBytes.PlainPath, bytes[at..], length - at);
            if (at == length)
            {
                Path = At(start, length);
                return HttpRule.None;
            }

            if (bytes[at] == '?') break;
            if (bytes[at] != '%') return HttpRule.BadTarget;
            if (length - at < 3 || HttpBytes.HexOf(bytes[at + 1]) < 0 || HttpBytes.HexOf(bytes[at + 2]) < 0)
                return HttpRule.BadPercent;
            if (bytes[at + 1] == '0' && bytes[at + 2] == '0') return HttpRule.BadPercent;
            HasEncodedPath = true;
            at += 3;
        }

        Path = At(start, at);
        Query = At(start + at + 1, length - at - 1);
        return IsOfQueryBytes(bytes[(at + 1)..length]) ? HttpRule.None : HttpRule.BadTarget;
    }

    // ------------------------------------------------------------------ status

    private HttpRule ReadStatusLine(ReadOnlySpan<byte> line)
    {
        const int CodeStart = VersionLength + 1, CodeEnd = CodeStart + 3, ReasonStart = CodeEnd + 1;
        if (line.Length < VersionLength) return HttpRule.BadVersion;
        HttpRule rule = ReadVersion(line[..VersionLength]);
        if (rule != HttpRule.None) return rule;
        // Many servers omit the space if there is no reason phrase.
        bool hasReason = line.Length >= ReasonStart && line[CodeEnd] == ' ';
        if (line.Length < CodeEnd || line[VersionLength] != ' '
            || !(hasReason || (_isLenient && line.Length == CodeEnd)))
            return HttpRule.BadStatusLine;
        if (!HttpBytes.TryParseLength(line[CodeStart..CodeEnd], out long status) || status < 100
            || status > (_isLenient ? 999 : 599))
            return HttpRule.BadStatusLine;
        Status = (int)status;
        Reason = hasReason ? At(ReasonStart, line.Length - ReasonStart) : default;
        return HttpRule.None;
    }

    private Range At(int start, int length) => new(_lineStart + start, _lineStart + start + length);
}
