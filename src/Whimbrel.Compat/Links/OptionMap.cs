namespace Whimbrel.Compat.Links;

/// <summary>Converts options of the original APIs to native values.</summary>
internal static class OptionMap
{
    /// <summary>-1 means the system's default, as zero does natively.</summary>
    internal static TimeSpan Seconds(int value) => value > 0 ? TimeSpan.FromSeconds(value) : TimeSpan.Zero;
}
