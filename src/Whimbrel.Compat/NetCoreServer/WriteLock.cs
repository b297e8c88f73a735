namespace NetCoreServer;

/// <summary>Enters a lock for writing until it is disposed.</summary>
public class WriteLock : DisposableLock
{
    /// <summary>Enters the lock, and waits for it.</summary>
    /// <param name="locker">The lock.</param>
    public WriteLock(ReaderWriterLockSlim locker)
        : base(Exit(locker)) => locker.EnterWriteLock();

    private static Action Exit(ReaderWriterLockSlim locker)
    {
        ArgumentNullException.ThrowIfNull(locker);
        return locker.ExitWriteLock;
    }
}
