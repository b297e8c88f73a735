using System.Diagnostics.Metrics;
using System.Text.Json;
using System.Text.RegularExpressions;

namespace Whimbrel.Docs.Metrics;

// The dashboard against the instruments of a running program, as the Prometheus exporter of OpenTelemetry spells them.
public sealed partial class DashboardTests(MeasuredProgram program) : IClassFixture<MeasuredProgram>
{
    private const string Dashboard = "deploy/grafana/whimbrel.json";

    // Set by Prometheus from the resource of a program, and by the exporter.
    private static readonly string[] _targetLabels = ["job", "instance", "le"];

    private static readonly string[] _words = ["sum", "max", "rate", "histogram_quantile", "by", "label_values"];

    [Fact]
    public void Each_instrument_is_exported_by_the_name_of_the_rules_for_Prometheus()
    {
        Assert.InRange(program.Instruments.Count, 30, 200);
        Assert.Empty(program.Instruments.Where(i => !program.Series.ContainsKey(MeasuredProgram.NameOf(i)))
            .Select(i => $"{i.Name}: no series {MeasuredProgram.NameOf(i)} among {string.Join(' ',
                program.Series.Keys.Where(k => k.StartsWith(i.Name.Replace('.', '_'), StringComparison.Ordinal)))}"));
    }

    [Fact]
    public void Each_query_uses_series_and_labels_that_exist() =>
        Assert.Empty(Queries(Document()).SelectMany(q => Mistakes(q.Panel, q.Query, q.Legend)));

    [Fact]
    public void Each_instrument_is_in_a_panel()
    {
        var used = string.Join('\n', Queries(Document()).Select(static q => q.Query));
        Assert.Empty(program.Instruments.Where(i => !Regex.IsMatch(used, $@"\b{StemOf(i)}(_bucket|_sum|_count)?\{{"))
            .Select(static i => i.Name));
    }

    [Fact]
    public void A_series_a_label_and_a_function_that_do_not_exist_are_found()
    {
        Assert.Empty(Mistakes("a", "sum by (action) (rate(whimbrel_server_slow_consumers_total{job=\"x\"}[1m]))",
            "{{action}}"));
        Assert.Contains("no series whimbrel_server_slow_consumers",
            Assert.Single(Mistakes("a", "whimbrel_server_slow_consumers{}", "")), StringComparison.Ordinal);
        Assert.Contains("no label peer", Assert.Single(Mistakes("a", "whimbrel_loop_turns_total{peer=\"x\"}", "")),
            StringComparison.Ordinal);
        Assert.Contains("no label peer",
            Assert.Single(Mistakes("a", "sum by (peer) (whimbrel_loop_turns_total{})", "")), StringComparison.Ordinal);
        Assert.Contains("no label peer", Assert.Single(Mistakes("a", "whimbrel_loop_turns_total{}", "{{peer}}")),
            StringComparison.Ordinal);
        Assert.Contains("'whimbrel_loop_turns_total'", Assert.Single(Mistakes("a", "rate(whimbrel_loop_turns_total)",
            "")), StringComparison.Ordinal);
    }

    [Fact]
    public void Each_label_that_is_exported_is_in_the_guide()
    {
        var page = File.ReadAllText(Repository.PathOf("docs/guide/metrics.md"));
        Assert.Empty(program.Instruments.SelectMany(i => program.Series.GetValueOrDefault(
                MeasuredProgram.NameOf(i), []).Select(label => (i.Name, Label: label)))
            .Where(l => !l.Label.StartsWith("otel_scope_", StringComparison.Ordinal)
                && !Documented(page).Contains(l.Label))
            .Select(static l => $"{l.Name}: {l.Label}"));
    }

    [Fact]
    public void Panels_have_a_title_a_description_a_unit_and_their_own_place()
    {
        using var document = JsonDocument.Parse(File.ReadAllText(Repository.PathOf(Dashboard)));
        var panels = document.RootElement.GetProperty("panels").EnumerateArray().ToList();
        Assert.InRange(panels.Count, 20, 60);
        Assert.Equal(panels.Count, panels.Select(static p => p.GetProperty("id").GetInt32()).Distinct().Count());
        HashSet<(int X, int Y)> taken = [];
        foreach (var panel in panels)
        {
            Assert.NotEmpty(panel.GetProperty("title").GetString()!);
            var place = panel.GetProperty("gridPos");
            for (var x = 0; x < place.GetProperty("w").GetInt32(); x++)
            {
                for (var y = 0; y < place.GetProperty("h").GetInt32(); y++)
                    Assert.True(
                        taken.Add((x + place.GetProperty("x").GetInt32(), y + place.GetProperty("y").GetInt32())),
                        $"{panel.GetProperty("title")} overlaps another panel");
            }

            if (panel.GetProperty("type").GetString() == "row") continue;
            Assert.EndsWith(".", panel.GetProperty("description").GetString(), StringComparison.Ordinal);
            Assert.NotEmpty(panel.GetProperty("fieldConfig").GetProperty("defaults").GetProperty("unit").GetString()!);
        }
    }

