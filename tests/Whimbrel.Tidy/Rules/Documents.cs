using System.Text;
using System.Text.RegularExpressions;

namespace Whimbrel.Tidy.Rules;

// Checks of the Markdown files: links resolve, coverage names existing tests, and nothing refers to a particular
// workplace.
internal static partial class Documents
{
    public const int FeatureRows = 155;

    /// The rows of docs/defects.md: a letter per library or protocol, and the number of its rows.
    public static readonly IReadOnlyList<string> DefectRows =
        [.. from part in ((char Letter, int Count)[])[('N', 19), ('T', 7), ('U', 7), ('H', 10), ('W', 11), ('C', 10),
            ('S', 6)] from number in Enumerable.Range(1, part.Count) select $"{part.Letter}{number}"];

    /// Relative links lead to a file of the repository, and anchors to one of its headings.
    public static IEnumerable<Finding> Links(string path, string text, Func<string, string?> read,
        Func<string, bool> isFolder)
    {
        foreach (var (line, target) in LinksOf(text))
        {
            if (target.Contains("://", StringComparison.Ordinal)
                || target.StartsWith("mailto:", StringComparison.Ordinal))
                continue;
            var parts = target.Split('#', 2);
            var file = parts[0].Length == 0 ? path : Resolve(path, Uri.UnescapeDataString(parts[0]));
            var content = parts[0].Length == 0 ? text : read(file);
            if (content is null)
            {
                if (!isFolder(file.TrimEnd('/')))
                    yield return new Finding(path, line, $"links to {target}: there is no {file}");
            }
            else if (parts.Length == 2 && file.EndsWith(".md", StringComparison.Ordinal)
                && !Anchors(content).Contains(parts[1]))
            {
                yield return new Finding(path, line, $"links to {target}: no heading gives the anchor #{parts[1]}");
            }
        }
    }

    /// A table begins with a header and a line of dashes: rows after an empty line are rendered as text with bars.
    public static IEnumerable<Finding> Tables(string path, string text)
    {
        string before = "";
        var lines = WithoutFences(text).ToList();
        foreach (var (index, (number, line)) in lines.Index())
        {
            bool isFirst = line.StartsWith('|') && !before.StartsWith('|');
            if (isFirst && (index + 1 == lines.Count || !TableDashes().IsMatch(lines[index + 1].Text)))
                yield return new Finding(path, number,
                    "a row of a table without a head: there is an empty line before it, or no line of dashes after it");
            before = line;
        }
    }

    /// The rows of tests/quarantine.txt: full name of a test method, and the suspected cause.
    public static IEnumerable<Finding> Quarantine(string path, string text, IReadOnlySet<string> methods)
    {
        const int Most = 10;
        int rows = 0;
        foreach (var (index, line) in text.Split('\n').Index())
        {
            if (line.Length == 0 || line.StartsWith('#')) continue;
            if (++rows > Most)
                yield return new Finding(path, index + 1, $"more than {Most} tests in quarantine: repair one first");
            var parts = line.Split(": ", 2);
            if (parts.Length < 2 || parts[1].Trim().Length == 0)
                yield return new Finding(path, index + 1,
                    "not of the form \"full name of the method: suspected cause\"");
            else if (!methods.Contains(parts[0].Split('.')[^1]))
                yield return new Finding(path, index + 1, $"names {parts[0]}, and there is no such test");
        }
    }

    /// The rows of tests/limits.txt: each row of docs/limits.md, with the tests that show it at its number and past it,
    /// or "none: " and the reason.
    public static IEnumerable<Finding> Limits(string path, string text, string page, IReadOnlySet<string> tests,
        int most)
    {
        string section = "";
        HashSet<string> limits = new(StringComparer.Ordinal);
        foreach (string line in page.Split('\n'))
        {
            if (line.StartsWith("## ", StringComparison.Ordinal)) section = line[3..].Trim();
            if (line.StartsWith("| ", StringComparison.Ordinal) && line.Split('|')[1].Trim() is var limit
                && limit is not ("limit" or "what"))
                limits.Add($"{section}: {limit}");
        }

        int unshown = 0;
        foreach (var (index, line) in text.Split('\n').Index())
        {
            if (line.Length == 0 || line.StartsWith('#')) continue;
            string[] parts = line.Split(" = ", 2);
            if (!limits.Remove(parts[0]))
                yield return new Finding(path, index + 1,
                    $"docs/limits.md has no row \"{parts[0]}\", or it is here twice");
            const string None = "none: ";
            bool isShown = parts.Length == 2 && !parts[1].StartsWith(None, StringComparison.Ordinal);
            if (!isShown && ++unshown > most)
                yield return new Finding(path, index + 1, $"more than {most} limits without a test: write one");
            if (!isShown && (parts.Length < 2 || parts[1].Length < None.Length + 20))
                yield return new Finding(path, index + 1, "has neither a test nor a reason");
            foreach (string test in isShown ? parts[1].Split(' ') : [])
            {
                if (!tests.Contains(test))
                    yield return new Finding(path, index + 1, $"names {test}, and there is no such test");
            }
        }

        foreach (string limit in limits)
            yield return new Finding(path, 0, $"no row for the limit \"{limit}\" of docs/limits.md");
    }

