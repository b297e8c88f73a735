using System.CommandLine;

namespace Whimbrel.Tool.Plot;

/// <summary>Arguments of <c>whimbrel plot</c>.</summary>
internal static class PlotCommandLine
{
    private static readonly Argument<string[]> s_files = new("FILE")
    {
        Arity = ArgumentArity.ZeroOrMore,
        Description = "Reports of whimbrel bench --json, or summaries that bench/readme has stored."
    };
    // Only such names, because the name of a report here would replace it.
    private static readonly Option<string?> s_out = CommandLine.Value<string?>("--out", "FILE.svg",
        "The SVG to write; - is stdout.", "FILE.svg, or - for stdout",
        static text => text == "-" || text.EndsWith(".svg", StringComparison.OrdinalIgnoreCase) ? text : null);
    private static readonly Option<PlotChart?> s_chart = CommandLine.Value<PlotChart?>("--chart",
        "latency|cpu|throughput", "Kind of the chart. Default: latency for reports, cpu for summaries.",
        "latency, cpu or throughput", static text => text switch
        {
            "latency" => PlotChart.Latency,
            "cpu" => PlotChart.Cpu,
            "throughput" => PlotChart.Throughput,
            _ => null
        });
    private static readonly Option<string?> s_title = CommandLine.Value<string?>("--title", "TEXT",
        "Title of the chart.", "a text that is not empty", static text => text.Length > 0 ? text : null);
    private static readonly Option<string[]?> s_scenarios = CommandLine.Several(["--scenarios"], "NAME,...",
        "Scenarios of a summary, in this order. Default: all.", static _ => null);
    private static readonly Option<string[]?> s_peers = CommandLine.Several(["--peers"], "NAME,...",
        "Peers of a summary, in this order. Default: all.", static _ => null);

    internal const string Usage = "whimbrel plot FILE.json... --out FILE.svg [--chart latency|cpu|throughput] "
        + "[--title TEXT] [--scenarios NAME,...] [--peers NAME,...]";

    internal static Command Plot()
    {
        Command command = new("plot",
            "Draws stored results as an SVG for light and dark pages. The same files give the same bytes.")
        {
            s_files, s_out, s_chart, s_title, s_scenarios, s_peers,
        };
        command.Validators.Add(static result =>
        {
            if (result.GetResult(s_files) is not { Tokens.Count: > 0 }) result.AddError("A file is missing.");
            else if (!CommandLine.IsGiven(result, s_out)) result.AddError("--out FILE.svg is missing.");
        });
        command.SetAction(static parsed => PlotCommand.RunAsync(
            new PlotSettings(parsed.GetValue(s_files)!, parsed.GetValue(s_out)!)
            {
                Chart = parsed.GetValue(s_chart),
                Title = parsed.GetValue(s_title),
                Scenarios = parsed.GetValue(s_scenarios) ?? [],
                Peers = parsed.GetValue(s_peers) ?? [],
            }));
        return command;
    }
}
