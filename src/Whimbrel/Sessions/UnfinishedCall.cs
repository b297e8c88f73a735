namespace Whimbrel;

/// <summary>A call of user code that had not returned at the deadline of a stop.</summary>
/// <param name="What">Callback, class and session, such as "OnReceived of ChatSession (session 7f3a)"; or the stream
/// handler or other code that runs.</param>
/// <param name="LoopIndex">Index of the blocked loop, from 0; null if the call runs on the thread pool or waits for
/// something.</param>
public readonly record struct UnfinishedCall(string What, int? LoopIndex)
{
    /// <summary>Returns name and place, as in messages.</summary>
    public override string ToString() => LoopIndex is { } loop ? $"{What} on loop {loop}" : What;
}
