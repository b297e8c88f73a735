namespace Whimbrel.Http;

/// <summary>How a peer takes an answer that did not leave at once.</summary>
internal sealed class SlowSend
{
    internal long SinceMs; // 0: nothing waits
    internal long SentThen;
    internal long SentLast;
    internal long SentLastMs;
}
