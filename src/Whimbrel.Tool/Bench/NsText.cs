using System.Globalization;

namespace Whimbrel.Tool.Bench;

/// <summary>Formats nanoseconds with three digits and a unit: <c>10.2 ns</c>, <c>45.3 us</c>, <c>1.23 ms</c>, <c>2 s
/// </c>.</summary>
internal static class NsText
{
    private static readonly (string Name, double Ns)[] s_units = [("ns", 1), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];

    internal static string Of(double ns)
    {
        foreach ((string name, double unit) in s_units)
        {
            double number = Rounded(ns / unit);
            if (number < 1000 || name == "s")
                return string.Create(CultureInfo.InvariantCulture, $"{number:0.##} {name}");
        }

        throw new System.Diagnostics.UnreachableException();
    }

    private static double Rounded(double number)
    {
        if (number <= 0) return 0;
        int digits = Math.Clamp(2 - (int)Math.Floor(Math.Log10(number)), 0, 2);
        return Math.Round(number, digits);
    }
}
