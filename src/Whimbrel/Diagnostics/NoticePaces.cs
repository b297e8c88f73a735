namespace Whimbrel.Diagnostics;

/// <summary>
/// Allows one diagnostic event per minute for each key, and counts the suppressed ones. Any thread; not for hot paths.
/// </summary>
internal sealed class NoticePaces
{
    /// <summary>
    /// Maximum number of separate keys; further ones share one entry, so that texts of peers cannot make the table
    /// grow.
    /// </summary>
    internal const int MostKeys = 64;

    private const int EveryMs = 60_000;
    private const string Others = "";

    private readonly Lock _gate = new();
    private readonly Dictionary<string, (long NextMs, long LeftOut)> _paces = [];

    /// <summary>Returns true if the caller may report a diagnostic event now.</summary>
    /// <param name="key">Subject of the diagnostic event.</param>
    /// <param name="nowMs">Monotonic time in milliseconds.</param>
    /// <param name="leftOut">Number of diagnostic events suppressed since the last one with this key.</param>
    internal bool TryTake(string key, long nowMs, out long leftOut)
    {
        // tidy: allowed because something has gone wrong already when a diagnostic event is due
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

    /// <summary>
    /// Removes keys without diagnostic events for more than a minute. Returns false if there were none.
    /// </summary>
    private bool ForgetOld(long nowMs)
    {
        int before = _paces.Count;
        foreach ((string key, (long nextMs, long leftOut)) in _paces)
        {
            if (nextMs <= nowMs && leftOut == 0) _paces.Remove(key);
        }

        return _paces.Count < before;
    }

    /// <summary>Returns the end of a message with the number of suppressed diagnostic events.</summary>
    internal static string LeftOutText(long leftOut) =>
        leftOut == 0 ? "" : $" ({leftOut} more since the last notice of this.)";
}
