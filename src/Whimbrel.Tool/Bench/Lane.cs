namespace Whimbrel.Tool.Bench;

/// <summary>
/// One connection's share of the load: the messages that are due on it, those in flight, and its connection, which is
/// replaced when it ends. At the limit in flight, and without a connection, messages wait as a number only, and their
/// latency counts from the moment at which they were due. The loop's thread.
/// </summary>
internal sealed class Lane(LoadLoop load, int key, int limit)
{
    private readonly InFlight _inFlight = new(limit);
    private readonly TaskCompletionSource<string?> _firstAnswer =
        new(TaskCreationOptions.RunContinuationsAsynchronously);
    private ILanePeer? _peer;
    private long _becameDue;
    private long _taken;
    private long _freeSince;
    private bool _hasAnswered;

    /// <summary>Number of the connection, which selects the content of its messages.</summary>
    internal int Key => key;

    internal LoadLoop Load => load;

    /// <summary>Position among the lanes of its loop.</summary>
    internal int Position { get; set; }

    /// <summary>Completes with null at the first answer, or with the reason why there was none.</summary>
    internal Task<string?> FirstAnswer => _firstAnswer.Task;

    /// <summary>Number of the next message.</summary>
    internal long Next => _inFlight.Next;

    /// <summary>Number of the oldest message in flight.</summary>
    internal long Oldest => _inFlight.Oldest;

    internal bool IsIdle => _inFlight.IsEmpty && _becameDue == _taken;

    /// <summary>Whether the connection has nothing in flight.</summary>
    internal bool IsQuiet => _inFlight.IsEmpty;

    internal string Progress => _peer?.Progress ?? "there is no connection";

    // ------------------------------------------------------------------ the connection

    internal void Opened(ILanePeer peer)
    {
        _peer = peer;
        Freed(Clock.Now());
    }

    /// <summary>The connection has ended, or is about to. Its messages in flight are lost.</summary>
    /// <param name="peer">The connection; a former one is ignored.</param>
    /// <param name="kind">Kind of the error; null if the end is none.</param>
    /// <param name="text">The reason in a sentence.</param>
    internal void Ended(ILanePeer peer, string? kind, string text)
    {
        if (!ReferenceEquals(_peer, peer)) return;
        _peer = null;
        while (_inFlight.TryTake(_inFlight.Oldest, out long due, out _)) load.Lose(due);
        if (kind is not null) Failed(kind, text);
    }

    internal void Failed(string kind, string text)
    {
        load.Fail(kind, text);
        _firstAnswer.TrySetResult(text);
    }

    /// <summary>The send queue has room again.</summary>
    internal void Freed(long now)
    {
        _freeSince = now;
        SendWaiting(now);
    }

    // ------------------------------------------------------------------ messages

    /// <summary>Sends a message that is not measured, to see whether it is answered.</summary>
    internal void SendProbe()
    {
        if (_peer is { } peer && peer.TrySend(_inFlight.Next)) _inFlight.Add(0, Clock.Now());
    }

    /// <summary>One more message of this lane has become due.</summary>
    internal void BecameDue(long now)
    {
        _becameDue++;
        SendWaiting(now);
    }

    /// <summary>The oldest message in flight was answered.</summary>
    internal void Answered(long now) => TryAnswer(_inFlight.Oldest, now);

    /// <summary>A message was answered. Returns false if it was before, or is counted as lost.</summary>
    internal bool TryAnswer(long number, long now)
    {
        bool wasFull = _inFlight.IsFull;
        if (!_inFlight.TryTake(number, out long due, out long sent)) return false;
        if (!_hasAnswered)
        {
            _hasAnswered = true;
            _firstAnswer.TrySetResult(null);
        }

        load.Record(due, sent, now);
        if (wasFull) _freeSince = now;
        SendWaiting(now);
        return true;
    }

    /// <summary>Counts messages as lost that were sent at this moment or before (datagrams).</summary>
    internal void LoseOlderThan(long sentNs, long now)
    {
        bool any = false;
        for (; _inFlight.IsOldestFrom(sentNs); any = true)
        {
            _inFlight.TryTake(_inFlight.Oldest, out long due, out _);
            load.Lose(due);
        }

        if (any) Freed(now);
    }

    internal void SendWaiting(long now)
    {
        while (_peer is { } peer && HasWaiting(now) && !_inFlight.IsFull && peer.TrySend(_inFlight.Next))
        {
            long due = load.IsClosed ? now : DueOf(_taken);
            _inFlight.Add(due, now);
            _taken++;
            load.CountSent(due, Math.Max(due, _freeSince), now);
        }
    }

    /// <summary>Records messages without an answer with their age, as at least so long.</summary>
    internal void GiveUp(long now, bool isLossy)
    {
        while (_inFlight.TryTake(_inFlight.Oldest, out long due, out long sent))
        {
            if (isLossy) load.Lose(due);
            else load.GiveUp(due, sent, now);
        }

        for (; _taken < _becameDue; _taken++) load.GiveUp(DueOf(_taken), now, now);
    }

    private bool HasWaiting(long now) => load.IsClosed ? load.FollowsAt(now) : _taken < _becameDue;

    private long DueOf(long number) => load.DueOf(number, Position);
}
