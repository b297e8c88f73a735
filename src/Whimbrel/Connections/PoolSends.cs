using System.Diagnostics.CodeAnalysis;
using System.Runtime.InteropServices;
using Whimbrel.Engines;

namespace Whimbrel.Connections;

/// <summary>
/// Sends of a session inside its callbacks on the pool. They are in the inbox of the connection at once. When the
/// callback returns, its thread sends them itself (<see cref="DirectSend"/>) or informs the loop (docs/design/0071).
/// </summary>
/// <remarks>
/// The thread that runs the strand, except where noted. A field of its <see cref="PoolSession"/>, never copied, so that
/// a message touches one object less.
/// </remarks>
[StructLayout(LayoutKind.Auto)]
internal struct PoolSends(PoolSession pool, Connection connection)
{
    /// <summary>Number of bytes that one callback holds before they are sent.</summary>
    private const int FlushBytes = 64 * 1024;

    private static readonly TimeSpan s_offerTime = TimeSpan.FromSeconds(1);

    private readonly uint _generation = connection.Generation;
    private readonly bool _hasDispatcher = pool.Host.Options.Dispatcher is not null;
    private DirectSend _direct = new(pool, connection);
    private long _held; // bytes of this callback in the inbox that the loop was not informed of
    private long _sent; // bytes that this callback has queued, and that have not left by a direct send
    private long _awaited; // bytes of awaited sends in this run
    private bool _isHeldBack; // by a hand-over, until the next session's OnConnected has returned
    private BroadcastGate _broadcastGate;

    // ---- Reserve
    private InboxItem? _lent; // memory for this callback
    private int _reserved;
    private bool _gaveBack;

    [UnscopedRef]
    internal ref DirectSend Direct => ref _direct;

    /// <summary>
    /// True if the running callback has queued more than the high-water mark. Before a file has reached the loop, only
    /// its charge is pending; the loop continues at once if that is too little.
    /// </summary>
    internal readonly bool HaveFilledQueue =>
        _sent > 0 && Math.Max(_sent, connection.BytesPending) > connection.HoldMark;

    internal BroadcastGate BroadcastGate
    {
        readonly get => _broadcastGate;
        set
        {
            _broadcastGate = value;
            Loop.Mailbox.PostInOrder(InboxKind.BroadcastGate, connection, _generation, value);
        }
    }

    private readonly Loop Loop => connection.Loop;

    internal void BeginRun() => _awaited = 0;

    internal void BeginOffer() => _sent = 0;

    // ------------------------------------------------------------------ sending

    /// <summary>
    /// Sends a large message directly from the caller's memory, if nothing is pending before it. The caller has
    /// reserved the bytes on the connection. Returns false if the caller must queue it.
    /// </summary>
    internal bool TrySendLarge(ReadOnlySpan<byte> head, ReadOnlySpan<byte> body)
    {
        int length = head.Length + body.Length;
        if (length < OutboundQueue.ByReferenceBytes || _isHeldBack || !_direct.IsLikely) return false;
        Flush(length);
        int unsent = _direct.TrySend(head, body);
        if (unsent < 0) return false;
        _sent += unsent;
        return true;
    }

    /// <summary>Called when a send of the callback is in the inbox.</summary>
    /// <param name="length">Number of bytes.</param>
    /// <param name="leaves">True to send it now, not when the callback returns.</param>
    internal void Sent(long length, bool leaves)
    {
        if (length == 0) return;
        _sent += length;
        _held += length;
        // As on the loop: the system sends while the callback produces more.
        if (leaves || _held >= FlushBytes) Flush();
    }

    /// <summary>
    /// Sends now what this callback has queued: by this thread, or by the loop, which is woken for it. Returns false if
    /// there was nothing.
    /// </summary>
    /// <param name="next">Number of bytes that the callback has reserved for its next send.</param>
    internal bool Flush(int next = 0)
    {
        if (_held == 0) return false;
        // While other callbacks of the loop are queued on the pool, one turn of the loop sends little data for all.
        bool waits = next == 0 && _held < OutboundQueue.ByReferenceBytes && Loop.HasQueuedStrands;
        _held = 0;
        if (!waits && !_isHeldBack && _direct.IsLikely && _direct.TrySendHeld(next, out int sent))
        {
            _sent -= sent;
            return true;
        }

        return Loop.Mailbox.PostHeld(connection, wakesByPool: !_hasDispatcher);
    }

