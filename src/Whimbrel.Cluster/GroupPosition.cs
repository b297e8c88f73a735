using System.Globalization;

namespace Whimbrel.Clusters;

/// <summary>A place in a recoverable group: all up to here was heard. A client keeps the one of the last message it got, and resumes with it.</summary>
/// <param name="Epoch">Of the stream; another one when it began anew.</param>
/// <param name="Offset">Of the message, from 1 on; 0 is before the first.</param>
public readonly record struct GroupPosition(ulong Epoch, ulong Offset)
{
    /// <summary>Reads what <see cref="ToString"/> wrote.</summary>
    /// <param name="text">Of a client: anything.</param>
    /// <param name="position">The place.</param>
    /// <returns>False when it is none.</returns>
    public static bool TryParse(ReadOnlySpan<char> text, out GroupPosition position)
    {
        position = default;
        int dash = text.IndexOf('-');
        if (dash < 0 || !ulong.TryParse(text[..dash], NumberStyles.AllowHexSpecifier, CultureInfo.InvariantCulture, out ulong epoch)) return false;
        if (!ulong.TryParse(text[(dash + 1)..], NumberStyles.None, CultureInfo.InvariantCulture, out ulong offset)) return false;
        position = new GroupPosition(epoch, offset);
        return true;
    }

    /// <summary>The epoch in hexadecimal digits, a dash, the offset: at most 37 ASCII characters.</summary>
    public override string ToString() => string.Create(CultureInfo.InvariantCulture, $"{Epoch:x}-{Offset}");
}
