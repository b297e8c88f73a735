using Whimbrel.Engines;

namespace Whimbrel.Connections;

/// <summary>A broadcast that somebody awaits: completes when every loop has drained it, with the counts.</summary>
internal sealed class BroadcastOperation(Engine engine, Session? except, Func<Session, bool>? predicate) : Completion<BroadcastResult>(engine)
{
    // One for the caller that is still posting, so that it cannot complete in between.
    private int _loopsLeft = 1;
    private int _queued;
    private int _skipped;

    internal Session? Except { get; } = except;

    internal Func<Session, bool>? Predicate { get; } = predicate;

    internal void Expect() => Interlocked.Increment(ref _loopsLeft);

    internal void Count(BroadcastResult result)
    {
        Interlocked.Add(ref _queued, result.Queued);
        Interlocked.Add(ref _skipped, result.Skipped);
        if (Interlocked.Decrement(ref _loopsLeft) == 0) SetResult(new BroadcastResult(_queued, _skipped));
    }
}
