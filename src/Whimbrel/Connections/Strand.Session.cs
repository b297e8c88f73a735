using Whimbrel.Diagnostics;
using Whimbrel.Engines;

namespace Whimbrel.Connections;

/// <summary>
/// The calls of a session inside its callbacks on the pool. Its sends are in the inbox of the connection at once; the
/// direct send or the wake-up of the loop follows when the callback returns (contract 14, docs/design/0071).
/// </summary>
internal sealed partial class Strand
{
    private long _held; // bytes of this callback in the inbox that the loop was not informed of
    private InboxItem? _lent; // memory of Reserve, for this callback
    private int _reserved;
    private bool _isRoomLost;
    private int _lostCount;
    private bool _gaveBack;
    private long _sentBytes;
    private BroadcastGate _broadcastGate;
    private bool _sendsAreHeld; // by a hand-over, until the next session's OnConnected has returned

    /// <summary>Number of bytes that one callback holds before they are sent.</summary>
    private const int FlushBytes = 64 * 1024;

    internal BroadcastGate BroadcastGate
    {
        get => _broadcastGate;
        set
        {
            _broadcastGate = value;
            _loop.Mailbox.PostInOrder(InboxKind.BroadcastGate, _connection, _generation, value switch
            {
                BroadcastGate.Held => s_held,
                BroadcastGate.Shut => s_shut,
                _ => s_open,
            });
        }
    }

    private static readonly object s_open = BroadcastGate.Open;
    private static readonly object s_held = BroadcastGate.Held;
    private static readonly object s_shut = BroadcastGate.Shut;

    // ------------------------------------------------------------------ sending, inside a callback

    /// <summary>
    /// Sends a large message directly from the caller's memory, if nothing is pending before it. The caller has
    /// reserved the bytes on the connection. Returns false if the caller must queue it.
    /// </summary>
    internal bool TrySendLarge(ReadOnlySpan<byte> head, ReadOnlySpan<byte> body)
    {
        int length = head.Length + body.Length;
        if (length < OutboundQueue.ByReferenceBytes || !MaySendHere) return false;
        Flush(length);
        if (!TrySendHere(head, body)) return false;
        LoseRoom();
        _sentBytes += length;
        return true;
    }

    /// <summary>Called when a send of the callback is in the inbox.</summary>
    /// <param name="length">Number of bytes.</param>
    /// <param name="leaves">True to send it now, not when the callback returns.</param>
    internal void Sent(long length, bool leaves)
    {
        if (length == 0) return;
        LoseRoom();
        _sentBytes += length;
        _held += length;
        // As on the loop: the system sends while the callback produces more.
        if (leaves || _held >= FlushBytes) Flush();
    }

    /// <summary>
    /// Sends now what this callback has queued: by this thread, or by the loop, which is woken for it. Returns false if
    /// there was nothing. Inside a callback.
    /// </summary>
    /// <param name="next">Number of bytes that the callback has reserved for its next send.</param>
    internal bool Flush(int next = 0)
    {
        if (_held == 0) return false;
        // While other callbacks of the loop are queued on the pool, one turn of the loop sends little data for all.
        bool waits = next == 0 && _held < OutboundQueue.ByReferenceBytes && _loop.HasQueuedStrands;
        _held = 0;
        return (!waits && TrySendHeld(next)) || _loop.Mailbox.PostHeld(_connection, wakesByPool: _dispatcher is null);
    }

    /// <summary>The same, and wakes the loop at once, also while every thread of the pool is busy.</summary>
    internal void FlushNow()
    {
        Flush();
        ReleaseSends();
        _loop.Mailbox.WakeIfSleeping();
    }

    /// <summary>The callback has returned: releases what was reserved and not committed, and sends the rest.</summary>
    private void FlushAtEnd()
    {
        if (_lent is not null) FreeRoom();
        if (!Flush() && _gaveBack)
        {
            // The loop may wait until nothing is reserved, and no entry follows.
            _loop.PostControl(static (_, c, _, g) => ((Connection)c!).Outbound.ForeignGone((uint)g), _connection, null,
                _generation);
        }

        _gaveBack = false;
    }

