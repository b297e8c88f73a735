namespace Whimbrel.Engines;

/// <summary>
/// Until it is disposed, what a thread of the pool posts wakes sleeping loops by way of the pool, behind the callbacks that are queued there already: one
/// wake for what all of them post. On other threads, and when it is the default, it does nothing. Never nested.
/// </summary>
internal readonly ref struct PoolWakes : IDisposable
{
    [ThreadStatic]
    private static bool t_isWanted;

    private readonly bool _isHere;

    internal PoolWakes(Engine engine)
    {
        if (engine.IsOnPool) t_isWanted = _isHere = true;
    }

    /// <summary>Of this thread, now.</summary>
    internal static bool IsWanted => t_isWanted;

    public void Dispose()
    {
        if (_isHere) t_isWanted = false;
    }
}
