namespace NetCoreServer;

/// <summary>Enters a lock for reading until it is disposed.</summary>
public class ReadLock : DisposableLock
{
    /// <summary>Enters the lock, and waits for it.</summary>
    /// <param name="locker">The lock.</param>
    public ReadLock(ReaderWriterLockSlim locker)
        : base(Exit(locker)) => locker.EnterReadLock();

    private static Action Exit(ReaderWriterLockSlim locker)
    {
        ArgumentNullException.ThrowIfNull(locker);
        return locker.ExitReadLock;
    }
}
