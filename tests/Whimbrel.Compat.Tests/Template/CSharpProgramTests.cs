using System.Text.RegularExpressions;

namespace Whimbrel.Compat.Tests.Template;

// CSharpServer's programs over TLS are made of those without it. WHIMBREL_ACCEPT_TEMPLATE=1 writes them.
public sealed partial class CSharpProgramTests
{
    // A copy may live only under a test that keeps both equal.
    [Fact]
    public void The_programs_over_TLS_are_those_without_it()
    {
        string[] plain = [.. Directory.GetFiles(Path.Combine(Made.Root, "examples/OldPrograms/CSharp"), "Tcp*.cs", SearchOption.AllDirectories)];
        Assert.Equal(6, plain.Length);
        Made.Check(plain.Select(static f => (Path.Combine(Path.GetDirectoryName(f)!, Names().Replace(Path.GetFileName(f), "Ssl")), Of(File.ReadAllText(f)))));
    }

    /// <summary>A line that ends in <c>// plain</c> is left out, one that begins with <c>// tls:</c> is taken without that.</summary>
    private static string Of(string text)
    {
        IEnumerable<string> lines = text.Split('\n').Where(static l => !l.EndsWith(" // plain", StringComparison.Ordinal)).Select(static l => Tls().Replace(l, "$1").TrimEnd());
        return Names().Replace(string.Join('\n', lines), "Ssl").Replace("TCP", "SSL", StringComparison.Ordinal).Replace("1111", "2222", StringComparison.Ordinal);
    }

    [GeneratedRegex("^( *)// tls: ?")] private static partial Regex Tls();

    [GeneratedRegex(@"\bTcp(?=[A-Z])")] private static partial Regex Names();
}
