namespace Whimbrel;

/// <summary>How much the tests of a run try: <c>./test</c>, <c>./test --deep</c> or <c>./test --quick</c>.</summary>
internal static class Depth
{
    internal static bool IsDeep { get; } = Environment.GetEnvironmentVariable("WHIMBREL_DEEP") == "1";

    internal static bool IsQuick { get; } = Environment.GetEnvironmentVariable("WHIMBREL_QUICK") == "1";

    /// <summary>A number of random runs, of which <c>--quick</c> makes a tenth.</summary>
    internal static int Of(int usual, int deep) => IsDeep ? deep : IsQuick ? Math.Max(1, usual / 10) : usual;
}