    /// <summary>The same, and wakes the loop at once, also while every thread of the pool is busy.</summary>
    internal void FlushNow()
    {
        Flush();
        ReleaseSends();
        Loop.Mailbox.WakeIfSleeping();
    }

    /// <summary>The callback has returned: releases what was reserved and not committed, and sends the rest.</summary>
    internal void FlushAtEnd()
    {
        if (_lent is not null) FreeRoom();
        // If no entry follows, the loop may wait until nothing is reserved.
        if (!Flush() && _gaveBack) pool.OnLoop(static (c, _) => c.Outbound.ForeignGone(c.Generation));
        _gaveBack = false;
    }

    /// <summary>
    /// Returns true if the caller of an awaited send may continue at once. Otherwise other callbacks run first, if they
    /// wait for a thread of the pool.
    /// </summary>
    internal bool MaySendOn(long length)
    {
        _awaited += length;
        if (_awaited < SendPace.MostOfRun) return true;
        if (_hasDispatcher || Loop.Engine.QueuedOnPool > 0) return false;
        _awaited = 0;
        return true;
    }

    /// <summary>
    /// Called if a send does not fit: waits until the loop has passed earlier sends to the system. A callback on the
    /// pool may block. The loop needs a turn for it; if that takes too long, the send is judged without it.
    /// </summary>
    internal readonly void OfferQueue(long length)
    {
        pool.KnowsOfQueue();
        if (pool.Host.Options.CommonLimits.SlowConsumer != SlowConsumer.Disconnect) return;
        ManualResetEventSlim offered = new();
        if (Loop.Mailbox.PostOffer(connection, _generation, length, offered))
            Loop.Engine.AwaitOffer(Loop, offered, s_offerTime);
    }

    /// <summary>Waits until the loop has changed the limit, because it applies to the next send.</summary>
    internal readonly void SetSendLimit(int bytes, bool allowsLarge)
    {
        ManualResetEventSlim done = new();
        bool posted = Loop.PostControl(
            static (_, c, s, g) =>
            {
                (int bytes, bool allowsLarge, ManualResetEventSlim done) = ((int, bool, ManualResetEventSlim))s!;
                Connection connection = (Connection)c!;
                if (connection.Generation == (uint)g) connection.Outbound.SetSendLimit(bytes, allowsLarge);
                done.Set();
            },
            connection,
            (bytes, allowsLarge, done),
            _generation);
        if (posted) Loop.Engine.AwaitOffer(Loop, done, s_offerTime);
    }

    // ------------------------------------------------------------------ hand-over

    /// <summary>Holds sends from here on until the next session's OnConnected has returned, or flushes.</summary>
    internal void HoldSends() => SetHeldBack(true);

    internal void ReleaseSends() => SetHeldBack(false);

    private void SetHeldBack(bool holds)
    {
        if (_isHeldBack == holds) return;
        _isHeldBack = holds;
        Loop.Mailbox.PostInOrder(InboxKind.HoldSends, connection, _generation, holds ? pool : null);
    }

    // ------------------------------------------------------------------ Reserve and Commit

    internal Span<byte> Reserve(int count)
    {
        GiveBackReserved();
        if (connection.IsRefused(count, _generation) || !Loop.Mailbox.HasRoomFor(connection, _generation)
            || connection.Outbound.TryReserveForeign(count, _generation) != SendResult.Queued)
            return default;
        _lent ??= Loop.InboxItems.TakeLarge();
        _reserved = count;
        return _lent.Room[..count];
    }

    internal void Commit(int count)
    {
        OutboundQueue.CheckCommit(count, _reserved, isOpen: !pool.IsFinishing);
        // Copied once more: an entry for each message of a few bytes would take a block each.
        if (count > 0 && !pool.IsFinishing && Loop.Mailbox.PostSend(connection, _generation, _lent!.Room[..count],
            default, isHeld: true, isSure: true) == SendResult.Queued)
        {
            _reserved -= count;
            _sent += count;
            _held += count;
        }

        GiveBackReserved();
    }

    private void FreeRoom()
    {
        GiveBackReserved();
        _lent!.Return();
        _lent = null;
    }

    /// <summary>Ends the reservation: at its end, or because a SendAsync waits until nothing is reserved.</summary>
    internal void GiveBackReserved()
    {
        if (_reserved == 0) return;
        _gaveBack = true;
        connection.Outbound.GiveBackForeign(_reserved, _generation);
        _reserved = 0;
    }
}
