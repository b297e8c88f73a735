using System.Globalization;

namespace Whimbrel.Clusters;

/// <summary>
/// Position in a recoverable group. A client keeps the position of its last message and resumes with it.
/// </summary>
/// <param name="Epoch">Epoch of the stream. Changes when the stream starts again.</param>
/// <param name="Offset">Offset of the message, starting at 1; 0 is before the first.</param>
public readonly record struct GroupPosition(ulong Epoch, ulong Offset)
{
    /// <summary>Parses the output of <see cref="ToString"/>.</summary>
    /// <param name="text">Text to parse; may be untrusted.</param>
    /// <param name="position">The position.</param>
    /// <returns>False if the text is no position.</returns>
    public static bool TryParse(ReadOnlySpan<char> text, out GroupPosition position)
    {
        position = default;
        int dash = text.IndexOf('-');
        if (dash < 0 || !ulong.TryParse(text[..dash], NumberStyles.AllowHexSpecifier,
            CultureInfo.InvariantCulture, out ulong epoch))
            return false;
        if (!ulong.TryParse(text[(dash + 1)..], NumberStyles.None, CultureInfo.InvariantCulture, out ulong offset))
            return false;
        position = new GroupPosition(epoch, offset);
        return true;
    }

    /// <summary>Returns the epoch in hexadecimal digits, a dash, and the offset: at most 37 ASCII characters.</summary>
    public override string ToString() => string.Create(CultureInfo.InvariantCulture, $"{Epoch:x}-{Offset}");
}
