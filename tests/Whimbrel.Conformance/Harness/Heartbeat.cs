using System.Diagnostics;

namespace Whimbrel.Conformance;

/// <summary>
/// Counts how often this process gets the processor: a thread that sleeps 10 ms again and again, and a work item that
/// the thread pool runs after each sleep. An exchange that stands still while both advance is not explained by a busy
/// machine.
/// </summary>
internal sealed class Heartbeat : IDisposable
{
    private const int PeriodMs = 10;

    private readonly Thread _thread;
    private volatile bool _isOver;
    private long _ofThread;
    private long _ofPool;
    private long _longestMs;
    private int _isQueued;

    internal Heartbeat()
    {
        _thread = new Thread(Run) { IsBackground = true, Name = "heartbeat" };
        _thread.Start();
    }

    /// <summary>Number of sleeps that have ended.</summary>
    internal long OfThread => Volatile.Read(ref _ofThread);

    /// <summary>Number of work items that the pool has run.</summary>
    internal long OfPool => Volatile.Read(ref _ofPool);

    /// <summary>The longest time between two beats of the thread.</summary>
    internal long LongestMs => Volatile.Read(ref _longestMs);

    public void Dispose()
    {
        _isOver = true;
        _thread.Join();
    }

    private void Run()
    {
        long last = Stopwatch.GetTimestamp();
        while (!_isOver)
        {
            // tidy: waits because the beat is a measure of time
            Thread.Sleep(PeriodMs);
            long now = Stopwatch.GetTimestamp();
            _longestMs = Math.Max(_longestMs, (long)Stopwatch.GetElapsedTime(last, now).TotalMilliseconds);
            last = now;
            Volatile.Write(ref _ofThread, _ofThread + 1);
            if (Interlocked.Exchange(ref _isQueued, 1) == 1) continue;
            ThreadPool.UnsafeQueueUserWorkItem(
                static beat =>
                {
                    Interlocked.Increment(ref beat._ofPool);
                    Volatile.Write(ref beat._isQueued, 0);
                },
                this,
                preferLocal: false);
        }
    }
}
