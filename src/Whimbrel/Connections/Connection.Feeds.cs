namespace Whimbrel.Connections;

/// <summary>
/// Pipes into this connection (contract 22): they wait for space in its queue, and are notified of its end. Loop's
/// thread.
/// </summary>
internal sealed partial class Connection
{
    /// <summary>
    /// True if so little is pending that the sources of pipes are read again: the same limit as for a session's own
    /// back-pressure.
    /// </summary>
    private bool HasRoomForFeeds =>
        _tenancy.WaitingFeeds > 0 && _tenancy.FirstOperation is null && PendingHere <= HoldMark / 4;

    /// <summary>True if a send, a pipe or a hold waits until the queue gets shorter.</summary>
    private bool NeedsRoom => _tenancy.FirstOperation is not null || WaitsForQueue || _tenancy.WaitingFeeds > 0
        || _tenancy.FirstPaced is not null;

    /// <summary>
    /// Queues data of a pipe completely or not at all, without applying the SlowConsumer policy. Any thread.
    /// </summary>
    internal SendResult Feed(ReadOnlySpan<byte> data, uint generation) =>
        TakeCopy(data, default, generation, mayWait: true);

    internal void AddFeed(Pipe pipe, bool waits, uint generation)
    {
        if (generation != Generation || State != ConnectionState.Open || !ReferenceEquals(Session, pipe.Target)
            || !TakesSends(generation))
        {
            pipe.TargetEnded(
                generation == Generation && ReferenceEquals(Session, pipe.Target) ? EndSoFar : pipe.Target.EndReason);
            return;
        }

        if (!pipe.IsFeed)
        {
            pipe.IsFeed = true;
            pipe.NextFeed = _tenancy.FirstFeed;
            _tenancy.FirstFeed = pipe;
        }

        if (!waits || pipe.WaitsForRoom) return;
        pipe.WaitsForRoom = true;
        // With a fence, because another thread that frees space checks this field afterwards.
        Interlocked.Increment(ref _tenancy.WaitingFeeds);
        if (HasRoomForFeeds) WakeFeeds();
    }

    internal void RemoveFeed(Pipe pipe, uint generation)
    {
        if (generation != Generation || !pipe.IsFeed) return;
        pipe.IsFeed = false;
        if (pipe.WaitsForRoom) _tenancy.WaitingFeeds--;
        pipe.WaitsForRoom = false;
        if (ReferenceEquals(_tenancy.FirstFeed, pipe))
        {
            _tenancy.FirstFeed = pipe.NextFeed;
        }
        else
        {
            for (Pipe? p = _tenancy.FirstFeed; p is not null; p = p.NextFeed)
            {
                if (ReferenceEquals(p.NextFeed, pipe)) p.NextFeed = pipe.NextFeed;
            }
        }

        pipe.NextFeed = null;
    }

    private void WakeFeeds()
    {
        for (Pipe? pipe = _tenancy.FirstFeed, next; pipe is not null; pipe = next)
        {
            // A woken pipe may end and leave the list.
            next = pipe.NextFeed;
            if (!pipe.WaitsForRoom) continue;
            pipe.WaitsForRoom = false;
            _tenancy.WaitingFeeds--;
            pipe.Wake();
        }
    }

    /// <summary>Ends the pipes into this session, because it has ended or hands over.</summary>
    private void EndFeeds(CloseReason reason)
    {
        while (_tenancy.FirstFeed is { } pipe)
        {
            RemoveFeed(pipe, Generation);
            pipe.TargetEnded(reason);
        }
    }
}
