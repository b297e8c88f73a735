using HdrHistogram;

namespace Whimbrel.Tool.Bench;

/// <summary>
/// What one loop has measured in the window. A message belongs to the window in which it was due. The loop's thread;
/// merged at the end.
/// </summary>
internal sealed class LoadFigures
{
    /// <summary>Longest time; a longer one is recorded as this one. HdrHistogram 2.5.0 returns wrong values above 2^41
    /// nanoseconds (37 minutes), because the width of a bucket overflows 32 bits there.</summary>
    internal const long MostNs = 1800 * Clock.NsInSecond;

    /// <summary>Lateness from which a message counts as late.</summary>
    internal const long LateNs = Clock.NsInMs;

    private const int Digits = 3;

    /// <summary>From the moment at which a message was due to its answer.</summary>
    internal LongHistogram Latency { get; } = new(1, MostNs, Digits);

    /// <summary>From the moment at which a message was sent to its answer: not corrected.</summary>
    internal LongHistogram Service { get; } = new(1, MostNs, Digits);

    /// <summary>From the moment at which a message could have been sent to the moment at which it was.</summary>
    internal LongHistogram Lateness { get; } = new(1, MostNs, Digits);

    internal ErrorCounts Errors { get; private init; } = new();

    /// <summary>Number of messages that were due in the window.</summary>
    internal long Due { get; set; }

    /// <summary>Of these, sent.</summary>
    internal long Sent { get; set; }

    /// <summary>Of these, answered.</summary>
    internal long Answered { get; set; }

    /// <summary>Of these, without an answer when the wait for answers ended. Counted with their age.</summary>
    internal long Unanswered { get; set; }

    /// <summary>Of these, sent and lost: their connection ended, or no datagram came back in time.</summary>
    internal long Lost { get; set; }

    /// <summary>Of these, sent late by the driver.</summary>
    internal long Late { get; set; }

    /// <summary>Answers that arrived in the window, whenever their messages were due.</summary>
    internal long AnsweredInTime { get; set; }

    /// <summary>Datagrams that came back twice, or after they were counted as lost.</summary>
    internal long Repeated { get; set; }

    /// <summary>Connections that were opened again.</summary>
    internal long Reconnects { get; set; }

    internal static void Record(LongHistogram histogram, long ns) => histogram.RecordValue(Math.Clamp(ns, 1, MostNs));

    internal void Add(LoadFigures other)
    {
        Latency.Add(other.Latency);
        Service.Add(other.Service);
        Lateness.Add(other.Lateness);
        Errors.Add(other.Errors);
        Due += other.Due;
        Sent += other.Sent;
        Answered += other.Answered;
        Unanswered += other.Unanswered;
        Lost += other.Lost;
        Late += other.Late;
        AnsweredInTime += other.AnsweredInTime;
        Repeated += other.Repeated;
        Reconnects += other.Reconnects;
    }
}
