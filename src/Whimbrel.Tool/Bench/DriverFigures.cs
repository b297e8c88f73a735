using System.Globalization;

namespace Whimbrel.Tool.Bench;

/// <summary>How well the driver kept its schedule in one cell, and whether it was the limit.</summary>
/// <param name="Cpu">Share of a cpu that the busiest loop used, 0 to 1.</param>
/// <param name="Queued">Share of the time that this loop waited for a cpu.</param>
/// <param name="LateShare">Share of the messages that left more than <see cref="LoadFigures.LateNs"/> after they could
/// have left.</param>
/// <param name="AwayShare">Share of the time in which the driver did not run.</param>
internal sealed record DriverFigures(double Cpu, double Queued, double LateShare, double AwayShare)
{
    /// <summary>From this share on, a loop that computes or waits for a cpu is the limit.</summary>
    internal const double BusyLimit = 0.9;

    /// <summary>Largest share of late messages.</summary>
    internal const double LateLimit = 0.01;

    /// <summary>Largest share of time away.</summary>
    internal const double AwayLimit = 0.01;

    // A loop that is idle for more than half of the time is late because the machine wakes it late.
    private const double IdleLimit = 0.5;
    private const string QuietCure = "Measure on a quiet machine.";

    /// <summary>Returns the words for the report: <c>cpu</c>, <c>late</c>, <c>away</c>; empty if the driver was no
    /// limit.</summary>
    internal IReadOnlyList<string> Limits =>
    [
        .. Cpu + Queued >= BusyLimit ? (string[])["cpu"] : [],
        .. LateShare > LateLimit ? (string[])["late"] : [],
        .. AwayShare > AwayLimit ? (string[])["away"] : [],
    ];

    /// <summary>Returns what happened and what helps, in a sentence or two for each limit.</summary>
    internal IEnumerable<string> Explain(int loops, int cpus)
    {
        string cure = Cure(loops, cpus);
        foreach (string limit in Limits)
        {
            yield return limit switch
            {
                "cpu" => string.Create(CultureInfo.InvariantCulture,
                    $"a loop of the driver used {Cpu:0 %} of a cpu and waited {Queued:0 %} of the time for one (the "
                    + $"limit is {BusyLimit:0 %} together). {cure}"),
                "late" => string.Create(CultureInfo.InvariantCulture,
                    $"{LateShare:0.0 %} of the messages left more than 1 ms late (at most {LateLimit:0 %} may). "
                    + $"{(Cpu + Queued < IdleLimit ? QuietCure : cure)}"),
                _ => string.Create(CultureInfo.InvariantCulture,
                    $"the driver did not run for {AwayShare:0.0 %} of the time (at most {AwayLimit:0 %} may): the "
                    + $"machine was busy with something else, or paused. {QuietCure}"),
            };
        }
    }

    private static string Cure(int loops, int cpus) => loops < cpus
        ? $"Use --loops {loops + 1}, a lower --rate, or another machine for the driver."
        : "Use a lower --rate, fewer connections, or another machine for the driver.";
}
