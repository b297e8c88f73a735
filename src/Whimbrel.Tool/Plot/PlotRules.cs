namespace Whimbrel.Tool.Plot;

/// <summary>Limits that all charts have.</summary>
internal static class PlotRules
{
    /// <exception cref="PlotException">There are more series than colours.</exception>
    internal static void CheckSeries(int count, string what, string cure)
    {
        if (count > Svg.MostSeries)
            throw new PlotException($"A chart has at most {Svg.MostSeries} {what}, and the files have {count}. {cure}");
    }
}
