using System.Text.RegularExpressions;
using Microsoft.CodeAnalysis.CSharp.Syntax;
using Whimbrel.Connections;
using Whimbrel.Tidy.Rules;

namespace Whimbrel.Tidy;

// The rules about documents. A test after each rule proves that the rule can fail.
public partial class DocumentTests
{
    private const string CoveragePath = "docs/coverage.md";
    private const string DefectsPath = "docs/defects.md";

    private static bool Exists(string path) => File.Exists(Path.Combine(Repository.Root, path));

    // Class.Method of every method under tests/. Abstract suites count, because their engine classes inherit the test.
    private static HashSet<string> TestNames() =>
        [.. from file in Repository.Sources("tests/").Select(WithMemory)
            from method in file.All<MethodDeclarationSyntax>()
            where method.Parent is TypeDeclarationSyntax && method.AttributeLists.Count > 0
            select $"{((TypeDeclarationSyntax)method.Parent!).Identifier.Text}.{method.Identifier.Text}"];

    // Tests for the engine in memory alone are compiled with a symbol of their own.
    private static SourceFile WithMemory(SourceFile file) =>
        new(file.Path, string.Join('\n', file.Lines).Replace("#if MEMORY", "#if true", StringComparison.Ordinal));

    [Fact]
    public void The_table_of_a_connections_states_in_design_6_is_that_of_the_code()
    {
        string[] rows = [.. Repository.Read("docs/design/0006-how-a-connection-ends.md").Split('\n')
            .Select(static line => line.Split('|'))
            .Where(static cells => cells.Length > 3 && Enum.TryParse<ConnectionState>(cells[1].Trim(), out _))
            .Select(static cells => $"{cells[1].Trim()} -> {cells[2].Trim()}")];
        ConnectionState[] states = Enum.GetValues<ConnectionState>();
        Assert.Equal(
            states.Select(from => $"{from} -> {string.Join(", ", states.Where(to => Life.IsLegal(from, to)))}"), rows);
    }

    [Fact]
    public void The_tables_of_causes_and_notices_in_the_guide_are_those_of_the_code()
    {
        string[][] rows = [.. Repository.Read("docs/guide/close-reasons.md").Split('\n')
            .Where(static line => line.StartsWith("| `", StringComparison.Ordinal))
            .Select(static line => line.Split('|', StringSplitOptions.TrimEntries))];
        var causes = Enum.GetValues<CloseCause>().Where(static cause => cause != CloseCause.None)
            .Select(static cause => new CloseReason(cause)).ToDictionary(static reason => $"`{reason.Cause}`");
        // The initiator of an end by TLS depends on the kind of the failure.
        Assert.Equal(
            causes.Values.Select(static reason => $"{reason.Cause} by "
                + $"{(reason.TlsFailure == TlsFailure.None ? reason.Initiator.ToString() : "by kind")}, "
                + $"{reason.Error.Category}, {(reason.IsGraceful ? "yes" : "no")}: {reason}").Order(),
            rows.Where(row => row.Length > 7 && causes.ContainsKey(row[1]))
                .Select(static row => $"{row[1].Trim('`')} by {row[2]}, {row[3]}, {row[4]}: {row[5]}").Order());
        Assert.Equal(
            Enum.GetValues<DiagnosticEventKind>().Select(static kind => $"{kind} {(int)kind + 1}"),
            rows.Where(static row => row.Length == 6 && Enum.TryParse<DiagnosticEventKind>(row[1].Trim('`'), out _))
                .Select(static row => $"{row[1].Trim('`')} {row[2]}"));
    }

    [Fact]
    public void Every_instrument_of_the_meters_is_in_the_guide()
    {
        string page = Repository.Read("docs/guide/metrics.md");
        string[] names = [.. Repository.Sources("src/").SelectMany(static file => Instrument().Matches(file.Text))
            .Select(static match => match.Groups[1].Value).Distinct()];
        Assert.True(names.Length >= 25, $"only {names.Length} instruments were found: the pattern has become stale");
        // A row with several names abbreviates those after the first: `.empty_turns`.
        string[] missing = [.. names.Where(name => !page.Contains($"`{name}`", StringComparison.Ordinal)
            && !page.Contains($"`{name[name.LastIndexOf('.')..]}`", StringComparison.Ordinal))];
        Assert.Empty(missing);
    }

    [GeneratedRegex(@"Create(?:Observable)?(?:Counter|UpDownCounter|Histogram|Gauge)(?:<\w+>)?\(\s*""([^""]+)""")]
    private static partial Regex Instrument();

