using Whimbrel.Diagnostics;

namespace Whimbrel;

/// <summary>What is done about answers that no call waits for.</summary>
public enum StrayAnswers
{
    /// <summary>They are counted.</summary>
    Ignore,

    /// <summary>An id that was never given on this connection resets it; late and second answers are counted.</summary>
    ResetOnUnknown,

    /// <summary>Any resets the connection. A late answer is one, too: for calls that do not time out and are not cancelled.</summary>
    ResetOnAny,
}

/// <summary>Limits of a <see cref="CallClient"/>. Plain data, checked by the client.</summary>
public sealed class CallOptions
{
    /// <summary>Time that a call has, from the call to its answer, unless it says otherwise. 1 ms to a day, or <see cref="System.Threading.Timeout.InfiniteTimeSpan"/>. Default 30 s.</summary>
    public TimeSpan Timeout { get; init; } = TimeSpan.FromSeconds(30);

    /// <summary>Most calls that have been sent and not answered. 1 up to half of the ids that the format has, at most 65,536; default 1,024.</summary>
    public int InFlightLimit { get; init; } = 1024;

    /// <summary>Most bytes of requests of these calls. A single larger one goes when nothing else is in flight. 1 byte to 1 GiB; default 512 KiB.</summary>
    public int InFlightLimitBytes { get; init; } = 512 * 1024;

    /// <summary>
    /// Most calls that wait, first come first served: for room in flight, and for a connection while one is dialled. One more is refused with
    /// <see cref="CallFailure.Full"/>. 0: none waits. Up to 1,048,576; default 1,024.
    /// </summary>
    public int WaitingLimit { get; init; } = 1024;

    /// <summary>What is done about answers that no call waits for. Default: they are counted.</summary>
    public StrayAnswers StrayAnswers { get; init; }

    internal void Check(CallFormat format)
    {
        TimeSpan least = TimeSpan.FromMilliseconds(1);
        if (Timeout != System.Threading.Timeout.InfiniteTimeSpan && (Timeout < least || Timeout > TimeSpan.FromDays(1))) Throw.OutOfRange(nameof(Timeout), Timeout, "1 ms to a day, or infinite");
        int mostCalls = (int)Math.Min(65_536, 1ul << (format.IdBits - 1));
        if (InFlightLimit < 1 || InFlightLimit > mostCalls) Throw.OutOfRange(nameof(InFlightLimit), InFlightLimit, $"between 1 and {mostCalls}");
        if (InFlightLimitBytes is < 1 or > 1 << 30) Throw.OutOfRange(nameof(InFlightLimitBytes), InFlightLimitBytes, "between 1 byte and 1 GiB");
        if (WaitingLimit is < 0 or > 1 << 20) Throw.OutOfRange(nameof(WaitingLimit), WaitingLimit, "between 0 and 1,048,576");
        if (!Enum.IsDefined(StrayAnswers)) Throw.OutOfRange(nameof(StrayAnswers), StrayAnswers, "one of its names");
    }
}
