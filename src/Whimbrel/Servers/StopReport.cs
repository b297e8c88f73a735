namespace Whimbrel;

/// <summary>What a stop did with the connections that were open when it began.</summary>
/// <param name="Drained">Ended gracefully: what was queued was sent.</param>
/// <param name="Aborted">Still open at the deadline, and reset.</param>
public readonly record struct StopReport(int Drained, int Aborted)
{
    private readonly IReadOnlyList<UnfinishedCall>? _unfinished;

    /// <summary>
    /// Sessions and handlers of streams that had not ended a second after the deadline, because user code did not return; sessions of
    /// <see cref="Aborted"/> are among them. They end by themselves when it does. 0 is a stop that was carried out.
    /// </summary>
    public int Left { get; init; }

    /// <summary>What did not return, at most 16 of them. Empty when nothing is <see cref="Left"/>.</summary>
    public IReadOnlyList<UnfinishedCall> Unfinished
    {
        get => _unfinished ?? [];
        init => _unfinished = value is { Count: > 0 } ? value : null;
    }

    /// <summary>Everything has ended: no callback of this server comes any more.</summary>
    public bool IsComplete => Left == 0;

    /// <summary>One line, as in messages.</summary>
    public override string ToString() =>
        (IsComplete, Unfinished.Count) switch
        {
            (true, _) => $"{Drained} drained, {Aborted} aborted",
            // No call of the user's is in progress: what is left waits for its turn on a busy machine or pool.
            (false, 0) => $"{Drained} drained, {Aborted} aborted, {Left} left, waiting for a turn on a loop or the pool",
            _ => $"{Drained} drained, {Aborted} aborted, {Left} left: {string.Join(", ", Unfinished)}",
        };
}
