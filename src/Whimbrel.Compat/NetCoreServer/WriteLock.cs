namespace NetCoreServer;

/// <summary>Holds a lock for writing until it is disposed.</summary>
public class WriteLock : DisposableLock
{
    /// <summary>Enters the lock, and waits if necessary.</summary>
    /// <param name="locker">Lock to enter.</param>
    public WriteLock(ReaderWriterLockSlim locker)
        : base(Exit(locker)) => locker.EnterWriteLock();

    private static Action Exit(ReaderWriterLockSlim locker)
    {
        ArgumentNullException.ThrowIfNull(locker);
        return locker.ExitWriteLock;
    }
}
