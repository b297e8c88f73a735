namespace Whimbrel.Conformance;

/// <summary>Blocks all pool threads, with more work items queued than it will get threads for: items queued now do not
/// run until this is disposed.</summary>
public sealed class BusyPool : IDisposable
{
    private const int Items = 2_000;

    private readonly ManualResetEvent _over = new(false);
    private int _left = Items;

    public BusyPool()
    {
        for (int i = 0; i < Items; i++) ThreadPool.UnsafeQueueUserWorkItem(static x => ((BusyPool)x!).Block(), this);
    }

    /// <summary>Not all items had a thread: items queued after them have not run.</summary>
    public bool IsBusy => ThreadPool.PendingWorkItemCount > 0 && Volatile.Read(ref _left) == Items;

    private void Block()
    {
        _over.WaitOne();
        Interlocked.Decrement(ref _left);
    }

    public void Dispose()
    {
        _over.Set();
        SpinWait.SpinUntil(() => Volatile.Read(ref _left) == 0);
        _over.Dispose();
    }
}
