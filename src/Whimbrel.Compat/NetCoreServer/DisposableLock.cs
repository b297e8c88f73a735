namespace NetCoreServer;

/// <summary>Leaves a lock when it is disposed, once.</summary>
public class DisposableLock : IDisposable
{
    private Action? _exitLock;

    /// <summary>Makes one for a lock that was entered.</summary>
    /// <param name="exitLock">Leaves it.</param>
    public DisposableLock(Action exitLock)
    {
        ArgumentNullException.ThrowIfNull(exitLock);
        _exitLock = exitLock;
    }

    /// <summary>Leaves the lock. A second time does nothing.</summary>
    public void Dispose()
    {
        Interlocked.Exchange(ref _exitLock, null)?.Invoke();
        GC.SuppressFinalize(this);
    }
}
