namespace Whimbrel;

/// <summary>A call into user code that had not returned when the deadline of a stop passed.</summary>
/// <param name="What">Which one: callback, class and session, as "OnReceived of ChatSession (session 7f3a)"; or the handler of a stream, or what else ran.</param>
/// <param name="LoopIndex">The loop that it blocks, from 0; null when it blocks none: it runs on the thread pool, or waits for something.</param>
public readonly record struct UnfinishedCall(string What, int? LoopIndex)
{
    /// <summary>What, and where, as in messages.</summary>
    public override string ToString() => LoopIndex is { } loop ? $"{What} on loop {loop}" : What;
}
