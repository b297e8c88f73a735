namespace Whimbrel.Docs;

/// One C# fence of a page. Line is the line of its first line of code; Words is the text after "csharp" on the fence.
internal sealed record Snippet(string Path, int Line, string Words, string Code)
{
    public const string Language = "csharp";

    /// The word of a fence with tests that are run.
    public const string Test = "test";

    /// A file-based program with directives for the SDK (#:package ...): it is complete, so nothing is added to it.
    public bool IsProgram => Code.Split('\n').Any(l => l.StartsWith("#:", StringComparison.Ordinal));

    public static IEnumerable<Snippet> Of(string path, string page)
    {
        var lines = page.ReplaceLineEndings("\n").Split('\n');
        for (var at = 0; at < lines.Length; at++)
        {
            if (!lines[at].TrimStart().StartsWith("```", StringComparison.Ordinal)) continue;
            var indent = lines[at].Length - lines[at].TrimStart().Length;
            var info = lines[at].Trim()[3..].Trim();
            var first = at + 1;
            for (at = first; at < lines.Length && lines[at].Trim() != "```"; at++) { }
            var words = info.Split(' ', 2);
            if (words[0] is not (Language or "cs" or "c#" or "C#")) continue;
            var code = lines[first..Math.Min(at, lines.Length)].Select(
                l => l.Length >= indent && l[..indent].Trim().Length == 0 ? l[indent..] : l);
            yield return new Snippet(path, first + 1, words.Length > 1 ? words[1].Trim() : "", string.Join('\n', code));
        }
    }
}
