using System.Buffers;
using System.Globalization;
using System.Text;

namespace Whimbrel.Diagnostics;

/// <summary>
/// Escapes control characters of external values, so that a value of a peer cannot start a new log line, move a
/// terminal's cursor or change the text direction. Pure. A text without such characters is returned unchanged. Other
/// packages compile this file, too.
/// </summary>
internal static class Escaped
{
    // C0, DEL and C1; line and paragraph separator; embeddings, overrides and isolates of the bidirectional algorithm.
    private static readonly SearchValues<char> s_unsafe = SearchValues.Create(
        [.. Enumerable.Range(0, 0x20).Concat(Enumerable.Range(0x7F, 0x21)).Concat([0x2028, 0x2029])
            .Concat(Enumerable.Range(0x202A, 5)).Concat(Enumerable.Range(0x2066, 4)).Select(static c => (char)c)]);

    /// <summary>
    /// Returns the text with <c>\r</c>, <c>\n</c>, <c>\t</c> and <c>\uXXXX</c> in place of control characters.
    /// </summary>
    internal static string Of(string? text)
    {
        if (text is null) return "";
        int first = text.AsSpan().IndexOfAny(s_unsafe);
        if (first < 0) return text;
        StringBuilder escaped = new(text, 0, first, text.Length + 16);
        foreach (char c in text.AsSpan(first))
        {
            if (!s_unsafe.Contains(c)) escaped.Append(c);
            else if (c == '\n') escaped.Append("\\n");
            else if (c == '\r') escaped.Append("\\r");
            else if (c == '\t') escaped.Append("\\t");
            else escaped.Append("\\u").Append(((int)c).ToString("x4", CultureInfo.InvariantCulture));
        }

        return escaped.ToString();
    }
}
