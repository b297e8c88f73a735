using System.Text.RegularExpressions;

namespace Whimbrel.Compat.Tests.Template;

/// <summary> Derives a program over TLS or a Unix socket from the one over TCP, line by line. A line that begins with
/// <c>// tls:</c> or <c>// uds:</c> is included without that prefix in the respective program. A line that ends in
/// <c>// plain</c> is omitted in both, <c>// ip</c> in the one over a Unix socket, <c>// tcp</c> in the one over TLS.
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
            .Where(l => !l.EndsWith(" // plain", StringComparison.Ordinal) && !l.EndsWith(leftOut,
                StringComparison.Ordinal) && !l.TrimStart().StartsWith($"// {other}:", StringComparison.Ordinal))
            .Select(l => Ends().Replace(Regex.Replace(l, $"^( *)// {mark}: ?", "$1"), "").TrimEnd());
        text = Names().Replace(string.Join('\n', lines), family)
            .Replace("TCP", family.ToUpperInvariant(), StringComparison.Ordinal);
        return isTls ? text.Replace("1111", "2222", StringComparison.Ordinal) : text;
    }

    [GeneratedRegex(" // (ip|tcp)$")] private static partial Regex Ends();

    [GeneratedRegex(@"\bTcp(?=[A-Z])")] private static partial Regex Names();
}
