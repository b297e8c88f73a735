namespace Whimbrel;

/// <summary>
/// From <see cref="Session.BatchWakeUps"/> until it is disposed: what this thread sends and posts wakes a sleeping loop behind what the thread pool has queued already,
/// so that the answers of many callbacks on the pool leave with one wake instead of one each. Only the wake comes later, by the time that the pool takes for its
/// queue, and by some 60 ms at most when all its threads are blocked. On a thread that is not the pool's it changes nothing. For a thread that is about to go back to
/// the pool; not nested.
/// </summary>
public readonly ref struct WakeUpBatch : IDisposable
{
    [ThreadStatic]
    private static bool t_isWanted;

    [ThreadStatic]
    private static bool t_mayLinger;

    private readonly bool _isHere;

    internal WakeUpBatch(Engine engine, bool mayLinger = false)
    {
        if (!engine.IsOnPool) return;
        t_isWanted = _isHere = true;
        t_mayLinger = mayLinger;
    }

    /// <summary>Of this thread, now.</summary>
    internal static bool IsWanted => t_isWanted;

    /// <summary>The wake may go behind what is queued meanwhile, too.</summary>
    internal static bool MayLinger => t_mayLinger;

    /// <summary>From here on each wakes the loop by itself again.</summary>
    public void Dispose()
    {
        if (_isHere) t_isWanted = false;
    }
}
