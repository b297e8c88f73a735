using Whimbrel.Diagnostics;

namespace Whimbrel;

/// <summary>Treatment of answers without a waiting call.</summary>
public enum StrayAnswers
{
    /// <summary>They are counted.</summary>
    Ignore,

    /// <summary>
    /// An id that was never sent on this connection resets it; late and duplicate answers are counted.
    /// </summary>
    ResetOnUnknown,

    /// <summary>
    /// Each of them resets the connection, also a late answer: for calls without timeout and cancellation.
    /// </summary>
    ResetOnAny,
}

/// <summary>Limits of a <see cref="CallClient"/>. Plain data, checked by the client.</summary>
public sealed class CallOptions
{
    /// <summary>
    /// Default timeout of a call, from the call to its answer. 1 ms to 1 day, or
    /// <see cref="System.Threading.Timeout.InfiniteTimeSpan"/>. Default 30 s.
    /// </summary>
    public TimeSpan Timeout { get; init; } = TimeSpan.FromSeconds(30);

    /// <summary>
    /// Maximum number of calls that were sent and not answered. 1 to half of the ids of the format, at most 65,536;
    /// default 1,024.
    /// </summary>
    public int InFlightLimit { get; init; } = 1024;

    /// <summary>
    /// Maximum number of request bytes of these calls. A single larger one is sent when no other call is in flight. 1
    /// byte to 1 GiB; default 512 KiB.
    /// </summary>
    public int InFlightLimitBytes { get; init; } = 512 * 1024;

    /// <summary>
    /// Maximum number of calls that wait in FIFO order: for space in flight, and for a connection that is being opened.
    /// A further one is rejected with <see cref="CallFailure.Full"/>. 0: no call waits. Up to 1,048,576; default 1,024.
    /// </summary>
    public int WaitingLimit { get; init; } = 1024;

    /// <summary>Treatment of answers without a waiting call. Default: they are counted.</summary>
    public StrayAnswers StrayAnswers { get; init; }

    internal void Check(CallFormat format)
    {
        TimeSpan least = TimeSpan.FromMilliseconds(1);
        if (Timeout != System.Threading.Timeout.InfiniteTimeSpan && (Timeout < least || Timeout > TimeSpan.FromDays(1)))
            Throw.OutOfRange(nameof(Timeout), Timeout, "1 ms to a day, or infinite");
        int mostCalls = (int)Math.Min(65_536, 1ul << (format.IdBits - 1));
        if (InFlightLimit < 1 || InFlightLimit > mostCalls)
            Throw.OutOfRange(nameof(InFlightLimit), InFlightLimit, $"between 1 and {mostCalls}");
        if (InFlightLimitBytes is < 1 or > 1 << 30)
            Throw.OutOfRange(nameof(InFlightLimitBytes), InFlightLimitBytes, "between 1 byte and 1 GiB");
        if (WaitingLimit is < 0 or > 1 << 20)
            Throw.OutOfRange(nameof(WaitingLimit), WaitingLimit, "between 0 and 1,048,576");
        if (!Enum.IsDefined(StrayAnswers)) Throw.OutOfRange(nameof(StrayAnswers), StrayAnswers, "one of its names");
    }
}
