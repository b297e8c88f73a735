namespace Whimbrel.Tool;

/// <summary>So many at once, then so many a second. Time is an argument, in milliseconds that only go forward.</summary>
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

    /// <summary>After a refusal: when the next one will be there.</summary>
    internal TimeSpan UntilNext => TimeSpan.FromMilliseconds(Math.Ceiling((1 - _tokens) * 1000 / perSecond));
}