    /// The rows of docs/coverage.md: number, state, and the tests that prove it.
    public static IEnumerable<Finding> Coverage(string path, string text, IReadOnlySet<string> tests,
        Func<string, bool> fileExists)
    {
        var seen = new List<int>();
        foreach (var (index, line) in text.Split('\n').Index())
        {
            if (CoverageRow().Match(line) is not { Success: true } row)
            {
                if (LooksLikeRow().IsMatch(line))
                    yield return new Finding(path, index + 1,
                        "not of the form | number | what | done, partly or planned | proof |");
                continue;
            }
            seen.Add(int.Parse(row.Groups["number"].Value, System.Globalization.CultureInfo.InvariantCulture));
            var proofs = Quoted().Matches(row.Groups["proof"].Value).Select(m => m.Groups[1].Value).ToList();
            var state = row.Groups["state"].Value;
            if (state is "done" or "partly" && proofs.Count == 0)
                yield return new Finding(path, index + 1, $"row {seen[^1]} is {state} without a proof");
            foreach (var proof in proofs)
            {
                if (TestName().IsMatch(proof)
                    ? !tests.Contains(proof)
                    : proof.StartsWith("./", StringComparison.Ordinal) && !fileExists(proof[2..].Split(' ')[0]))
                    yield return new Finding(path, index + 1, $"row {seen[^1]} names {proof}, which does not exist");
            }
        }
        foreach (var number in Enumerable.Range(1, FeatureRows).Except(seen))
            yield return new Finding(path, 0, $"row {number} is missing");
        foreach (var number in seen.Where((n, i) => n is < 1 or > FeatureRows || seen.IndexOf(n) < i))
            yield return new Finding(path, 0, $"row {number} is too much");
        if (!seen.SequenceEqual(seen.Order())) yield return new Finding(path, 0, "rows are not in order");
    }

    /// The rows of docs/defects.md: the tests that prove the absence of a known defect, or the reason why there is
    /// none.
    public static IEnumerable<Finding> Defects(string path, string text, IReadOnlySet<string> tests)
    {
        List<string> seen = [];
        foreach (var (index, line) in text.Split('\n').Index())
        {
            if (DefectRow().Match(line) is not { Success: true } row) continue;
            seen.Add(row.Groups["id"].Value);
            var proofs = Quoted().Matches(row.Groups["proof"].Value).Select(m => m.Groups[1].Value).ToList();
            if (proofs.Count == 0 && row.Groups["proof"].Value.Trim().Length < 20)
                yield return new Finding(path, index + 1, $"row {seen[^1]} has neither a test nor a reason");
            foreach (var proof in proofs.Where(p => !tests.Contains(p)))
                yield return new Finding(path, index + 1, $"row {seen[^1]} names {proof}, which does not exist");
        }

        if (!seen.SequenceEqual(DefectRows))
            yield return new Finding(path, 0,
                $"rows are not those of the list, each once and in order: {string.Join(", ", DefectRows.Except(seen))} "
                + $"missing, {string.Join(", ", seen.Except(DefectRows))} too much");
    }

    /// Each symptom page is named by the message that leads to it.
    public static IEnumerable<Finding> Symptoms(IEnumerable<string> pages, IReadOnlyCollection<SourceFile> sources)
    {
        var all = pages.ToList();
        foreach (var page in all)
        {
            var name = Path.GetFileNameWithoutExtension(page);
            if (!sources.Any(s => s.Text.Contains(name, StringComparison.Ordinal)))
                yield return new Finding(page, 0, "no message under src/ leads to this page");
        }
        foreach (var source in sources)
        {
            foreach (Match named in SymptomPage().Matches(source.Text))
            {
                if (!all.Contains($"docs/symptoms/{named.Groups[1].Value}"))
                    yield return new Finding(source.Path, source.LineOf(named.Index),
                        $"names {named.Value}, and docs/symptoms has no such page");
                // Users of the tool have the pages in it, but not the repository.
                var page = named.Groups[1].Value[..^3];
                if (named.Value.StartsWith("docs/", StringComparison.Ordinal)
                    && source.Path.StartsWith("src/", StringComparison.Ordinal)
                    && source.Text.AsSpan(0, named.Index).EndsWith("ee ", StringComparison.Ordinal)
                    && !source.Text.AsSpan(named.Index + named.Length).StartsWith($", or: whimbrel explain {page}",
                        StringComparison.Ordinal) && !IsComment(source, named.Index))
                    yield return new Finding(source.Path, source.LineOf(named.Index), $"names {named.Value} without "
                        + $"the command: write \"{named.Value}, or: whimbrel explain {page}\"");
            }
        }
    }

