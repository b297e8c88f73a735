namespace Whimbrel.Tool.Bench;

/// <summary>Result of one cell: a number of connections at one rate.</summary>
/// <param name="Connections">Number of connections.</param>
/// <param name="Rate">Messages a second that were due; 0 for a closed loop.</param>
/// <param name="Seconds">Length of the measured window.</param>
/// <param name="Figures">Counts and times.</param>
/// <param name="Driver">State of the driver during the cell.</param>
internal sealed record CellResult(int Connections, int Rate, double Seconds, LoadFigures Figures, DriverFigures Driver)
{
    /// <summary>CPU time of the server for each answer in nanoseconds; null if unknown.</summary>
    internal double? ServerNs { get; init; }

    internal bool IsInterrupted { get; init; }

    /// <summary>Whether latencies and rates are left out, because the driver was the limit.</summary>
    internal bool IsRefused { get; init; }

    internal double PerSecond => Seconds > 0 ? Figures.AnsweredInTime / Seconds : 0;
}
