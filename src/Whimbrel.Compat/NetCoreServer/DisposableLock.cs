namespace NetCoreServer;

/// <summary>Leaves a lock once, when disposed.</summary>
public class DisposableLock : IDisposable
{
    private Action? _exitLock;

    /// <summary>Creates an object for a lock that was entered.</summary>
    /// <param name="exitLock">Leaves the lock.</param>
    public DisposableLock(Action exitLock)
    {
        ArgumentNullException.ThrowIfNull(exitLock);
        _exitLock = exitLock;
    }

    /// <summary>Leaves the lock. Further calls do nothing.</summary>
    public void Dispose()
    {
        Interlocked.Exchange(ref _exitLock, null)?.Invoke();
        GC.SuppressFinalize(this);
    }
}
