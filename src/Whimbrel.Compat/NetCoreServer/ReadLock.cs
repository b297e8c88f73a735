namespace NetCoreServer;

/// <summary>Holds a lock for reading until it is disposed.</summary>
public class ReadLock : DisposableLock
{
    /// <summary>Enters the lock, and waits if necessary.</summary>
    /// <param name="locker">Lock to enter.</param>
    public ReadLock(ReaderWriterLockSlim locker)
        : base(Exit(locker)) => locker.EnterReadLock();

    private static Action Exit(ReaderWriterLockSlim locker)
    {
        ArgumentNullException.ThrowIfNull(locker);
        return locker.ExitReadLock;
    }
}
