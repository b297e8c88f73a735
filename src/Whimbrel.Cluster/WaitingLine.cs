using System.Diagnostics.CodeAnalysis;

namespace Whimbrel.Clusters;

/// <summary>A queue of envelopes that can take back dequeued ones. Under the outbox's gate.</summary>
internal sealed class WaitingLine
{
    private readonly Stack<Outgoing> _given = []; // dequeued before the queue, the oldest on top
    private readonly Queue<Outgoing> _queue = [];

    internal bool Any(Func<Outgoing, bool> isIt) => _given.Any(isIt) || _queue.Any(isIt);

    internal void Add(Outgoing item) => _queue.Enqueue(item);

    /// <summary>Takes back an envelope. Several are given back newest first.</summary>
    internal void GiveBack(Outgoing item) => _given.Push(item);

    internal bool TryPeek([NotNullWhen(true)] out Outgoing? oldest) =>
        _given.TryPeek(out oldest) || _queue.TryPeek(out oldest);

    internal bool TryTake([NotNullWhen(true)] out Outgoing? oldest) =>
        _given.TryPop(out oldest) || _queue.TryDequeue(out oldest);
}
