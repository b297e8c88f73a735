namespace Whimbrel.Diagnostics;

/// <summary>Lets one notice in a minute through for each thing that notices are about, and counts those that it leaves out. Any thread; not for hot paths.</summary>
internal sealed class NoticePaces
{
    /// <summary>Told apart; what comes above shares one place, so that texts of peers in it cannot make it grow.</summary>
    internal const int MostKeys = 64;

    private const int EveryMs = 60_000;
    private const string Others = "";

    private readonly Lock _gate = new();
    private readonly Dictionary<string, (long NextMs, long LeftOut)> _paces = [];

    /// <summary>True for the caller that may tell now.</summary>
    /// <param name="key">What it is about.</param>
    /// <param name="nowMs">Monotonic.</param>
    /// <param name="leftOut">How many were not told since the last one about this.</param>
    internal bool TryTake(string key, long nowMs, out long leftOut)
    {
        // tidy: allowed because something has gone wrong already when a notice is due
        lock (_gate)
        {
            if (!_paces.ContainsKey(key) && _paces.Count >= MostKeys && !ForgetOld(nowMs)) key = Others;
            (long nextMs, leftOut) = _paces.GetValueOrDefault(key, (long.MinValue, 0));
            if (nowMs < nextMs)
            {
                _paces[key] = (nextMs, leftOut + 1);
                return false;
            }

            _paces[key] = (nowMs + EveryMs, 0);
            return true;
        }
    }

    /// <summary>Drops what nobody was told of for more than a minute. False when that was nothing.</summary>
    private bool ForgetOld(long nowMs)
    {
        int before = _paces.Count;
        foreach ((string key, (long nextMs, long leftOut)) in _paces)
        {
            if (nextMs <= nowMs && leftOut == 0) _paces.Remove(key);
        }

        return _paces.Count < before;
    }

    /// <summary>For the end of a message.</summary>
    internal static string LeftOutText(long leftOut) => leftOut == 0 ? "" : $" ({leftOut} more since the last notice of this.)";
}
