using System.Text.RegularExpressions;
using System.Xml.Linq;

namespace Whimbrel.Gallery;

// The page of the gallery shows each program as it is in the repository, with the package that a user names in place of
// the project. WHIMBREL_ACCEPT_GALLERY=1 writes the programs into the page.
public sealed partial class PageTests
{
    private const int MostLines = 79;
    private const int MostColumns = 120;
    private static readonly string s_page = Repository.PathOf("docs/guide/gallery.md");

    public static TheoryData<string> Programs => [.. Directory.EnumerateFiles(Repository.Programs, "*.cs")
        .Select(static file => Path.GetFileNameWithoutExtension(file)).Order(StringComparer.Ordinal)];

    [Fact]
    public void There_are_twenty_programs() => Assert.Equal(20, Programs.Count);

    [Theory, MemberData(nameof(Programs))]
    public void A_program_is_short_and_begins_with_what_it_is_and_how_to_try_it(string name)
    {
        string[] lines = File.ReadAllLines(Path.Combine(Repository.Programs, name + ".cs"));
        Assert.InRange(lines.Length, 1, MostLines);
        Assert.All(lines, static line => Assert.InRange(line.Length, 0, MostColumns));
        string[] head = [.. lines.SkipWhile(static line => line.StartsWith("#:", StringComparison.Ordinal))
            .TakeWhile(static line => line.StartsWith("// ", StringComparison.Ordinal))];
        Assert.Contains(head, static line => line.StartsWith("// Try it: ", StringComparison.Ordinal));
    }

    [Theory, MemberData(nameof(Programs))]
    public void The_page_shows_the_program(string name)
    {
        string shown = ShownForm(File.ReadAllText(Path.Combine(Repository.Programs, name + ".cs")));
        string page = File.ReadAllText(s_page);
        Match section = Regex.Match(page, $"^## {Regex.Escape(name)}\n\n```csharp\n(?<code>.*?)```$",
            RegexOptions.Multiline | RegexOptions.Singleline);
        Assert.True(section.Success, $"docs/guide/gallery.md has no section '## {name}' with a fence of C#.");
        Assert.Contains($"](#{name})", page, StringComparison.Ordinal);
        Group code = section.Groups["code"];
        if (Environment.GetEnvironmentVariable("WHIMBREL_ACCEPT_GALLERY") == "1" && code.Value != shown)
        {
            page = page.Remove(code.Index, code.Length).Insert(code.Index, shown);
            File.WriteAllText(s_page, page);
            return;
        }

        Assert.True(code.Value == shown,
            $"docs/guide/gallery.md differs from examples/Gallery/{name}.cs. WHIMBREL_ACCEPT_GALLERY=1 ./test "
            + "--project Whimbrel.Gallery writes the programs into the page.");
    }

    /// <summary>A program as a user writes it: with packages in place of projects, and with versions.</summary>
    private static string ShownForm(string program)
    {
        program = Project().Replace(program, "#:package ${name}@*");
        return Package().Replace(program, match => $"{match.Value}@{VersionOf(match.Groups["name"].Value)}");
    }

    private static string VersionOf(string package) =>
        XDocument.Load(Repository.PathOf("Directory.Packages.props")).Descendants("PackageVersion")
            .Single(each => each.Attribute("Include")?.Value == package).Attribute("Version")!.Value;

    [GeneratedRegex(@"^#:project \.\./\.\./src/(?<name>[\w.]+)/\k<name>\.csproj$", RegexOptions.Multiline)]
    private static partial Regex Project();

    [GeneratedRegex(@"^#:package (?<name>[\w.]+)$", RegexOptions.Multiline)]
    private static partial Regex Package();
}
