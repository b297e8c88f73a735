using Whimbrel.Buffers;
using Whimbrel.Engines;

namespace Whimbrel.Connections;

/// <summary>
/// The direct send: while the loop sleeps, the thread of a callback sends what the callback has queued by a system call
/// of its own, if no other bytes of the connection are pending (docs/design/0071). This saves the wake-up of the loop
/// and two changes of threads.
/// </summary>
/// <remarks>
/// Exclusion: the loop owns the send side of the connection, except while <c>_sending</c> is set. The strand sets it
/// and then checks that the loop sleeps. The loop clears its flag when it wakes and then, before it queues something for
/// the connection or closes it, checks <c>_sending</c> (<c>OutboundQueue.SettleStrand</c>). So one of the two sees the
/// other. The loop waits for at most one system call that does not block.
/// Order: the mailbox is empty, and the bytes are all that is reserved on the connection, so nothing is passed. Bytes
/// that the kernel did not accept stay with the strand, and the loop queues them before anything else.
/// Errors: the kernel reports a reset once, to this send or to a receive of the loop. So the loop takes the error from
/// here (<see cref="TakeOutcome"/>) before it accepts an end of stream.
/// </remarks>
internal sealed partial class Strand
{
    private const int Silent = 0;
    private const int Sends = 1;
    private const int HasRest = 2;

    private int _sending; // changed by the strand's thread; from HasRest on by the loop
    private InboxItem? _firstRest;
    private InboxItem? _lastRest;
    private int _error; // of a direct send, until the loop has taken it

    /// <summary>A direct send runs, or has left bytes to the loop. The loop's thread, or the strand's.</summary>
    internal bool HasSent => Volatile.Read(ref _sending) != Silent;

    /// <summary>A direct send is likely to be possible.</summary>
    private bool MaySendHere =>
        _loop.StrandsSend && !_sendsAreHeld && _loop.Mailbox.IsLoopAsleep && !HasSent && _connection.IsPlain;

    /// <summary>The loop sleeps and has nothing to do. Checked after <c>_sending</c> was set.</summary>
    private bool MaySendNow => _loop.Mailbox.IsLoopAsleep && !_loop.Mailbox.Any;

    /// <summary>
    /// Sends memory of the callback. Returns false if nothing was sent: the caller must queue it. Inside a callback.
    /// </summary>
    private bool TrySendHere(ReadOnlySpan<byte> head, ReadOnlySpan<byte> body)
    {
        if (!TryBeginSend()) return false;
        int length = head.Length + body.Length;
        int sent = 0;
        try
        {
            bool maySend = MaySendNow && _connection.Outbound.CanSendForStrand(length, _generation);
            if (maySend) sent = _connection.Outbound.SendForStrand(head, body);
            if (sent > 0 && sent < length) CopyRest(head, body, sent);
        }
        finally
        {
            EndSend(sent);
        }

        if (sent == length) CountSent(length, 1);
        if (sent > 0) _connection.Outbound.TakeBackForeign(sent, _generation);
        // After an error the caller queues the bytes. They count as lost when the loop has ended the connection.
        if (sent != 0 && sent < length) PostOutcome();
        return sent > 0;
    }

    /// <summary>
    /// Sends the entries that this callback has left in the inbox. Returns false if nothing was done, and the loop must
    /// be informed. Inside a callback.
    /// </summary>
    /// <param name="next">Number of bytes that the callback has reserved for its next send.</param>
    private bool TrySendHeld(int next)
    {
        if (!MaySendHere || !TryBeginSend()) return false;
        int length = 0;
        int sent = 0;
        try
        {
            InboxItem? first = null;
            if (MaySendNow)
            {
                length = _connection.SendInbox.TryTakeHeld(
                    _generation,
                    Pieces.MostInRow,
                    (_connection, _generation, next),
                    static (state, bytes) =>
                        state._connection.Outbound.CanSendForStrand(bytes + state.next, state._generation),
                    out first);
            }

            if (first is not null)
            {
                sent = _connection.Outbound.SendForStrand(first);
                ReturnSent(first, Math.Max(sent, 0));
            }
        }
        finally
        {
            EndSend(sent);
        }

        if (sent > 0) _connection.Outbound.TakeBackForeign(sent, _generation);
        if (sent < length) PostOutcome();
        return length > 0;
    }