    private static bool IsComment(SourceFile source, int at)
    {
        var start = source.Text.LastIndexOf('\n', at) + 1;
        return source.Text[start..at].TrimStart().StartsWith("//", StringComparison.Ordinal);
    }

    public static IEnumerable<Finding> Workplace(string path, string text)
    {
        // Concatenated, so that this file does not violate its own rule.
        string[] traces = ["/wo" + "rk/", "/tmp/" + "wt", ".lib" + "rary/", "CE" + "O"];
        return from line in text.Split('\n').Index()
               from trace in traces
               where Regex.IsMatch(line.Item,
                   char.IsLetter(trace[0]) ? $@"\b{trace}\b" : $@"(?<![\w./]){Regex.Escape(trace)}")
               select new Finding(path, line.Index + 1, $"'{trace}' is a trace of one workplace");
    }

    internal static string Slug(string heading)
    {
        var slug = new StringBuilder();
        foreach (var c in heading.Trim().ToLowerInvariant())
        {
            if (char.IsLetterOrDigit(c) || c is '-' or '_') slug.Append(c);
            else if (c == ' ') slug.Append('-');
        }
        return slug.ToString();
    }

    private static HashSet<string> Anchors(string text) =>
        [.. WithoutFences(text).Select(l => Heading().Match(l.Text)).Where(m => m.Success)
            .Select(m => Slug(m.Groups[1].Value))];

    private static IEnumerable<(int Line, string Target)> LinksOf(string text) =>
        from line in WithoutFences(text)
        from Match link in Link().Matches(CodeSpan().Replace(line.Text, ""))
        select (line.Number, link.Groups[1].Value);

    private static IEnumerable<(int Number, string Text)> WithoutFences(string text)
    {
        var inside = false;
        foreach (var (index, line) in text.ReplaceLineEndings("\n").Split('\n').Index())
        {
            if (line.TrimStart().StartsWith("```", StringComparison.Ordinal)) inside = !inside;
            else if (!inside) yield return (index + 1, line);
        }
    }

    private static string Resolve(string from, string target)
    {
        var parts = new List<string>(target.StartsWith('/') ? [] : from.Split('/')[..^1]);
        foreach (var part in target.Split('/', StringSplitOptions.RemoveEmptyEntries))
        {
            if (part == ".." && parts.Count > 0) parts.RemoveAt(parts.Count - 1);
            else if (part != ".") parts.Add(part);
        }
        return string.Join('/', parts);
    }

    [GeneratedRegex(@"\[[^\]]*\]\(<?([^)\s>]+)>?(?:\s+""[^""]*"")?\)")] private static partial Regex Link();
    [GeneratedRegex(@"`[^`]*`")] private static partial Regex CodeSpan();
    [GeneratedRegex(@"^#{1,6}\s+(.*?)\s*#*$")] private static partial Regex Heading();
    [GeneratedRegex(
        @"^\|\s*(?<number>\d+)\s*\|(?<what>[^|]+)\|\s*(?<state>done|partly|planned)\s*\|(?<proof>[^|]+)\|\s*$")]
    private static partial Regex CoverageRow();
    [GeneratedRegex(@"^\|\s*(?<id>[A-Z]\d+)\s*\|(?<what>[^|]+)\|(?<proof>[^|]*)\|\s*$")]
    private static partial Regex DefectRow();
    [GeneratedRegex(@"^\|\s*\d")] private static partial Regex LooksLikeRow();
    [GeneratedRegex(@"`([^`]+)`")] private static partial Regex Quoted();
    [GeneratedRegex(@"^[A-Za-z_]\w*\.[A-Za-z_]\w*$")] private static partial Regex TestName();
    [GeneratedRegex(@"^\|[ :|-]*-[ :|-]*$")] private static partial Regex TableDashes();
    [GeneratedRegex(@"(?:docs/symptoms/|"")([\w-]+\.md)\b")] private static partial Regex SymptomPage();
}
