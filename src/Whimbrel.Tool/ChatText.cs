using System.Globalization;
using System.Text;

namespace Whimbrel.Tool;

/// <summary>Filters text for the terminals of other users.</summary>
internal static class ChatText
{
    internal const int MaxNameLength = 20;

    /// <summary>Text of a line without what would steer a terminal: control characters and direction overrides. What is
    /// no UTF-8 becomes U+FFFD.</summary>
    internal static string Clean(ReadOnlySpan<byte> utf8)
    {
        StringBuilder text = new(utf8.Length);
        foreach (Rune rune in Encoding.UTF8.GetString(utf8).EnumerateRunes())
        {
            if (rune.Value == '\t') text.Append(' ');
            else if (!Steers(rune)) text.Append(rune.ToString());
        }

        return text.ToString().Trim();
    }

    /// <summary>Short and plain, so that two names that look alike are alike.</summary>
    internal static bool IsName(string name) =>
        name.Length is > 0 and <= MaxNameLength
        && name.All(static c => char.IsAsciiLetterOrDigit(c) || c is '-' or '_');

    private static bool Steers(Rune rune) =>
        Rune.GetUnicodeCategory(rune) is UnicodeCategory.Control or UnicodeCategory.LineSeparator
            or UnicodeCategory.ParagraphSeparator
        || rune.Value is (>= 0x202A and <= 0x202E) or (>= 0x2066 and <= 0x2069) or 0x200E or 0x200F or 0x061C;
}
