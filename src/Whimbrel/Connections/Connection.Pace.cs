using Whimbrel.Engines;

namespace Whimbrel.Connections;

/// <summary>
/// Decides when an awaited send with a queued message completes: when little is pending, and within the connection's
/// share of the turn (contract 6). Otherwise a handler that writes continuously would never leave the loop while the
/// system takes its data.
/// </summary>
internal sealed partial class Connection
{
    /// <summary>
    /// True if much is pending in order and in memory. A waiting file costs nothing, and data held by a gate is not the
    /// sender's.
    /// </summary>
    private bool IsMuchPending => QueuedInOrder - _queue.InFiles > SendPace.MostPending;

    /// <summary>True if the caller of an awaited, queued send may continue at once. Any thread.</summary>
    private bool MayGoOn(long length, uint generation)
    {
        if (!Loop.IsCurrent)
        {
            return (Strand.CurrentOf(this, generation)?.MaySendOn(length) ?? true)
                && _queue.ChargedFromElsewhere() <= SendPace.MostPending;
        }

        SendPace pace = Loop.SendPace;
        if (_tenancy.PaceTurn != pace.Turn) (_tenancy.PaceTurn, _tenancy.PaceBytes) = (pace.Turn, 0);
        _tenancy.PaceBytes = (int)Math.Min(_tenancy.PaceBytes + length, int.MaxValue);
        pace.Spend(length);
        bool hasPart = _tenancy.PaceBytes < SendPace.MostOfConnection
            && (!pace.IsSpent || _tenancy.PaceBytes <= SendPace.FreeOfConnection);
        return hasPart && !IsMuchPending;
    }

    private ValueTask<SendResult> Pace(long length, uint generation, CancellationToken cancellation)
    {
        PacedSend send = PacedSend.Take(Loop, length);
        ValueTask<SendResult> task = send.Task;
        if (cancellation.CanBeCanceled) send.CancelWith(cancellation);
        if (Loop.IsCurrent) Add(send);
        else if (!Loop.Mailbox.PostInOrder(InboxKind.Paced, this, generation, send)) send.Release();
        return task;
    }

    internal void DrainPaced(uint generation, PacedSend send)
    {
        if (generation != Generation || HasDropped) send.Release();
        else Add(send);
    }

    private void Add(PacedSend send)
    {
        if (!IsMuchPending)
        {
            Loop.SendPace.Wait(send);
            return;
        }

        send.Next = null;
        if (_tenancy.LastPaced is null) _tenancy.FirstPaced = send;
        else _tenancy.LastPaced.Next = send;
        _tenancy.LastPaced = send;
    }

    /// <summary>Releases paced sends after the queue got shorter.</summary>
    private void PassPaced()
    {
        while (_tenancy.FirstPaced is not null && !IsMuchPending) Loop.SendPace.Wait(TakePaced());
    }

    /// <summary>Releases all paced sends when the queue is discarded.</summary>
    private void DropPaced()
    {
        while (_tenancy.FirstPaced is not null) TakePaced().Release();
    }

    private PacedSend TakePaced()
    {
        PacedSend first = _tenancy.FirstPaced!;
        _tenancy.FirstPaced = first.Next;
        if (first.Next is null) _tenancy.LastPaced = null;
        first.Next = null;
        return first;
    }
}
