namespace Whimbrel.Tool.Bench;

/// <summary>What is known of a cell while it runs.</summary>
/// <param name="Connections">Number of connections.</param>
/// <param name="Rate">Messages a second that are due; 0 for a closed loop.</param>
/// <param name="Done">Share of the time that has passed, 0 to 1.</param>
/// <param name="IsWarmUp">Whether nothing is measured yet.</param>
/// <param name="Answered">Number of answers in the window.</param>
/// <param name="Seconds">Seconds of the window so far.</param>
/// <param name="P50">Median so far in nanoseconds; 0 if unknown.</param>
/// <param name="P99">99th percentile so far.</param>
/// <param name="Max">Longest latency so far.</param>
/// <param name="Errors">Number of errors.</param>
internal readonly record struct CellProgress(int Connections, int Rate, double Done, bool IsWarmUp, long Answered,
    double Seconds, long P50, long P99, long Max, long Errors);
