namespace Whimbrel.Http;

/// <summary>Progress of a response that was not sent at once.</summary>
internal sealed class SlowSend
{
    internal long SinceMs; // 0: no data is pending
    internal long SentThen;
    internal long SentLast;
    internal long SentLastMs;
}
