using System.Text.RegularExpressions;

namespace Whimbrel.Compat.Tests.Template;

/// <summary>
/// A program over TLS or a Unix socket out of the one over TCP, line by line. A line that begins with <c>// tls:</c> or <c>// uds:</c> is taken without that in those, one that ends in <c>// plain</c>
/// is left out of both, in <c>// ip</c> of that over a Unix socket, in <c>// tcp</c> of that over TLS.
/// </summary>
internal static partial class ProgramTwin
{
    internal static readonly string[] Families = ["Ssl", "Uds"];

    internal static string NameOf(string file, string family) => Names().Replace(file, family);

    internal static string Of(string text, string family)
    {
        bool isTls = family == "Ssl";
        string mark = isTls ? "tls" : "uds", other = isTls ? "uds" : "tls", leftOut = isTls ? " // tcp" : " // ip";
        IEnumerable<string> lines = text.Split('\n')
            .Where(l => !l.EndsWith(" // plain", StringComparison.Ordinal) && !l.EndsWith(leftOut, StringComparison.Ordinal) && !l.TrimStart().StartsWith($"// {other}:", StringComparison.Ordinal))
            .Select(l => Ends().Replace(Regex.Replace(l, $"^( *)// {mark}: ?", "$1"), "").TrimEnd());
        text = Names().Replace(string.Join('\n', lines), family).Replace("TCP", family.ToUpperInvariant(), StringComparison.Ordinal);
        return isTls ? text.Replace("1111", "2222", StringComparison.Ordinal) : text;
    }

    [GeneratedRegex(" // (ip|tcp)$")] private static partial Regex Ends();

    [GeneratedRegex(@"\bTcp(?=[A-Z])")] private static partial Regex Names();
}
