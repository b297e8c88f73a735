namespace Whimbrel.Clusters;

/// <summary>A pending join or resumption of a session. On the node's loop.</summary>
internal sealed class Resumption(Session session, GroupPosition? from)
{
    private readonly TaskCompletionSource<ResumeResult> _done = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private SessionGroup? _alone;

    internal Session Session => session;

    /// <summary>Whether the session joins for new messages only.</summary>
    internal bool IsFromNow => from is null;

    internal bool HasLeft { get; set; }

    /// <summary>Time since which it waits for an answer of the bus.</summary>
    internal long SinceMs { get; set; }

    /// <summary>Position of the last message sent to the session.</summary>
    internal GroupPosition At { get; set; } = from ?? default;

    internal int Count { get; set; }

    internal Task<ResumeResult> Task => _done.Task;

    /// <summary>Group with only this session, because deliveries take a group.</summary>
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
