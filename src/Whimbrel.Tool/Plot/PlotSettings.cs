namespace Whimbrel.Tool.Plot;

/// <summary>Kind of a chart.</summary>
internal enum PlotChart
{
    /// <summary>Latency by percentile, a line for each cell.</summary>
    Latency,

    /// <summary>CPU time of the server for each message.</summary>
    Cpu,

    /// <summary>Answers a second by connections, a line for each file and rate.</summary>
    Throughput,
}

/// <summary>Settings of <c>whimbrel plot</c>.</summary>
/// <param name="Files">Reports of whimbrel bench, or summaries of bench/readme.</param>
/// <param name="Output">Path of the SVG; "-" for stdout.</param>
internal sealed record PlotSettings(IReadOnlyList<string> Files, string Output)
{
    /// <summary>Null for what the files have.</summary>
    internal PlotChart? Chart { get; init; }

    internal string? Title { get; init; }

    /// <summary>Scenarios of a summary, in this order; empty for all.</summary>
    internal IReadOnlyList<string> Scenarios { get; init; } = [];

    /// <summary>Peers of a summary, in this order; empty for all.</summary>
    internal IReadOnlyList<string> Peers { get; init; } = [];
}
