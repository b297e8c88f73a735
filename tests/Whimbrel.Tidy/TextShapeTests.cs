namespace Whimbrel.Tidy;

// Lines end at 120 columns and sentences at 35 words. Each ceiling is what is left; it is lowered with each folder that
// is cured.
public class TextShapeTests
{
    private const int WideCodeOfSrc = 0, WideCommentsOfSrc = 0, WideCodeOfTests = 3, WideCommentsOfTests = 0;
    private const int WideLinesOfPages = 0, LongSentences = 0, Riddles = 0;

    private static readonly Lazy<(string Name, int Found, int Ceiling)[]> s_found = new(static () =>
    {
        var src = TextShape.WideLines(Repository.Sources("src/"));
        // The TLS twins of the old programs are derived from their lines, one by one: those lines stay whole.
        var tests = TextShape.WideLines(Repository.Sources("tests/", "bench/", "examples/", "templates/")
            .Where(static f => !f.Path.StartsWith("examples/OldPrograms/", StringComparison.Ordinal)));
        return
        [
            ("src, comment lines over 120 columns", src.Comments, WideCommentsOfSrc),
            ("src, code lines over 120 columns", src.Code, WideCodeOfSrc),
            ("tests, comment lines over 120 columns", tests.Comments, WideCommentsOfTests),
            ("tests, code lines over 120 columns", tests.Code, WideCodeOfTests),
            ("pages, lines over 120 columns", Repository.PathsEnding(".md")
                .Where(static p => p != "docs/guarantees.md") // generated: the names of its tests are long
                .Sum(static p => TextShape.WideLines(Repository.Read(p))), WideLinesOfPages),
            ("src, sentences over 35 words in XML documentation",
                Repository.Sources("src/").Sum(TextShape.LongSentences), LongSentences),
            ("src, texts of parameters and results that begin with a pronoun",
                Repository.Sources("src/").Sum(static f => TextShape.Riddles(f).Count()), Riddles),
        ];
    });

    internal static IEnumerable<string> Lines => s_found.Value.Select(static f => $"tidy, {f.Name}: {f.Found} (aim 0)");

    [Fact]
    public void Lines_and_sentences_get_no_longer()
    {
        var above = s_found.Value.Where(static f => f.Found > f.Ceiling)
            .Select(static f => $"{f.Name}: {f.Found}, at most {f.Ceiling}").ToList();
        Assert.True(above.Count == 0, string.Join('\n', above));
    }

    [Fact]
    public void Long_lines_long_sentences_and_riddles_are_found()
    {
        string wide = $"// {new string('a', 80)} {new string('b', 80)}";
        Assert.Equal((1, 1),
            TextShape.WideLines([Judge.File("a.cs", $"{wide}\nclass A {{ string B = \"{wide}\"; }}")]));
        Assert.Equal((0, 1), TextShape.WideLines([Judge.File("a.cs",
            $"class A {{ string B = $\"\"\"\n{wide}\n{{1}} {wide}\n\"\"\";\nstring C = \"{wide}\"; }}")]));
        Assert.Equal(1, TextShape.WideLines($"{wide}\n```\n{wide}\n```\n| {wide} |\n"));
        string sentence(int words) => string.Join(' ', Enumerable.Repeat("word", words));
        Assert.Equal(1, TextShape.LongSentences(Judge.File("a.cs",
            $"/// <summary>{sentence(36)}. {sentence(35)}.</summary>\nclass A {{ }}")));
        Judge.Finds("begins with a noun",
            TextShape.Riddles(Judge.File("a.cs", "/// <param name=\"offset\">Where they begin.</param>\nclass A { }")));
    }
}