    [Fact]
    public void Links_between_documents_resolve() => Judge.None(Repository.PathsEnding(".md").SelectMany(p =>
        Documents.Links(p, Repository.Read(p), path => Exists(path) ? Repository.Read(path) : null,
            path => Directory.Exists(Path.Combine(Repository.Root, path)))));

    [Fact]
    public void A_broken_link_is_found()
    {
        static string? Read(string path) => path == "docs/b.md" ? "# The one heading\n" : null;
        Judge.Finds("there is no docs/c.md", Documents.Links("docs/a.md", "see [c](c.md)", Read, _ => false));
        Judge.Finds("#two", Documents.Links("docs/a.md", "see [b](b.md#two)", Read, _ => false));
        Judge.Finds("#two", Documents.Links("docs/a.md", "# One\nsee [here](#two)", Read, _ => false));
        Judge.None(Documents.Links("docs/x/a.md", "see [b](../b.md#the-one-heading), `[no](link.md)`, "
            + "[x](https://example.org)\n```\n[no](link.md)\n```", Read, _ => false));
    }

    [Fact]
    public void Tables_of_documents_are_well_formed() =>
        Judge.None(Repository.PathsEnding(".md").SelectMany(static p => Documents.Tables(p, Repository.Read(p))));

    [Fact]
    public void A_broken_table_is_found()
    {
        Judge.Finds("without a head", Documents.Tables("a.md", "| a | b |\n|---|---|\n| 1 | 2 |\n\n| 3 | 4 |"));
        Judge.Finds("without a head", Documents.Tables("a.md", "| a | b |\n| 1 | 2 |"));
        Judge.None(Documents.Tables("a.md", "| a | b |\n|---|---|\n| 1 | 2 |\n\ntext\n```\n| 3 | 4 |\n```"));
    }

    // The ceiling is what is left, and is lowered with each limit that gets a test.
    [Fact]
    public void Each_limit_has_a_row_with_the_tests_that_show_it() =>
        Judge.None(Documents.Limits("tests/limits.txt", Repository.Read("tests/limits.txt"),
            Repository.Read("docs/limits.md"), TestNames(), most: 15));

    [Fact]
    public void A_limit_without_a_row_and_a_wrong_row_of_a_limit_are_found()
    {
        const string Page = "## Per loop\n\n| limit | default |\n|---|---|\n| size | 1 |\n| time | 2 |\n";
        HashSet<string> tests = ["A.At_the_number"];
        const string Size = "Per loop: size = A.At_the_number\n",
            Time = "Per loop: time = none: the system alone decides\n";
        Judge.None(Documents.Limits("l.txt", "# comment\n" + Size + Time, Page, tests, 1));
        Judge.Finds("no row for the limit \"Per loop: time\"", Documents.Limits("l.txt", Size, Page, tests, 1));
        Judge.Finds("more than 0 limits", Documents.Limits("l.txt", Size + Time, Page, tests, 0));
        Judge.Finds("neither a test nor a reason",
            Documents.Limits("l.txt", Size + "Per loop: time\n", Page, tests, 1));
        Judge.Finds("no such test", Documents.Limits("l.txt", Size + Time, Page, new HashSet<string>(), 1));
        Judge.Finds("or it is here twice", Documents.Limits("l.txt", Size + Size + Time, Page, tests, 1));
    }

    [Fact]
    public void At_most_ten_tests_are_in_quarantine_each_with_a_suspected_cause() =>
        Judge.None(Documents.Quarantine("tests/quarantine.txt", Repository.Read("tests/quarantine.txt"),
            MethodNames()));

    [Fact]
    public void A_wrong_row_of_the_quarantine_is_found()
    {
        HashSet<string> methods = ["Present"];
        Judge.None(Documents.Quarantine("q.txt", "# comment\nN.A.Present: a race of the test\n", methods));
        Judge.Finds("no such test", Documents.Quarantine("q.txt", "N.A.Missing: a race", methods));
        Judge.Finds("not of the form", Documents.Quarantine("q.txt", "N.A.Present", methods));
        Judge.Finds("more than 10",
            Documents.Quarantine("q.txt", string.Concat(Enumerable.Repeat("N.A.Present: a race\n", 11)), methods));
    }

    private static HashSet<string> MethodNames() => [.. TestNames().Select(static n => n.Split('.')[1])];

    [Fact]
    public void Coverage_lists_every_feature_and_real_tests() =>
        Judge.None(Documents.Coverage(CoveragePath, Repository.Read(CoveragePath), TestNames(), Exists));

