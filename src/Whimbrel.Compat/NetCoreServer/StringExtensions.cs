namespace NetCoreServer;

/// <summary>Small things with text.</summary>
public static class StringExtensions
{
    /// <summary>The text without a character at its end, if it is there.</summary>
    /// <param name="self">The text.</param>
    /// <param name="toRemove">The character.</param>
    public static string RemoveSuffix(this string self, char toRemove)
    {
        ArgumentNullException.ThrowIfNull(self);
        return self.EndsWith(toRemove) ? self[..^1] : self;
    }

    /// <summary>The text without another at its end, if it is there.</summary>
    /// <param name="self">The text.</param>
    /// <param name="toRemove">The other.</param>
    public static string RemoveSuffix(this string self, string toRemove)
    {
        ArgumentNullException.ThrowIfNull(self);
        ArgumentNullException.ThrowIfNull(toRemove);
        return self.EndsWith(toRemove, StringComparison.Ordinal) ? self[..^toRemove.Length] : self;
    }

    /// <summary>The text without white space, wherever it stands.</summary>
    /// <param name="self">The text.</param>
    public static string RemoveWhiteSpace(this string self)
    {
        ArgumentNullException.ThrowIfNull(self);
        return string.Concat(self.Where(static c => !char.IsWhiteSpace(c)));
    }
}
