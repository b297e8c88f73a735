using Whimbrel.Tool.Bench;

namespace Whimbrel.Tool.Plot;

/// <summary>CPU time of the server for each message: a dot for the median, a line from the lowest to the highest round.
/// </summary>
internal static class CpuChart
{
    private const int Width = 760, Left = 220, Right = 96, Row = 18, Gap = 14;

    internal static string Draw(string title, IReadOnlyList<PlotCell> cells, string source)
    {
        List<PlotCell> drawn = [.. cells.Where(static c => c.ServerNs is { Low: > 0 })];
        if (drawn.Count == 0)
            throw new PlotException("No file has CPU times of a server: use whimbrel bench --server-pid PID.");
        List<string> series = [.. drawn.Select(static c => c.Series).Distinct()];
        PlotRules.CheckSeries(series.Count, "peers", "Name some by --peers.");
        Svg svg = new(Width, title);
        double top = svg.Legend(50, series) + 8, at = top;
        Scale x = Scale.Log(drawn.Min(static c => c.ServerNs!.Value.Low), drawn.Max(static c => c.ServerNs!.Value.High),
            Left, Width - Right);
        List<IGrouping<string, PlotCell>> groups = [.. drawn.GroupBy(static c => c.Group)];
        double bottom = top + groups.Sum(static g => (g.Count() * Row) + Gap);
        foreach (double mark in x.Marks)
        {
            svg.Line(x.At(mark), top, x.At(mark), bottom, "grid");
            svg.Text(x.At(mark), bottom + 18, NsText.Of(mark), "faint", "middle");
        }

        foreach (IGrouping<string, PlotCell> group in groups)
        {
            svg.Text(16, at + Row, group.Key);
            foreach (PlotCell cell in group.OrderBy(c => series.IndexOf(c.Series)))
            {
                (double median, double low, double high) = cell.ServerNs!.Value;
                int color = series.IndexOf(cell.Series);
                double y = at + Row - 4;
                if (high > low) svg.Polyline([(x.At(low), y), (x.At(high), y)], color);
                svg.Dot(x.At(median), y, color);
                svg.Text(Math.Max(x.At(median), x.At(high)) + 10, y + 4, NsText.Of(median), "faint");
                at += Row;
            }

            at += Gap;
        }

        svg.Text(16, bottom + 42, $"CPU time of the server for each message. {source}", "faint");
        return svg.ToText(bottom + 56);
    }
}
