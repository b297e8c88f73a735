namespace Whimbrel;

/// <summary>Result of a stop for the connections that were open when it began.</summary>
/// <param name="Drained">Number of connections that ended gracefully: queued data was sent.</param>
/// <param name="Aborted">Number of connections that were still open at the deadline and reset.</param>
public readonly record struct StopReport(int Drained, int Aborted)
{
    private readonly IReadOnlyList<UnfinishedCall>? _unfinished;

    /// <summary>
    /// Number of sessions and stream handlers that had not ended one second after the deadline, because user code did
    /// not return. Includes sessions of <see cref="Aborted"/>. They end when that code returns. 0 if the stop is
    /// complete.
    /// </summary>
    public int Left { get; init; }

    /// <summary>Calls that did not return, at most 16. Empty if <see cref="Left"/> is 0.</summary>
    public IReadOnlyList<UnfinishedCall> Unfinished
    {
        get => _unfinished ?? [];
        init => _unfinished = value is { Count: > 0 } ? value : null;
    }

    /// <summary>True if everything has ended: no callback of this server runs any more.</summary>
    public bool IsComplete => Left == 0;

    /// <summary>Returns one line, as in messages.</summary>
    public override string ToString() =>
        (IsComplete, Unfinished.Count) switch
        {
            (true, _) => $"{Drained} drained, {Aborted} aborted",
            // No user code is running: the rest waits for its turn on a busy machine or pool.
            (false, 0) =>
                $"{Drained} drained, {Aborted} aborted, {Left} left, waiting for a turn on a loop or the pool",
            _ => $"{Drained} drained, {Aborted} aborted, {Left} left: {string.Join(", ", Unfinished)}",
        };
}
