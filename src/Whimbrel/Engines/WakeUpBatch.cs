namespace Whimbrel;

/// <summary>
/// Scope of batched wake-ups, from <see cref="Session.BatchWakeUps"/> until it is disposed: sends and posts of this
/// thread wake a sleeping loop only after the work that the thread pool has already queued. The answers of many
/// callbacks on the pool then leave with one wake-up instead of one each. Only the wake-up is delayed, by the time that
/// the pool needs for its queue, and by about 60 ms at most if all its threads are blocked. Has no effect on threads
/// outside of the pool. For a thread that is about to return to the pool; not nested.
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

    /// <summary>True if the current thread batches wake-ups.</summary>
    internal static bool IsWanted => t_isWanted;

    /// <summary>True if the wake-up may also wait for work that is queued in the meantime.</summary>
    internal static bool MayLinger => t_mayLinger;

    /// <summary>Ends the scope: sends and posts wake the loop directly again.</summary>
    public void Dispose()
    {
        if (_isHere) t_isWanted = false;
    }
}
