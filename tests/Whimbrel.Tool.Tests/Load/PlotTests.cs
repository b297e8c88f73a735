using System.CommandLine;
using System.Text.Json;
using System.Text.RegularExpressions;
using System.Xml.Linq;
using Whimbrel.Tool.Plot;

namespace Whimbrel.Tool.Tests;

// `whimbrel plot`: the pictures of the guide, and files that are no results.
public sealed partial class PlotTests : IDisposable
{
    private const string Page = "docs/guide/load.md";

    private readonly TemporaryFolder _folder = new();

    public static TheoryData<string> CommandsOfThePage =>
        [.. File.ReadLines(Path.Combine(SourceTree.Root, Page))
            .Where(static l => l.StartsWith("whimbrel plot ", StringComparison.Ordinal)
                && l.Contains("--out docs/images/", StringComparison.Ordinal))];

    public void Dispose() => _folder.Dispose();

    [GeneratedRegex("\"([^\"]*)\"|(\\S+)")]
    private static partial Regex Words();

    [Theory, MemberData(nameof(CommandsOfThePage))]
    public async Task The_commands_of_the_page_give_its_pictures(string command)
    {
        string[] words = [.. Words().Matches(command).Skip(1).Select(static m =>
            m.Groups[1].Success ? m.Groups[1].Value : m.Value)];
        string picture = Path.Combine(SourceTree.Root, words[Array.IndexOf(words, "--out") + 1]);
        words[Array.IndexOf(words, "--out") + 1] = _folder["picture.svg"];
        words = [.. words.Select(static w => w.EndsWith(".json", StringComparison.Ordinal)
            ? Path.Combine(SourceTree.Root, w) : w)];
        Assert.Equal(0, await CommandLine.Create().Parse(words).InvokeAsync(
            cancellationToken: TestContext.Current.CancellationToken));
        string drawn = await File.ReadAllTextAsync(_folder["picture.svg"], TestContext.Current.CancellationToken);
        if (Environment.GetEnvironmentVariable("WHIMBREL_ACCEPT_PLOTS") == "1")
            await File.WriteAllTextAsync(picture, drawn, TestContext.Current.CancellationToken);
        Assert.True(drawn == await File.ReadAllTextAsync(picture, TestContext.Current.CancellationToken),
            $"{picture} is not what its command gives: WHIMBREL_ACCEPT_PLOTS=1 writes it.");
        CheckForm(drawn);
    }

