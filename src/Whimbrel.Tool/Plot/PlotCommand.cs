namespace Whimbrel.Tool.Plot;

/// <summary><c>whimbrel plot</c>: draws stored results as an SVG.</summary>
internal static class PlotCommand
{
    internal static async Task<int> RunAsync(PlotSettings settings)
    {
        try
        {
            string svg = Draw(settings);
            if (settings.Output == "-") await Console.Out.WriteAsync(svg);
            else await File.WriteAllTextAsync(settings.Output, svg);
            return ExitCode.Done;
        }
        catch (Exception e) when (e is PlotException or IOException or UnauthorizedAccessException)
        {
            await Console.Error.WriteLineAsync($"whimbrel: {e.Message}");
            return ExitCode.Failed;
        }
    }

    /// <summary>Returns the SVG; the same bytes for the same files and settings.</summary>
    internal static string Draw(PlotSettings settings)
    {
        List<PlotFile> files = [.. settings.Files.Select(PlotReader.Read)];
        List<PlotCell> cells = [.. files.SelectMany(static f => f.Cells)];
        cells = Selected(cells, settings.Scenarios, "scenario", static c => c.Group);
        cells = Selected(cells, settings.Peers, "peer", static c => c.Series);
        string source = string.Join("; ", files.Select(static f => f.Source).Distinct());
        PlotChart usual = files.TrueForAll(static f => f.IsSummary) ? PlotChart.Cpu : PlotChart.Latency;
        return (settings.Chart ?? usual) switch
        {
            PlotChart.Latency => LatencyChart.Draw(settings.Title ?? "Latency", cells, source),
            PlotChart.Cpu => CpuChart.Draw(settings.Title ?? "CPU for each message", cells, source),
            _ => ThroughputChart.Draw(settings.Title ?? "Throughput", cells, source),
        };
    }

    /// <summary>Returns the cells with these names, in the order of the names.</summary>
    private static List<PlotCell> Selected(List<PlotCell> cells, IReadOnlyList<string> names, string what,
        Func<PlotCell, string> nameOf)
    {
        if (names.Count == 0) return cells;
        foreach (string name in names)
        {
            if (cells.Exists(c => nameOf(c) == name)) continue;
            string meant = Likeness.Nearest(name, cells.Select(nameOf).Distinct()) is { } near
                ? $" Did you mean '{near}'?" : "";
            throw new PlotException($"The files have no {what} '{name}'.{meant}");
        }

        return [.. cells.Where(c => names.Contains(nameOf(c))).OrderBy(c => names.ToList().IndexOf(nameOf(c)))];
    }
}
