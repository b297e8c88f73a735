using System.Text;

namespace Whimbrel.Http.Parsing;

/// <summary>Scanner of lines and fields, for heads, chunks and trailers.</summary>
internal static class HttpLines
{
    /// <summary>
    /// Returns the index of the CR that ends a line; -1 if more bytes are needed, or a rule was broken.
    /// </summary>
    /// <param name="unread">Bytes to scan.</param>
    /// <param name="scanned">Index to continue at; moved past the scanned bytes.</param>
    /// <param name="last">Largest allowed index of the CR.</param>
    /// <param name="rule">Broken rule.</param>
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

    /// <summary>Splits a line into name and value.</summary>
    /// <param name="line">Line, not empty, without a space at its begin.</param>
    /// <param name="start">Offset of the line.</param>
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
            if (line[colon] != ':')
                return line[colon] is (byte)' ' or (byte)'\t' ? HttpRule.SpaceInName : HttpRule.BadName;
        }

        int from = colon + 1, to = line.Length;
        while (from < to && line[from] is (byte)' ' or (byte)'\t') from++;
        while (to > from && line[to - 1] is (byte)' ' or (byte)'\t') to--;
        place = new HttpFieldPlace(start, start + from, to - from, (ushort)colon, field);
        return HttpRule.None;
    }

    /// <summary>Replaces the line end before a folded line by spaces.</summary>
    /// <param name="lines">Checked lines, with their line ends.</param>
    internal static void Unfold(Span<byte> lines)
    {
        while (lines.IndexOf("\r\n"u8) is >= 0 and int end)
        {
            Span<byte> next = lines[(end + 2)..];
            if (!next.IsEmpty && next[0] is (byte)' ' or (byte)'\t') lines.Slice(end, 2).Fill((byte)' ');
            lines = next;
        }
    }

    /// <summary>Gets the next of some checked lines.</summary>
    internal static bool TryNext(scoped ref ReadOnlySpan<byte> rest, out ReadOnlySpan<byte> name,
        out ReadOnlySpan<byte> value)
    {
        name = value = default;
        if (rest.IsEmpty) return false;
        int end = rest.IndexOf("\r\n"u8), colon = rest.IndexOf((byte)':');
        name = rest[..colon];
        value = HttpBytes.Trim(rest[(colon + 1)..end]);
        rest = rest[(end + 2)..];
        return true;
    }

    /// <summary>Gets the value of the first line with this name.</summary>
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
