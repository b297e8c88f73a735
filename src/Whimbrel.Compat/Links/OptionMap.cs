namespace Whimbrel.Compat.Links;

/// <summary>Values of old options as the native ones have them.</summary>
internal static class OptionMap
{
    /// <summary>-1 leaves it to the system, as zero does natively.</summary>
    internal static TimeSpan Seconds(int value) => value > 0 ? TimeSpan.FromSeconds(value) : TimeSpan.Zero;
}