    private bool TryBeginSend() => Interlocked.CompareExchange(ref _sending, Sends, Silent) == Silent;

    private void EndSend(int sent)
    {
        if (sent < 0) Interlocked.CompareExchange(ref _error, -sent, 0);
        Volatile.Write(ref _sending, _firstRest is null ? Silent : HasRest);
    }

    /// <summary>The kernel has not accepted everything: the loop takes the rest and the error.</summary>
    private void PostOutcome() => _loop.PostControl(static (_, s, _, _) => ((Strand)s!).TakeOutcome(), this);

    private void CountSent(int bytes, int messages)
    {
        _sentBytes -= bytes;
        if (_shard.CountsSends) Interlocked.Add(ref _shard.MessagesSentOfStrands, messages);
    }

    /// <summary>Returns the entries that were sent. The others become the rest, also after an error.</summary>
    private void ReturnSent(InboxItem? item, int sent)
    {
        while (item is not null)
        {
            InboxItem? next = item.Next;
            item.Next = null;
            _loop.Engine.MailboxBudget.GiveBack(item.Charge);
            item.Charge = 0;
            int ofItem = Math.Min(sent, item.Length);
            if (ofItem == item.Length)
            {
                CountSent(item.Length, item.Messages);
                item.Return();
            }
            else
            {
                item.Offset += ofItem;
                item.Length -= ofItem;
                AddRest(item);
            }

            sent -= ofItem;
            item = next;
        }
    }

    /// <summary>
    /// Returns true if the caller of an awaited send may continue at once. Otherwise other callbacks run first, if they
    /// wait for a thread of the pool. Inside a callback.
    /// </summary>
    internal bool MaySendOn(long length)
    {
        _awaitedBytes += length;
        if (_awaitedBytes < SendPace.MostOfRun) return true;
        if (_dispatcher is not null || _loop.Engine.QueuedOnPool > 0) return false;
        _awaitedBytes = 0;
        return true;
    }

    /// <summary>Takes the error of a direct send, then the bytes that it has left. Loop's thread.</summary>
    internal void TakeOutcome()
    {
        WaitForSend();
        // First: the bytes of a failed send count as lost.
        if (Volatile.Read(ref _error) != 0)
            _connection.Outbound.StrandSendFailed(_generation, Interlocked.Exchange(ref _error, 0));
        Settle();
    }

    /// <summary>Copies what the kernel did not accept of the callback's memory.</summary>
    private void CopyRest(ReadOnlySpan<byte> head, ReadOnlySpan<byte> body, int sent)
    {
        int ofHead = Math.Min(sent, head.Length);
        CopyRest(head[ofHead..]);
        CopyRest(body[(sent - ofHead)..]);
        // It counts as a message when its last bytes are queued.
        _lastRest!.Messages = 1;
    }

    private void CopyRest(ReadOnlySpan<byte> rest)
    {
        while (!rest.IsEmpty)
        {
            InboxItem item = _loop.InboxItems.TakeLarge();
            item.Kind = InboxKind.Send;
            item.Generation = _generation;
            int count = Math.Min(rest.Length, item.Room.Length);
            item.Write(rest[..count]);
            rest = rest[count..];
            AddRest(item);
        }
    }

    private void AddRest(InboxItem item)
    {
        if (_lastRest is null) _firstRest = item;
        else _lastRest.Next = item;
        _lastRest = item;
    }

    private void WaitForSend()
    {
        SpinWait spin = default;
        while (Volatile.Read(ref _sending) == Sends) spin.SpinOnce(sleep1Threshold: -1);
    }

    /// <summary>Waits for the end of a direct send, and queues the bytes that it has left. Loop's thread.</summary>
    internal void Settle()
    {
        WaitForSend();
        if (Volatile.Read(ref _sending) != HasRest) return;
        InboxItem? item = _firstRest;
        _firstRest = _lastRest = null;
        Volatile.Write(ref _sending, Silent);
        while (item is not null)
        {
            InboxItem? next = item.Next;
            item.Next = null;
            _connection.Outbound.DrainSend(item);
            item = next;
        }
    }
}