    [Fact]
    public void The_page_draws_the_summary_of_the_README_and_shows_each_picture()
    {
        string page = File.ReadAllText(Path.Combine(SourceTree.Root, Page));
        string[] readme = File.ReadAllLines(Path.Combine(SourceTree.Root, "README.md"));
        Assert.Contains(readme, static l => l.EndsWith("](docs/images/cost.svg)", StringComparison.Ordinal));
        string summary = readme
            .Single(static l => l.StartsWith("<!-- figures: ", StringComparison.Ordinal)).Split(' ')[2];
        Assert.Contains($"whimbrel plot {summary} --out docs/images/cost.svg", page, StringComparison.Ordinal);
        Assert.Equal(2, CommandsOfThePage.Count);
        foreach (string name in (string[])["cost", "latency"])
            Assert.Contains($"](../images/{name}.svg)", page, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("Latency")]
    [InlineData("Cpu")]
    [InlineData("Throughput")]
    public void Each_chart_of_a_report_is_the_same_twice_and_has_no_outside_assets(string chart)
    {
        File.WriteAllText(_folder["a <b>.json"], Report(8));
        PlotSettings settings = new([_folder["a <b>.json"]], "-")
        {
            Chart = Enum.Parse<PlotChart>(chart), Title = "A <title> & \"more\""
        };
        string drawn = PlotCommand.Draw(settings);
        Assert.Equal(drawn, PlotCommand.Draw(settings));
        CheckForm(drawn);
        Assert.Equal("A <title> & \"more\"", XDocument.Parse(drawn).Root!.Elements()
            .First(static e => e.Name.LocalName == "title").Value);
    }

    [Fact]
    public void One_series_more_than_there_are_colours_is_refused()
    {
        File.WriteAllText(_folder["many.json"], Report(9));
        PlotException e = Assert.Throws<PlotException>(() => PlotCommand.Draw(new([_folder["many.json"]], "-")));
        Assert.Contains("at most 8 cells, and the files have 9", e.Message, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("", "is not a complete report")]
    [InlineData("[]", "is neither a report of whimbrel bench")]
    [InlineData("{}", "is neither a report of whimbrel bench")]
    [InlineData("{\"schema\":\"whimbrel-bench/9\"}", "has schema 'whimbrel-bench/9', and this version reads")]
    [InlineData("{\"schema\":\"whimbrel-bench/1\"}", "is not a complete report")]
    [InlineData("{\"schema\":7}", "is not a complete report")]
    public void A_file_that_is_no_result_is_named_with_the_reason(string text, string expected)
    {
        File.WriteAllText(_folder["x.json"], text);
        PlotException e = Assert.Throws<PlotException>(() => PlotCommand.Draw(new([_folder["x.json"]], "-")));
        Assert.Contains(expected, e.Message, StringComparison.Ordinal);
        Assert.Contains("x.json", e.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void A_file_above_the_limit_is_not_read()
    {
        using (FileStream file = File.Create(_folder["large.json"])) file.SetLength((64 << 20) + 1);
        Assert.Contains("is larger than 64 MiB", Assert.Throws<PlotException>(
            () => PlotCommand.Draw(new([_folder["large.json"]], "-"))).Message, StringComparison.Ordinal);
        using (FileStream file = File.OpenWrite(_folder["large.json"])) file.SetLength(64 << 20);
        Assert.Contains("is not a complete report", Assert.Throws<PlotException>(
            () => PlotCommand.Draw(new([_folder["large.json"]], "-"))).Message, StringComparison.Ordinal);
    }

    [Fact]
    public void A_name_that_the_files_do_not_have_is_answered_by_the_nearest()
    {
        File.WriteAllText(_folder["x.json"], Report(1));
        PlotException e = Assert.Throws<PlotException>(
            () => PlotCommand.Draw(new([_folder["x.json"]], "-") { Peers = ["y"] }));
        Assert.Contains("The files have no peer 'y'.", e.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_missing_file_and_missing_arguments_are_one_line()
    {
        (int code, _, List<string> errors) = await RunningTool.Run(null, "plot", _folder["none.json"], "--out", "-");
        Assert.Equal(1, code);
        Assert.Contains("none.json cannot be read", Assert.Single(errors), StringComparison.Ordinal);
        await RunningTool.AssertRefused("A file is missing.", "whimbrel plot FILE.json...", "plot");
        await RunningTool.AssertRefused("--out FILE.svg is missing.", "whimbrel plot FILE.json...", "plot", "a.json");
        await RunningTool.AssertRefused("--out takes FILE.svg, or - for stdout, not 'a.json'",
            "whimbrel plot FILE.json...", "plot", "a.json", "--out", "a.json");
        await RunningTool.AssertRefused("--chart takes latency, cpu or throughput, not 'pie'",
            "whimbrel plot FILE.json...", "plot", "a.json", "--out", "-", "--chart", "pie");
    }

    [Fact]
    public async Task Each_member_of_a_report_is_on_the_page_and_the_report_can_be_plotted()
    {
        await using RunningTool server = await RunningTool.Serve("echo");
        LoadRun run = await LoadRun.RunAsync("tcp", server.Address, "--rate", "500", "--warm-up", "0", "--duration",
            "0.4", "--server-pid", $"{server.Id}");
        string page = await File.ReadAllTextAsync(Path.Combine(SourceTree.Root, Page),
            TestContext.Current.CancellationToken);
        string[] paths = [.. PathsIn(run.Report, "")];
        Assert.Contains("cells[].latency_ns", paths);
        Assert.All(paths, path => Assert.Contains($"`{path}`", page, StringComparison.Ordinal));
        await File.WriteAllTextAsync(_folder["report.json"], run.Report.GetRawText(),
            TestContext.Current.CancellationToken);
        foreach (PlotChart chart in Enum.GetValues<PlotChart>())
            CheckForm(PlotCommand.Draw(new([_folder["report.json"]], "-") { Chart = chart }));
    }

    // The paths of all members; below errors, statuses and times the names are data.
    private static IEnumerable<string> PathsIn(JsonElement element, string path)
    {
        foreach (JsonProperty member in element.EnumerateObject())
        {
            string name = path + member.Name;
            if (member.Name is "errors" or "status" || member.Name.EndsWith("_ns", StringComparison.Ordinal))
                yield return name;
            else if (member.Value.ValueKind == JsonValueKind.Object)
                foreach (string below in PathsIn(member.Value, name + ".")) yield return below;
            else if (member.Name == "cells")
                foreach (string below in PathsIn(member.Value[0], name + "[].")) yield return below;
            else yield return name;
        }
    }

    private static void CheckForm(string svg)
    {
        XDocument document = XDocument.Parse(svg);
        Assert.Equal("svg", document.Root!.Name.LocalName);
        Assert.Contains("prefers-color-scheme:dark", svg, StringComparison.Ordinal);
        Assert.DoesNotContain("href", svg, StringComparison.Ordinal);
        Assert.DoesNotContain("url(", svg, StringComparison.Ordinal);
        Assert.DoesNotContain("NaN", svg, StringComparison.Ordinal);
        Assert.DoesNotContain("∞", svg, StringComparison.Ordinal);
        Assert.Contains(document.Descendants(), static e => e.Name.LocalName is "polyline" or "circle");
    }

    private static string Report(int cells)
    {
        IEnumerable<string> each = Enumerable.Range(1, cells).Select(static i =>
            $"{{\"connections\":{i},\"rate\":1000,\"per_second\":{1000 - i},\"server_ns\":{5000 + i},"
                + $"\"curve\":[[0,{i * 1000}],[50,{i * 2000}],[99.9,{i * 90000}],[100,{i * 100000}]]}}");
        return $$"""
            {"schema":"whimbrel-bench/1","time":"2026-11-29T08:00:00Z","tool":{"commit":"0123456789abcdef"},
             "machine":{"cpu":"A cpu","cores":2,"kernel":"6.18.1"},"cells":[{{string.Join(',', each)}}]}
            """;
    }
}
