namespace Whimbrel.Tool.Plot;

/// <summary>One measurement that is plotted: a cell of a report, or a row of a summary.</summary>
/// <param name="Group">Name of a row: the scenario, or connections and rate.</param>
/// <param name="Series">Name of a colour: the peer, or the file.</param>
internal sealed record PlotCell(string Group, string Series)
{
    internal int Connections { get; init; }

    /// <summary>Messages a second that were due; 0 for a closed loop.</summary>
    internal int Rate { get; init; }

    internal double? PerSecond { get; init; }

    /// <summary>CPU time of the server for each message: median, low and high in nanoseconds.</summary>
    internal (double Median, double Low, double High)? ServerNs { get; init; }

    /// <summary>Percentile and nanoseconds.</summary>
    internal IReadOnlyList<(double Percent, double Ns)> Curve { get; init; } = [];
}

/// <summary>What one file has.</summary>
/// <param name="Cells">Its measurements.</param>
/// <param name="Source">Date, commit and machine, in a line.</param>
/// <param name="IsSummary">Whether it is a summary of bench/readme and not a report.</param>
internal sealed record PlotFile(IReadOnlyList<PlotCell> Cells, string Source, bool IsSummary);