    /// <summary>Waits until the loop has changed the limit, because it applies to the next send.</summary>
    internal void SetSendLimit(int bytes, bool allowsLarge)
    {
        ManualResetEventSlim done = new();
        bool posted = _loop.PostControl(
            static (_, c, s, g) =>
            {
                (int bytes, bool allowsLarge, ManualResetEventSlim done) = ((int, bool, ManualResetEventSlim))s!;
                Connection connection = (Connection)c!;
                if (connection.Generation == (uint)g) connection.Outbound.SetSendLimit(bytes, allowsLarge);
                done.Set();
            },
            _connection,
            (bytes, allowsLarge, done),
            _generation);
        if (posted) _loop.Engine.AwaitOffer(_loop, done, s_offerTime);
    }

    internal Span<byte> Reserve(int count)
    {
        GiveBackReserved();
        if (_lostCount >= SendQueue.MostLostRooms) SendQueue.TooManyLost();
        if (_connection.IsRefused(count, _generation)) return default;
        if (!_loop.Mailbox.HasRoomFor(_connection, _generation)) return default;
        if (_connection.Outbound.TryReserveForeign(count, _generation) != SendResult.Queued) return default;
        _lent ??= _loop.InboxItems.TakeLarge();
        _reserved = count;
        _isRoomLost = false;
        return _lent.Room[..count];
    }

    internal void Commit(int count)
    {
        if (count > 0 && (_isEnded || _hasFinished))
        {
            // Ended after Reserve: nothing is sent, and nothing is reported (contract 5).
            _isRoomLost = false;
            GiveBackReserved();
            return;
        }

        if (count > 0 && _isRoomLost)
        {
            _isRoomLost = false;
            SendQueue.RoomIsLost();
        }

        if (count < 0 || count > _reserved) SendQueue.CommitOutOfRange(count, _reserved);
        _isRoomLost = false;
        // Copied once more: an entry for each message of a few bytes would take a block each.
        if (count > 0 && PostSure(_lent!.Room[..count]))
        {
            _reserved -= count;
            _sentBytes += count;
            _held += count;
        }

        GiveBackReserved();
    }

    private bool PostSure(ReadOnlySpan<byte> data) =>
        _loop.Mailbox.PostSend(_connection, _generation, data, default, isHeld: true, isSure: true)
        == SendResult.Queued;

    /// <summary>Something is sent after Reserve: its bytes can no longer be committed. Inside a callback.</summary>
    internal void LoseRoom()
    {
        if (_reserved == 0) return;
        _isRoomLost = true;
        GiveBackReserved();
        _lostCount++;
    }

    private void FreeRoom()
    {
        _isRoomLost |= _reserved > 0;
        GiveBackReserved();
        _lent!.Return();
        _lent = null;
        _lostCount = 0;
    }

    private void GiveBackReserved()
    {
        if (_reserved == 0) return;
        _gaveBack = true;
        _connection.Outbound.GiveBackForeign(_reserved, _generation);
        _reserved = 0;
    }

    // ------------------------------------------------------------------ the rest, inside a callback

    internal void SetMinimumBytes(int count)
    {
        _driver.SetMinimumBytes(count, _host.Options);
    }

    internal void HandOver(Session next, bool holdsSends)
    {
        _driver.HandOver(next);
        if (!holdsSends || _sendsAreHeld) return;
        _sendsAreHeld = true;
        _loop.Mailbox.PostInOrder(InboxKind.HoldSends, _connection, _generation, this);
    }

    /// <summary>The next session's OnConnected has returned, or flushes. Inside a callback.</summary>
    private void ReleaseSends()
    {
        if (!_sendsAreHeld) return;
        _sendsAreHeld = false;
        _loop.Mailbox.PostInOrder(InboxKind.HoldSends, _connection, _generation);
    }

    /// <summary>The running callback has handed over. Inside a callback.</summary>
    internal bool HasNext => _driver.Next is not null;

    /// <summary>A callback has handed over, and the next session has not been told yet. Inside a callback.</summary>
    internal bool IsSwitching => _isSwitching;
}
