using System.Text;

namespace Whimbrel.Http.Parsing;

/// <summary>Lines and fields: the one scanner for heads, chunks and trailers.</summary>
internal static class HttpLines
{
    /// <summary>
    /// Where the CR of the CR LF is that ends a line, or -1: more bytes are needed, or a rule was broken.
    /// </summary>
    /// <param name="unread">The bytes.</param>
    /// <param name="scanned">Where to go on; moved behind what need not be looked at again.</param>
    /// <param name="last">The last place where the CR may be.</param>
    /// <param name="rule">What was broken.</param>
    internal static int FindEnd(ReadOnlySpan<byte> unread, ref int scanned, int last, out HttpRule rule)
    {
        rule = HttpRule.None;
        int end = Math.Min(unread.Length, last + 1);
        int at = scanned < end ? unread[scanned..end].IndexOfAny(HttpBytes.NotInLine) : -1;
        if (at < 0)
        {
            scanned = Math.Max(scanned, end);
            if (end > last) rule = HttpRule.HeadTooLarge;
            return -1;
        }

        at += scanned;
        scanned = at;
        if (unread[at] != '\r')
        {
            rule = unread[at] == '\n' ? HttpRule.BareLf : HttpRule.ControlCharacter;
            return -1;
        }

        if (at + 1 == unread.Length) return -1;
        if (unread[at + 1] == '\n') return at;
        rule = HttpRule.BareCr;
        return -1;
    }

    /// <summary>Name and value of a field.</summary>
    /// <param name="line">Not empty, and without a space at its beginning.</param>
    /// <param name="start">Where the line begins.</param>
    /// <param name="place">The field.</param>
    internal static HttpRule Split(ReadOnlySpan<byte> line, int start, out HttpFieldPlace place)
    {
        place = default;
        int colon = line.IndexOf((byte)':');
        if (colon == 0) return HttpRule.EmptyName;
        HttpField field = colon > 0 ? KnownFields.Find(line[..colon]) : HttpField.Other;
        // A known name is a token.
        if (field == HttpField.Other)
        {
            colon = line.IndexOfAnyExcept(HttpBytes.Token);
            if (colon < 0) return HttpRule.NoColon;
            if (line[colon] != ':') return line[colon] is (byte)' ' or (byte)'\t' ? HttpRule.SpaceInName : HttpRule.BadName;
        }

        int from = colon + 1, to = line.Length;
        while (from < to && line[from] is (byte)' ' or (byte)'\t') from++;
        while (to > from && line[to - 1] is (byte)' ' or (byte)'\t') to--;
        place = new HttpFieldPlace(start, start + from, to - from, (ushort)colon, field);
        return HttpRule.None;
    }

    /// <summary>Replaces a line end by spaces where the line after it continues a field.</summary>
    /// <param name="lines">Lines that were checked, with their line ends.</param>
    internal static void Unfold(Span<byte> lines)
    {
        while (lines.IndexOf("\r\n"u8) is >= 0 and int end)
        {
            Span<byte> next = lines[(end + 2)..];
            if (!next.IsEmpty && next[0] is (byte)' ' or (byte)'\t') lines.Slice(end, 2).Fill((byte)' ');
            lines = next;
        }
    }

    /// <summary>The next of some lines that were checked when they were read.</summary>
    internal static bool TryNext(scoped ref ReadOnlySpan<byte> rest, out ReadOnlySpan<byte> name, out ReadOnlySpan<byte> value)
    {
        name = value = default;
        if (rest.IsEmpty) return false;
        int end = rest.IndexOf("\r\n"u8), colon = rest.IndexOf((byte)':');
        name = rest[..colon];
        value = HttpBytes.Trim(rest[(colon + 1)..end]);
        rest = rest[(end + 2)..];
        return true;
    }

    /// <summary>The value of the first of them with this name.</summary>
    internal static bool TryFind(ReadOnlySpan<byte> lines, ReadOnlySpan<byte> name, out ReadOnlySpan<byte> value)
    {
        while (TryNext(ref lines, out ReadOnlySpan<byte> found, out value))
        {
            if (Ascii.EqualsIgnoreCase(found, name)) return true;
        }

        value = default;
        return false;
    }
}
