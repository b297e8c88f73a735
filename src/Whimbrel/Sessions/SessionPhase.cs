using Whimbrel.Diagnostics;

namespace Whimbrel;

/// <summary>
/// A stretch of a session's work that may take so long: the head of a request, its body, the wait for the next one. Made once and used by any
/// number of sessions (<c>Session.BeginPhase</c>); never changes.
/// </summary>
public sealed class SessionPhase
{
    /// <summary>Checks the numbers.</summary>
    /// <param name="name">What it is, for the reason of the end: "the request head".</param>
    /// <param name="limit">The longest time. 10 ms up to 7 days. With a rate: the time that the peer has beyond what its bytes earn.</param>
    /// <param name="leastBytesPerSecond">
    /// 0 (the default): the limit stands. Above: each byte that the peer sends in the phase prolongs it by its part of a second, so that an honest peer may send as
    /// much as it likes, and one that drips is cut off. Time in which the connection is not read does not count against the peer.
    /// </param>
    /// <exception cref="ArgumentOutOfRangeException">A number is outside of its range.</exception>
    public SessionPhase(string name, TimeSpan limit, int leastBytesPerSecond = 0)
    {
        ArgumentException.ThrowIfNullOrEmpty(name);
        if (limit < TimeSpan.FromMilliseconds(10) || limit > TimeSpan.FromDays(7)) Throw.OutOfRange(nameof(limit), limit, "10 ms up to 7 days");
        ArgumentOutOfRangeException.ThrowIfNegative(leastBytesPerSecond);
        Name = name;
        Limit = limit;
        LeastBytesPerSecond = leastBytesPerSecond;
        LimitMs = Loop.WholeMs(limit);
    }

    /// <summary>What it is.</summary>
    public string Name { get; }

    /// <summary>The longest time.</summary>
    public TimeSpan Limit { get; }

    /// <summary>What the peer must send at least, on average, when the limit is used up; 0 is nothing.</summary>
    public int LeastBytesPerSecond { get; }

    internal long LimitMs { get; }

    /// <summary>The reason of an end, one sentence.</summary>
    internal string TimeoutText => LeastBytesPerSecond == 0
        ? $"{Name} took longer than {Limit.TotalSeconds:0.###} s"
        : $"{Name} came with less than {LeastBytesPerSecond} bytes per second, and {Limit.TotalSeconds:0.###} s beyond that were used up";

    /// <summary>Its name and limit.</summary>
    public override string ToString() => $"{Name} ({Limit})";
}
