using System.Globalization;
using Whimbrel.Tool.Bench;

namespace Whimbrel.Tool.Plot;

/// <summary>Latency by percentile. The horizontal axis gives each nine the same room.</summary>
internal static class LatencyChart
{
    private const int Width = 760, Height = 320, Left = 72, Right = 24;

    private static readonly double[] s_marks = [0, 50, 90, 99, 99.9, 99.99, 99.999];

    internal static string Draw(string title, IReadOnlyList<PlotCell> cells, string source)
    {
        List<PlotCell> drawn = [.. cells.Where(static c => c.Curve.Count > 0)];
        if (drawn.Count == 0)
            throw new PlotException("No file has a latency curve: their cells were refused, or they are summaries.");
        bool hasFiles = drawn.DistinctBy(static c => c.Series).Count() > 1;
        PlotRules.CheckSeries(drawn.Count, "cells", "Give fewer files.");
        Svg svg = new(Width, title);
        double top = svg.Legend(50, [.. drawn.Select(c => hasFiles ? $"{c.Series}: {c.Group}" : c.Group)]) + 8;
        double bottom = top + Height;
        // The last point of a curve is the maximum at 100 %, which is infinitely far to the right.
        List<List<(double Percent, double Ns)>> curves =
            [.. drawn.Select(static c => c.Curve.Where(static p => p.Percent < 100).ToList())];
        double mostNines = Math.Max(1, curves.Max(static c => c.Max(static p => NinesOf(p.Percent))));
        Scale y = Scale.Log(curves.Min(static c => c.Min(static p => p.Ns)),
            curves.Max(static c => c.Max(static p => p.Ns)), bottom, top);
        foreach (double mark in y.Marks)
        {
            svg.Line(Left, y.At(mark), Width - Right, y.At(mark), "grid");
            svg.Text(Left - 8, y.At(mark) + 4, NsText.Of(mark), "faint", "end");
        }

        foreach (double mark in s_marks.Where(m => NinesOf(m) <= mostNines))
        {
            svg.Line(X(mark), top, X(mark), bottom, "grid");
            svg.Text(X(mark), bottom + 18, string.Create(CultureInfo.InvariantCulture, $"{mark:0.###} %"), "faint",
                "middle");
        }

        for (int i = 0; i < curves.Count; i++)
            svg.Polyline(curves[i].Select(p => (X(p.Percent), y.At(p.Ns))), i);
        svg.Text(16, bottom + 42, $"Latency by percentile of the messages. {source}", "faint");
        return svg.ToText(bottom + 56);

        double X(double percent) => Left + (NinesOf(percent) / mostNines * (Width - Left - Right));
    }

    /// <summary>Returns 1 for 90 %, 2 for 99 %.</summary>
    private static double NinesOf(double percent) => Math.Log10(100 / (100 - percent));
}
