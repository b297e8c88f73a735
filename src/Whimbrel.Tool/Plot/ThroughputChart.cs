using System.Globalization;

namespace Whimbrel.Tool.Plot;

/// <summary>Answers a second by the number of connections.</summary>
internal static class ThroughputChart
{
    private const int Width = 760, Height = 320, Left = 88, Right = 32;

    internal static string Draw(string title, IReadOnlyList<PlotCell> cells, string source)
    {
        List<PlotCell> drawn = [.. cells.Where(static c => c.PerSecond is not null)];
        if (drawn.Count == 0) throw new PlotException("No file has answers a second: their cells were refused.");
        List<IGrouping<string, PlotCell>> lines = [.. drawn.GroupBy(static c => string.Create(
            CultureInfo.InvariantCulture, $"{c.Series}: {(c.Rate == 0 ? "closed loop" : $"{c.Rate}/s due")}"))];
        PlotRules.CheckSeries(lines.Count, "lines", "Give fewer files.");
        Svg svg = new(Width, title);
        double top = svg.Legend(50, [.. lines.Select(static l => l.Key)]) + 8, bottom = top + Height;
        Scale y = Scale.Linear(drawn.Max(static c => c.PerSecond!.Value), bottom, top);
        int[] counts = [.. drawn.Select(static c => c.Connections).Distinct().Order()];
        foreach (double mark in y.Marks)
        {
            svg.Line(Left, y.At(mark), Width - Right, y.At(mark), "grid");
            svg.Text(Left - 8, y.At(mark) + 4, mark.ToString("#,0.##", CultureInfo.InvariantCulture), "faint", "end");
        }

        foreach (int count in counts)
        {
            svg.Line(X(count), top, X(count), bottom, "grid");
            svg.Text(X(count), bottom + 18, count.ToString("n0", CultureInfo.InvariantCulture), "faint", "middle");
        }

        for (int i = 0; i < lines.Count; i++)
        {
            List<(double X, double Y)> points = [.. lines[i].OrderBy(static c => c.Connections)
                .Select(c => (X(c.Connections), y.At(c.PerSecond!.Value)))];
            svg.Polyline(points, i);
            foreach ((double px, double py) in points) svg.Dot(px, py, i);
        }

        svg.Text(16, bottom + 42, $"Answers a second by connections. {source}", "faint");
        return svg.ToText(bottom + 56);

        // Logarithmic between the first and the last number.
        double X(int count) => counts.Length == 1
            ? (Left + Width - Right) / 2.0
            : Left + 24 + (Math.Log((double)count / counts[0]) / Math.Log((double)counts[^1] / counts[0])
                * (Width - Right - Left - 48));
    }
}