    // ------------------------------------------------------------------ queries

    private static string Document() => File.ReadAllText(Repository.PathOf(Dashboard));

    private static List<(string Panel, string Query, string Legend)> Queries(string json)
    {
        using var document = JsonDocument.Parse(json);
        var root = document.RootElement;
        List<(string, string, string)> all = [.. root.GetProperty("templating").GetProperty("list").EnumerateArray()
            .Where(static v => v.GetProperty("type").GetString() == "query")
            .Select(static v => ("variable", v.GetProperty("query").GetProperty("query").GetString()!, ""))];
        foreach (var panel in root.GetProperty("panels").EnumerateArray())
        {
            if (!panel.TryGetProperty("targets", out var targets)) continue;
            all.AddRange(targets.EnumerateArray().Select(t => (panel.GetProperty("title").GetString()!,
                t.GetProperty("expr").GetString()!, t.GetProperty("legendFormat").GetString()!)));
        }

        Assert.NotEmpty(all);
        return all;
    }

    private IEnumerable<string> Mistakes(string panel, string query, string legend)
    {
        var whole = LabelValues().Replace(query, static m => $"{m.Groups["series"].Value}{m.Groups["with"].Value switch
        {
            "" => "{}",
            var with => with
        }} by ({m.Groups["label"].Value})");
        HashSet<string> series = [.. Selector().Matches(whole).Select(static m => m.Groups["series"].Value)];
        var known = series.SelectMany(LabelsOf).ToHashSet();
        foreach (var name in series.Where(name => !program.Series.ContainsKey(name)))
            yield return $"{panel}: there is no series {name}";
        if (series.Any(name => !program.Series.ContainsKey(name))) yield break;
        var labels = Selector().Matches(whole).SelectMany(static m => Matcher().Matches(m.Groups["with"].Value))
            .Concat(GroupedBy().Matches(whole).SelectMany(static m => Name().Matches(m.Groups["labels"].Value)))
            .Concat(Braces().Matches(legend)).Select(static m => m.Groups["label"].Value).ToHashSet();
        foreach (var label in labels.Where(label => !known.Contains(label)))
            yield return $"{panel}: {string.Join(", ", series)} has no label {label}";
        var rest = GroupedBy().Replace(Selector().Replace(whole, ""), "");
        foreach (Match word in Name().Matches(Interval().Replace(rest, "")))
        {
            if (!_words.Contains(word.Value)) yield return $"{panel}: '{word.Value}' is no function and has no {{}}";
        }
    }

    // Those that the program has shown, and those that the guide has for the instrument, which need an error.
    private IEnumerable<string> LabelsOf(string series)
    {
        var instrument = program.Instruments.FirstOrDefault(i =>
            Regex.IsMatch(series, $"^{StemOf(i)}(_bucket|_sum|_count)?$"));
        var row = instrument is null ? null : File.ReadLines(Repository.PathOf("docs/guide/metrics.md"))
            .FirstOrDefault(line => line.StartsWith($"| `{instrument.Name}`", StringComparison.Ordinal));
        return [.. program.Series.GetValueOrDefault(series, []), .. _targetLabels, .. Documented(row ?? "")];
    }

    private static string StemOf(Instrument instrument)
    {
        var name = MeasuredProgram.NameOf(instrument);
        return name.EndsWith("_count", StringComparison.Ordinal) ? name[..^"_count".Length] : name;
    }

    private static HashSet<string> Documented(string text) =>
        [.. Code().Matches(text).Select(static m => m.Groups[1].Value.Replace('.', '_'))];

    [GeneratedRegex(@"(?<series>[a-z_:][a-z0-9_:]*)\{(?<with>[^}]*)\}")]
    private static partial Regex Selector();

    [GeneratedRegex(@"label_values\((?<series>[a-z_0-9]+)(?<with>\{[^}]*\})?, (?<label>\w+)\)")]
    private static partial Regex LabelValues();

    [GeneratedRegex(@"(?<label>\w+)\s*(=~|!~|!=|=)")]
    private static partial Regex Matcher();

    [GeneratedRegex(@"\bby \((?<labels>[^)]*)\)")]
    private static partial Regex GroupedBy();

    [GeneratedRegex(@"\{\{(?<label>\w+)\}\}")]
    private static partial Regex Braces();

    [GeneratedRegex(@"(?<label>[A-Za-z_]\w*)")]
    private static partial Regex Name();

    [GeneratedRegex(@"\[[^\]]*\]")]
    private static partial Regex Interval();

    [GeneratedRegex("`([a-z_.]+)`")]
    private static partial Regex Code();
}