    [Theory]
    [InlineData("| 1 | x | done | `A.Missing` |", "names A.Missing")]
    [InlineData("| 1 | x | done | - |", "without a proof")]
    [InlineData("| 1 | x | nearly | - |", "not of the form")]
    [InlineData("| 1 | x | done | `./missing` |", "names ./missing")]
    [InlineData("| 2 | x | planned | - |", "row 1 is missing")]
    public void A_wrong_line_of_coverage_is_found(string line, string expected) =>
        Judge.Finds(expected, Documents.Coverage("c.md", line, new HashSet<string> { "A.Present" }, _ => false));

    [Fact]
    public void The_list_of_defects_is_whole_and_names_real_tests() =>
        Judge.None(Documents.Defects(DefectsPath, Repository.Read(DefectsPath), TestNames()));

    [Fact]
    public void A_wrong_line_of_the_list_of_defects_is_found()
    {
        HashSet<string> tests = ["A.Present"];
        List<string> rows = [.. Documents.DefectRows.Select(static id => $"| {id} | x | `A.Present` |")];
        Judge.None(Documents.Defects("d.md", string.Join('\n', rows), tests));
        Judge.Finds("N2 missing", Documents.Defects("d.md",
            string.Join('\n', rows.Where(static r => !r.Contains("N2 ", StringComparison.Ordinal))), tests));
        Judge.Finds("each once", Documents.Defects("d.md", string.Join('\n', rows.Append(rows[0])), tests));
        Judge.Finds("names A.Missing", Documents.Defects("d.md", "| N1 | x | `A.Missing` |", tests));
        Judge.Finds("neither a test nor a reason", Documents.Defects("d.md", "| N1 | x | - |", tests));
    }

    [Fact]
    public void A_full_coverage_passes_and_a_double_row_does_not()
    {
        var rows = Enumerable.Range(1, Documents.FeatureRows).Select(n => $"| {n} | x | done | `A.Present` |").ToList();
        Judge.None(Documents.Coverage("c.md", string.Join('\n', rows), new HashSet<string> { "A.Present" },
            _ => false));
        Judge.Finds("row 155 is too much", Documents.Coverage("c.md", string.Join('\n', rows.Append(rows[^1])),
            new HashSet<string> { "A.Present" }, _ => false));
    }

    [Fact]
    public void Every_symptom_page_is_named_by_a_message()
    {
        var sources = Repository.Sources("src/").ToList();
        Assert.SkipUnless(sources.Count > 0, "src contains no code yet.");
        Judge.None(Documents.Symptoms(
            Repository.Paths.Where(p => p.StartsWith("docs/symptoms/", StringComparison.Ordinal)), sources));
    }

    [Fact]
    public void A_symptom_page_without_a_message_and_a_message_without_a_page_are_found()
    {
        Judge.Finds("no message",
            Documents.Symptoms(["docs/symptoms/a-b.md"], [Judge.File("src/A.cs", "class A { }")]));
        Judge.Finds("no such page",
            Documents.Symptoms([], [Judge.File("src/A.cs", "class A { string s = \"see docs/symptoms/a-b.md\"; }")]));
        Judge.Finds("no such page",
            Documents.Symptoms([], [Judge.File("src/A.cs", "class A { string s = \"a-b.md\"; }")]));
        Judge.Finds("without the command", Documents.Symptoms(["docs/symptoms/a-b.md"],
            [Judge.File("src/A.cs", "class A { string s = \"see docs/symptoms/a-b.md\"; }")]));
        Judge.None(Documents.Symptoms(["docs/symptoms/a-b.md"], [Judge.File("src/A.cs",
            "class A { string s = \"see docs/symptoms/a-b.md, or: whimbrel explain a-b\"; }")]));
    }

    [Fact]
    public void No_file_carries_traces_of_a_workplace() => Judge.None(Repository.Paths
        .Where(p => Path.GetExtension(p) is not (".png" or ".pfx" or ".ico" or ".gz"))
        .SelectMany(p => Documents.Workplace(p, Repository.Read(p))));

    [Fact]
    public void A_trace_of_a_workplace_is_found()
    {
        Judge.Finds("trace", Documents.Workplace("a.md", "see /wo" + "rk/notes"));
        Judge.Finds("trace", Documents.Workplace("a.md", "cd /tmp/" + "wt/x"));
        Judge.None(Documents.Workplace("a.md", "docs/wo" + "rk/notes, the network/"));
    }
}
