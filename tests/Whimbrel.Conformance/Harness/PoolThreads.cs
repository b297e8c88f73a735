namespace Whimbrel.Conformance;

/// <summary>Until disposed, the pool has this many threads without delay: for tests that block them.</summary>
internal sealed class PoolThreads : IDisposable
{
    private readonly int _workers;
    private readonly int _ports;

    internal PoolThreads(int count)
    {
        ThreadPool.GetMinThreads(out _workers, out _ports);
        Assert.True(ThreadPool.SetMinThreads(Math.Max(_workers, count), _ports));
    }

    public void Dispose() => ThreadPool.SetMinThreads(_workers, _ports);
}
