namespace Whimbrel.Tool;

/// <summary>Token bucket: a burst, then a rate. Time is an argument, in monotonic milliseconds.</summary>
internal sealed class TokenBucket(int perSecond, int burst)
{
    private long _lastMs = long.MinValue;
    private double _tokens = burst;

    internal bool TryTake(long nowMs)
    {
        if (_lastMs != long.MinValue) _tokens = Math.Min(burst, _tokens + (nowMs - _lastMs) * perSecond / 1000.0);
        _lastMs = nowMs;
        if (_tokens < 1) return false;
        _tokens--;
        return true;
    }

    /// <summary>Time of the next token, after a rejection.</summary>
    internal TimeSpan UntilNext => TimeSpan.FromMilliseconds(Math.Ceiling((1 - _tokens) * 1000 / perSecond));
}
