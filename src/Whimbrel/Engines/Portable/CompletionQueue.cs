using System.Diagnostics.CodeAnalysis;

namespace Whimbrel.Engines.Portable;

/// <summary>
/// Where completions of other threads meet the loop, and what the loop sleeps on. A stack of the operations themselves:
/// any thread pushes, the loop takes all at once. Wakes the loop at most once for what it takes at once.
/// </summary>
/// <remarks>
/// No wake is lost: a producer publishes (the exchange is a full fence) and then looks at <see cref="_sleeping"/>; the
/// loop sets the flag (a full fence) and then looks for operations. One of the two sees the other. Only the push onto an
/// empty stack need look, because the loop never sleeps above one that is not empty.
/// </remarks>
[SuppressMessage("Design", "CA1001", Justification = "A thread that pushed the last operation may still be on its way to Set when the loop has ended: the collector frees the event.")]
internal sealed class CompletionQueue
{
    /// <summary>
    /// Offers of the processor to the threads that complete operations, before the loop sleeps: they bring several at a
    /// time then, instead of one wake for each. With 20 connections and 32,000 bytes this took the server from 22 to 8 us
    /// an echo. It is paid before each sleep, also when nobody else wants to run.
    /// </summary>
    private const int YieldsBeforeSleep = 8;

    private readonly AutoResetEvent _wake = new(false);
    private PortableOperation? _newest;
    private int _sleeping;

    internal bool IsEmpty => Volatile.Read(ref _newest) is null;

    /// <summary>Any thread.</summary>
    internal void Push(PortableOperation operation)
    {
        PortableOperation? newest = Volatile.Read(ref _newest);
        while (true)
        {
            operation.Next = newest;
            PortableOperation? seen = Interlocked.CompareExchange(ref _newest, operation, newest);
            if (ReferenceEquals(seen, newest)) break;
            newest = seen;
        }

        if (newest is null && Volatile.Read(ref _sleeping) == 1 && Interlocked.Exchange(ref _sleeping, 0) == 1) _wake.Set();
    }

    /// <summary>Ends a sleep, or prevents the next one. Any thread.</summary>
    internal void Wake() => _wake.Set();

    /// <summary>Blocks until something is pushed, <see cref="Wake"/> is called or the time is over. The loop's thread.</summary>
    internal void Sleep(int timeoutMs)
    {
        for (int i = 0; i < YieldsBeforeSleep && IsEmpty; i++) Thread.Yield();
        Interlocked.Exchange(ref _sleeping, 1);
        if (IsEmpty) _wake.WaitOne(timeoutMs);
        Volatile.Write(ref _sleeping, 0);
    }

    /// <summary>All that was pushed, newest first. The loop's thread.</summary>
    internal PortableOperation? TakeAll() => IsEmpty ? null : Interlocked.Exchange(ref _newest, null);
}
