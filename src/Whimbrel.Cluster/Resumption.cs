namespace Whimbrel.Clusters;

/// <summary>A session on its way into a recoverable group. On the node's loop.</summary>
internal sealed class Resumption(Session session, GroupPosition? from)
{
    private readonly TaskCompletionSource<ResumeResult> _done = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private SessionGroup? _alone;

    internal Session Session => session;

    /// <summary>It wants what is from now on.</summary>
    internal bool IsFromNow => from is null;

    internal bool HasLeft { get; set; }

    /// <summary>When it began to wait for an answer of the bus.</summary>
    internal long SinceMs { get; set; }

    /// <summary>It was sent all up to here.</summary>
    internal GroupPosition At { get; set; } = from ?? default;

    internal int Count { get; set; }

    internal Task<ResumeResult> Task => _done.Task;

    /// <summary>A group of it alone, so that it is served in the form and the order of a group.</summary>
    internal SessionGroup Alone
    {
        get
        {
            if (_alone is not null) return _alone;
            _alone = new SessionGroup();
            _alone.Join(session);
            return _alone;
        }
    }

    internal void End(ResumeOutcome outcome, string? reason)
    {
        _alone?.Leave(session);
        _done.TrySetResult(new ResumeResult(outcome, Count, At) { Reason = reason });
    }
}
