namespace Whimbrel.Tidy;

// The text of the repository gets plainer, and never less plain: each ceiling is lowered when a folder has been rewritten.
public class WordTests
{
    private static IEnumerable<(string Name, string Text, double[] Ceilings)> Texts()
    {
        yield return ("src", Words.CommentsOf(Repository.Sources("src/")), [39, 22.5, 28.5, 18.6, 9.3]);
        yield return ("tests", Words.CommentsOf(Repository.Sources("tests/")), [41, 43, 53, 26.5, 13.7]);
        yield return ("docs", Pages(static p => p.StartsWith("docs/", StringComparison.Ordinal) || p == "README.md" || p.EndsWith("PACKAGE.md", StringComparison.Ordinal)), [26.2, 20.2, 22, 13.8, 9.4]);
    }

    private static string Pages(Func<string, bool> picks) => string.Join('\n', Repository.PathsEnding(".md").Where(picks).Select(Repository.Read));

    internal static IEnumerable<string> Lines => Texts().Select(static t => $"tidy, {t.Name}: {Words.Judge(t.Text, t.Ceilings).Line}");

    [Fact]
    public void The_text_gets_no_less_plain()
    {
        var above = Texts().SelectMany(static t => Words.Judge(t.Text, t.Ceilings).Above.Select(o => $"{t.Name}: {o}")).ToList();
        Assert.True(above.Count == 0, $"{string.Join('\n', above)}\nSay which thing does what (STYLE.md), in new text first.");
    }

    [Fact]
    public void A_text_of_people_is_found()
    {
        const string Text = "Who waits is told; nobody goes on behind it.";
        Assert.Equal(5, Words.Judge(Text, 0, 0, 0, 0, 0).Above.Count);
        Assert.Empty(Words.Judge("The caller waits until the loop has sent the message.", 0, 0, 0, 0, 0).Above);
        Assert.Equal("// a comment\n/// <summary>More.</summary>\n", Words.CommentsOf([Judge.File("a.cs", "// a comment\nclass A\n{\n    /// <summary>More.</summary>\n    string B => \"who\";\n}")]).Replace("    ", "", StringComparison.Ordinal));
    }
}
