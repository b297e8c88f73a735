using Whimbrel.Diagnostics;

namespace Whimbrel;

/// <summary>
/// A part of a session's work with a time limit: the head of a request, its body, the wait for the next request.
/// Created once and used by any number of sessions (<c>Session.BeginPhase</c>); immutable.
/// </summary>
public sealed class SessionPhase
{
    /// <summary>Creates a phase.</summary>
    /// <param name="name">Name for the reason of the end, such as "the request head".</param>
    /// <param name="limit">Maximum time, 10 ms to 7 days. With a rate: additional time beyond what the received bytes
    /// allow.</param>
    /// <param name="leastBytesPerSecond">Minimum rate of the peer. Default 0: the limit is fixed. Above 0, each byte
    /// received in the phase extends it by 1/rate seconds, so a peer may send any amount at this rate, and slower peers
    /// are cut off. Time in which the connection is not read does not count.</param>
    /// <exception cref="ArgumentOutOfRangeException">A number is outside of its range.</exception>
    public SessionPhase(string name, TimeSpan limit, int leastBytesPerSecond = 0)
    {
        ArgumentException.ThrowIfNullOrEmpty(name);
        if (limit < TimeSpan.FromMilliseconds(10) || limit > TimeSpan.FromDays(7))
            Throw.OutOfRange(nameof(limit), limit, "10 ms up to 7 days");
        ArgumentOutOfRangeException.ThrowIfNegative(leastBytesPerSecond);
        Name = name;
        Limit = limit;
        LeastBytesPerSecond = leastBytesPerSecond;
        LimitMs = Loop.WholeMs(limit);
    }

    /// <summary>Name of the phase.</summary>
    public string Name { get; }

    /// <summary>Maximum time.</summary>
    public TimeSpan Limit { get; }

    /// <summary>Minimum average rate of the peer in bytes per second; 0 for none.</summary>
    public int LeastBytesPerSecond { get; }

    internal long LimitMs { get; }

    /// <summary>Reason of the end, as one sentence.</summary>
    internal string TimeoutText => LeastBytesPerSecond == 0
        ? $"{Name} took longer than {Limit.TotalSeconds:0.###} s"
        : $"{Name} came with less than {LeastBytesPerSecond} bytes per second, and {Limit.TotalSeconds:0.###} s beyond "
            + $"that were used up";

    /// <summary>Returns name and limit.</summary>
    public override string ToString() => $"{Name} ({Limit})";
}
