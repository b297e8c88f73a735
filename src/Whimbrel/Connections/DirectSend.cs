using System.Diagnostics;
using System.Runtime.InteropServices;
using Whimbrel.Buffers;
using Whimbrel.Engines;

namespace Whimbrel.Connections;

/// <summary>
/// The direct send: while the loop sleeps, the thread of a callback makes the system call for the bytes that the
/// callback has queued. No other bytes of the connection may be pending (docs/design/0071). This saves the wake-up of
/// the loop and two changes of threads.
/// </summary>
/// <remarks>
/// Exclusion: the loop owns the send side of the connection, except while <c>_state</c> is set. The callback's thread
/// sets it and then checks that the loop sleeps. The loop clears its flag when it wakes and then, before it queues
/// something for the connection or closes it, checks <c>_state</c> (<c>OutboundQueue.SettleStrand</c>). So one of the
/// two sees the other. The loop waits for at most one system call that does not block. Order: the mailbox is empty, and
/// the bytes are all that is reserved on the connection, so nothing is passed. Bytes that the kernel did not accept
/// remain here, and the loop queues them before anything else. Errors: the kernel reports a reset once, to this send or
/// to a receive of the loop. So the loop takes the error from here (<see cref="TakeOutcome"/>) before it accepts an end
/// of stream.
/// </remarks>
[StructLayout(LayoutKind.Auto)]
internal struct DirectSend(PoolSession pool, Connection connection)
{
    private const int Silent = 0;
    private const int Sends = 1;
    private const int HasRest = 2;

    private int _state; // changed by the callback's thread; from HasRest on by the loop
    private InboxItem? _firstRest;
    private InboxItem? _lastRest;
    private int _error; // until the loop has taken it

    /// <summary>True if a send runs, or has left bytes to the loop. The loop's thread, or the callback's.</summary>
    internal readonly bool IsActive => Volatile.Read(in _state) != Silent;

    /// <summary>True if a direct send is likely to be possible.</summary>
    internal readonly bool IsLikely => Loop.StrandsSend && Loop.Mailbox.IsLoopAsleep && !IsActive && connection.IsPlain;

    private readonly Loop Loop => connection.Loop;

    private readonly uint Generation => pool.Generation;

    /// <summary>
    /// Sends memory of the callback. Returns the number of bytes that remain for the loop, or -1 if nothing was sent:
    /// the caller must queue all. After an error, the bytes count as lost when the loop has ended the connection.
    /// </summary>
    internal int TrySend(ReadOnlySpan<byte> head, ReadOnlySpan<byte> body)
    {
        if (!TryBegin()) return -1;
        int length = head.Length + body.Length;
        int sent = 0;
        try
        {
            if (MaySend(length)) sent = connection.Outbound.SendForStrand(head, body);
            if (sent == length) CountMessages(1);
            else if (sent > 0) CopyRest(head, body, sent);
        }
        finally
        {
            End(sent);
        }

        return sent > 0 ? length - sent : -1;
    }

    /// <summary>
    /// Sends the entries that this callback has left in the inbox. Returns false if nothing was done, and the loop must
    /// be informed.
    /// </summary>
    /// <param name="next">Number of bytes that the callback has reserved for its next send.</param>
    /// <param name="sent">Number of bytes that the kernel has accepted.</param>
    internal bool TrySendHeld(int next, out int sent)
    {
        sent = 0;
        if (!TryBegin()) return false;
        InboxItem? first = null;
        try
        {
            if (IsLoopIdle)
            {
                connection.SendInbox.TryTakeHeld(
                    Pieces.MostInRow,
                    (connection, Generation, next),
                    static (state, bytes) =>
                        state.connection.Outbound.CanSendForStrand(bytes + state.next, state.Generation),
                    out first);
                if (first is not null) sent = connection.Outbound.SendForStrand(first);
            }
        }
        finally
        {
            if (first is not null) ReturnSent(first, Math.Max(sent, 0));
            End(sent);
        }

        sent = Math.Max(sent, 0);
        return first is not null;
    }

    /// <summary>Takes the error of a direct send, then the bytes that it has left. Loop's thread.</summary>
    internal void TakeOutcome()
    {
        WaitForSend();
        // First: the bytes of a failed send count as lost.
        if (Volatile.Read(ref _error) != 0)
            connection.Outbound.StrandSendFailed(Generation, Interlocked.Exchange(ref _error, 0));
        Settle();
    }

    /// <summary>Waits for the end of a direct send, and queues the bytes that it has left. Loop's thread.</summary>
    internal void Settle()
    {
        WaitForSend();
        if (Volatile.Read(ref _state) != HasRest) return;
        InboxItem? item = _firstRest;
        _firstRest = _lastRest = null;
        Volatile.Write(ref _state, Silent);
        while (item is not null)
        {
            InboxItem? next = item.Next;
            item.Next = null;
            connection.Outbound.DrainSend(item);
            item = next;
        }
    }

    private readonly void WaitForSend()
    {
        SpinWait spin = default;
        while (Volatile.Read(in _state) == Sends) spin.SpinOnce(sleep1Threshold: -1);
    }

    private bool TryBegin() => Interlocked.CompareExchange(ref _state, Sends, Silent) == Silent;

    /// <summary>The loop sleeps and has nothing to do. Checked after <c>_state</c> was set.</summary>
    private readonly bool IsLoopIdle => Loop.Mailbox.IsLoopAsleep && !Loop.Mailbox.Any;

    private readonly bool MaySend(int length) => IsLoopIdle && connection.Outbound.CanSendForStrand(length, Generation);

    /// <param name="sent">Number of bytes that the kernel has accepted, or a negative error number.</param>
    private void End(int sent)
    {
        Debug.Assert(_state == Sends, "a send ends once");
        if (sent < 0) Interlocked.CompareExchange(ref _error, -sent, 0);
        bool leavesWork = sent < 0 || _firstRest is not null;
        Volatile.Write(ref _state, _firstRest is null ? Silent : HasRest);
        if (sent > 0) connection.Outbound.TakeBackForeign(sent, Generation);
        if (leavesWork)
            Loop.PostControl(static (_, pool, _, _) => ((PoolSession)pool!).Sends.Direct.TakeOutcome(), pool);
    }

    private readonly void CountMessages(int messages)
    {
        HostShard shard = pool.Shard;
        if (shard.CountsSends) Interlocked.Add(ref shard.MessagesSentOfStrands, messages);
    }

    // ------------------------------------------------------------------ what the kernel has not accepted

    /// <summary>Returns the entries that were sent. The others become the rest, also after an error.</summary>
    private void ReturnSent(InboxItem? item, int sent)
    {
        while (item is not null)
        {
            InboxItem? next = item.Next;
            item.Next = null;
            Loop.Engine.MailboxBudget.GiveBack(item.Charge);
            item.Charge = 0;
            int ofItem = Math.Min(sent, item.Length);
            sent -= ofItem;
            if (ofItem == item.Length)
            {
                CountMessages(item.Messages);
                item.Return();
            }
            else
            {
                item.Offset += ofItem;
                item.Length -= ofItem;
                AddRest(item);
            }

            item = next;
        }
    }

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
            InboxItem item = Loop.InboxItems.TakeLarge();
            item.Kind = InboxKind.Send;
            item.Generation = Generation;
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
}
