using System.Runtime.CompilerServices;

namespace Whimbrel.Allocations;

// Echoes and awaits SentAsync as async code does, but without the state machine that such code allocates. Counts what
// its own thread allocates for that, on the loop or on the pool.
internal sealed class MarkingSender
{
    // The next message may arrive before the previous one was reported as sent.
    private readonly Queue<ValueTask<bool>> _leaving = new(64);
    private readonly Action _goOn;

    internal MarkingSender() => _goOn = GoOn;

    // Number of sent messages, and of those that were awaited asynchronously.
    internal int Sent { get; private set; }

    internal int Waits { get; private set; }

    internal List<long> AllocatedBytes { get; } = new(10_000);

    internal int Begin(ScriptedSession session, ReadOnlySpan<byte> unread)
    {
        long before = GC.GetAllocatedBytesForCurrentThread();
        session.Send(unread);
        ValueTask<bool> leaving = session.SentAsync();
        ValueTaskAwaiter<bool> awaiter = leaving.GetAwaiter();
        if (awaiter.IsCompleted)
        {
            Sent += awaiter.GetResult() ? 1 : 0;
        }
        else
        {
            Waits++;
            _leaving.Enqueue(leaving);
            awaiter.UnsafeOnCompleted(_goOn);
        }

        AllocatedBytes.Add(GC.GetAllocatedBytesForCurrentThread() - before);
        return unread.Length;
    }

    private void GoOn()
    {
        long before = GC.GetAllocatedBytesForCurrentThread();
        Sent += _leaving.Dequeue().GetAwaiter().GetResult() ? 1 : 0;
        AllocatedBytes.Add(GC.GetAllocatedBytesForCurrentThread() - before);
    }
}
