namespace NetCoreServer;

/// <summary>String helpers.</summary>
public static class StringExtensions
{
    /// <summary>Removes a character at the end, if present.</summary>
    /// <param name="self">String to change.</param>
    /// <param name="toRemove">Character to remove.</param>
    public static string RemoveSuffix(this string self, char toRemove)
    {
        ArgumentNullException.ThrowIfNull(self);
        return self.EndsWith(toRemove) ? self[..^1] : self;
    }

    /// <summary>Removes a string at the end, if present.</summary>
    /// <param name="self">String to change.</param>
    /// <param name="toRemove">String to remove.</param>
    public static string RemoveSuffix(this string self, string toRemove)
    {
        ArgumentNullException.ThrowIfNull(self);
        ArgumentNullException.ThrowIfNull(toRemove);
        return self.EndsWith(toRemove, StringComparison.Ordinal) ? self[..^toRemove.Length] : self;
    }

    /// <summary>Removes all white space.</summary>
    /// <param name="self">String to change.</param>
    public static string RemoveWhiteSpace(this string self)
    {
        ArgumentNullException.ThrowIfNull(self);
        return string.Concat(self.Where(static c => !char.IsWhiteSpace(c)));
    }
}
