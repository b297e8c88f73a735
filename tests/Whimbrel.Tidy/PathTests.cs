using System.Text.RegularExpressions;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp.Syntax;

namespace Whimbrel.Tidy;

// "Follow one byte" of ARCHITECTURE.md: each file and method that it names exists, and a byte passes no more of them
// than the limits, which may only fall.
public partial class PathTests
{
    [Theory]
    [InlineData("On the loop", 7, 45)]
    [InlineData("On the pool", 13, 70)]
    public void A_byte_passes_existing_methods_and_no_more_of_them(string heading, int mostFiles, int mostMethods)
    {
        (HashSet<string> files, int methods, List<string> missing) = Walk(Repository.Read("ARCHITECTURE.md"), heading,
            static path => Repository.Sources($"src/Whimbrel/{path}").SingleOrDefault());
        Assert.Empty(missing);
        Assert.InRange(files.Count, 3, mostFiles);
        Assert.InRange(methods, 10, mostMethods);
    }

    [Fact]
    public void A_missing_file_or_method_is_found()
    {
        const string page = "### Here\n1. `A.cs`: `One`, then `Two` and `A.cs`: `One`.\n2. `B.cs`: `Three`.\n"
            + "### There\n`C.cs`";
        (HashSet<string> files, int methods, List<string> missing) = Walk(page, "Here",
            static path => path == "A.cs" ? Judge.File("A.cs", "class A { void One() { } int Twos => 2; }") : null);
        Assert.Equal(["A.cs", "B.cs"], files);
        Assert.Equal(3, methods);
        Assert.Equal(["A.cs has no Two", "B.cs"], missing);
    }

    /// Names in backticks, in order: a name with ".cs" is a file, and the names after it are its methods.
    private static (HashSet<string> Files, int Methods, List<string> Missing) Walk(string page, string heading,
        Func<string, SourceFile?> find)
    {
        int start = page.IndexOf($"### {heading}\n", StringComparison.Ordinal);
        Assert.True(start >= 0, $"no heading {heading}");
        int end = page.IndexOf("\n#", start + 4, StringComparison.Ordinal);
        HashSet<string> files = [];
        HashSet<(string, string)> methods = [];
        List<string> missing = [];
        string file = "";
        HashSet<string> known = [];
        foreach (Match name in Name().Matches(end < 0 ? page[start..] : page[start..end]))
        {
            string text = name.Groups[1].Value;
            if (text.EndsWith(".cs", StringComparison.Ordinal))
            {
                file = text;
                known = find(file) is { } source ? [.. MembersOf(source)] : [];
                if (files.Add(file) && known.Count == 0) missing.Add(file);
            }
            else if (methods.Add((file, text)) && known.Count > 0 && !known.Contains(text))
            {
                missing.Add($"{file} has no {text}");
            }
        }

        return (files, methods.Count, missing);
    }

    [GeneratedRegex("`([A-Za-z/.]+)`")]
    private static partial Regex Name();

    private static IEnumerable<string> MembersOf(SourceFile source) =>
        source.All<MethodDeclarationSyntax>().Select(static m => m.Identifier.Text)
            .Concat(source.All<PropertyDeclarationSyntax>().Select(static p => p.Identifier.Text));
}
