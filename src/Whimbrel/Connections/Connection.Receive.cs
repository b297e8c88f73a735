using System.Runtime.CompilerServices;
using Whimbrel.Buffers;
using Whimbrel.Diagnostics;

namespace Whimbrel.Connections;

/// <summary>The receiving half: unread bytes, pause, back-pressure, the peer's FIN (contracts 3, 9, 10, 11).</summary>
internal sealed partial class Connection
{
    /// <summary>Input discarded after Close before the connection is reset.</summary>
    private const int LingerLimitBytes = 64 * 1024;

    internal long BytesReceived => _tenancy.BytesReceived;

    internal int UnreadCount => _tenancy.Unread.Length;

    /// <summary>
    /// Its session looks at what is received where it lies. What is copied for the pool, a stream or a body, or decrypted first, is not more
    /// at a time than their limits say.
    /// </summary>
    internal bool TakesLargeBlocks => _tenancy.Gate == ReceiveGate.None && _tenancy.Tls is null && Strand is null
        && !_tenancy.OfferOwed && _tenancy.Session.TakesLargeBlocks;

    internal bool IsPaused => (_tenancy.Gate & ReceiveGate.User) != 0;

    /// <summary>Open, and neither closed nor paused, handed over or held back by what its session has done. False on the pool, where the strand knows. Loop's thread.</summary>
    internal bool TakesMore => State == ConnectionState.Open && WasConnected && Strand is null
        && _tenancy.Gate == ReceiveGate.None && !HasNext && PendingHere <= HoldMark;

    /// <summary>Not read because another loop has not caught up with what its session sent there.</summary>
    internal bool IsHeldForMailbox => (_tenancy.Gate & ReceiveGate.Mailbox) != 0;

    /// <summary>Not read because of its own full queue (contract 9).</summary>
    internal bool IsAboveHighWaterMark => (_tenancy.Gate & ReceiveGate.BackPressure) != 0;

    // Back-pressure: reading, and what was left unread, go on when no more than this is pending.

    /// <summary>Above this a session's own callbacks are held back: 256 KiB, or a quarter of a smaller limit.</summary>
    internal long HoldMark => Math.Min(BackPressureMark, _queue.Limit / 4);

    private bool WaitsForQueue => _tenancy.OfferOwed || (_tenancy.Gate & ReceiveGate.BackPressure) != 0;

    /// <summary>The running callback has seen that something is pending: what it leaves unread, it leaves because of that.</summary>
    internal void KnowsOfQueue() => _tenancy.KnowsOfQueue = true;

    /// <summary>Reading stops because of what is pending. With <paramref name="untilEmpty"/> it does not help that only a part of it leaves.</summary>
    private void HoldBack(bool untilEmpty)
    {
        _tenancy.GoesOnAt = untilEmpty ? 0 : Math.Max(0, (HoldMark / 4) - 1);
        if (Shard.Host.BackPressure) Shut(ReceiveGate.BackPressure);
        else _tenancy.OfferOwed = true;
        if (PendingHere <= _tenancy.GoesOnAt) Loop.Schedule(this);
    }

    private void EndBackPressure()
    {
        _tenancy.OfferOwed = false;
        if (Strand is null && _tenancy.Unread.Length > 0) _tenancy.OfferPending = true;
        Open(ReceiveGate.BackPressure);
        Loop.Schedule(this);
        // Last: the session on the pool may run at once, and must not find itself held back still.
        Strand?.ReleaseBackPressure();
    }

    /// <summary>The engine received these bytes. Valid during the call.</summary>
    internal void CompleteReceive(ReadOnlySpan<byte> data)
    {
        Loop.CountReceived(data.Length);
        if (_tenancy.Tls is { } tls) tls.Receive(data);
        else Deliver(data);
    }

    /// <summary>So much at a time is much for it: the next is spliced, or received into another block than the engine's.</summary>
    /// <param name="room">So many have room in that one.</param>
    internal int MuchFrom(int room) =>
        IsPiped ? Duct.FromBytes
        : Strand is not null && _tenancy.Tls is null ? StrandBlock.ReceivedFromBytes
        : Session.LendsRoom ? PipeSegments.BulkBytes
        : TakesLargeBlocks ? room : int.MaxValue;

    /// <summary>Into what comes much at a time: blocks for the pool, the session's memory, the large block of the loop. Null: the engine's, since something stands before those bytes, or changes them.</summary>
    internal IReceiveBuffer? BulkBuffer(LargeBlock large)
    {
        if (_tenancy.Gate != ReceiveGate.None || _tenancy.Tls is not null || State != ConnectionState.Open) return null;
        bool isNext = _tenancy.Unread.Length == 0;
        if (Strand is { } strand) return isNext ? strand : null;
        return isNext && Session.LendsRoom ? Session : TakesLargeBlocks ? large : null;
    }

    /// <summary>The engine received this for the pool, by <see cref="BulkBuffer"/>. The block is no longer the engine's.</summary>
    internal void CompleteReceive(StrandBlock block)
    {
        if (block.Length < StrandBlock.ReceivedFromBytes && !block.IsSessions)
        {
            try
            {
                CompleteReceive(block.Written);
            }
            finally
            {
                Loop.PoisonLent(block.Bytes.AsSpan(0, block.Length));
                block.Dispose();
            }

            return;
        }

        Loop.CountReceived(block.Length);
        _tenancy.BytesReceived += block.Length;
        Shard.BytesReceived += block.Length;
        if (Strand!.Add(block)) Shut(ReceiveGate.Pool);
        Loop.FlushIfMany();
    }

    /// <summary>Plain bytes, or those that the layer made plain.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    internal void Deliver(ReadOnlySpan<byte> data)
    {
        _tenancy.BytesReceived += data.Length;
        Shard.BytesReceived += data.Length;
        if (State != ConnectionState.Open)
        {
            DiscardInput(data.Length);
            return;
        }

        if (_tenancy.Gate != ReceiveGate.None)
        {
            // The engine received them before StopReceive: kept, and delivered first after resume.
            _tenancy.Unread.Append(data);
            _tenancy.OfferPending = true;
            return;
        }

        if (_tenancy.Unread.Length == 0 && data.Length >= _tenancy.AtLeast)
        {
            int taken = Offer(data);
            if (State is not (ConnectionState.Open or ConnectionState.Concluding)) return;
            _tenancy.Unread.Append(data[taken..]);
            AfterOffer(taken);
        }
        else
        {
            _tenancy.Unread.Append(data);
            OfferUnread();
        }

        Loop.FlushIfMany();
    }

    /// <summary>Offers what is unread, if it is enough for the session.</summary>
    private void OfferUnread()
    {
        if (_tenancy.Unread.Length == 0) return;
        // While the FIN is held back, its own offer is still to come (PeerFinished).
        if (_tenancy.Unread.Length < _tenancy.AtLeast && !_tenancy.Life.PeerHasFinished) return;
        int taken = Offer(_tenancy.Unread.Span);
        if (State is not (ConnectionState.Open or ConnectionState.Concluding))
        {
            _tenancy.Unread.Clear();
            return;
        }

        _tenancy.Unread.Consume(taken);
        AfterOffer(taken);
    }

    /// <summary>One call of OnData, with the natural back-pressure around it (contract 9).</summary>
    private int Offer(ReadOnlySpan<byte> data)
    {
        if (Strand is { } strand)
        {
            if (strand.Add(data)) Shut(ReceiveGate.Pool);
            return data.Length;
        }

        long before = _queue.Queued;
        long sentBefore = _tenancy.BytesSent;
        _tenancy.KnowsOfQueue = false;
        _tenancy.AtLeast = 0;
        Shard.MessagesReceived++;
        int taken;
        Loop.EnterCallback(this, "OnReceived");
        Loop.Offered.Begin(ref data);
        try
        {
            taken = Session.CallUnread(data);
            if ((uint)taken > (uint)data.Length) Throw.State($"OnData returned {taken} for {data.Length} bytes.");
        }
        catch (Exception e)
        {
            Loop.Offered.End();
            Loop.LeaveCallback();
            FailWith(e, "OnReceived");
            return 0;
        }

        Loop.Offered.End();
        Loop.LeaveCallback();
        long after = _queue.Queued;
        if (after > HoldMark && after + (_tenancy.BytesSent - sentBefore) > before && Shard.Host.BackPressure)
            HoldBack(untilEmpty: false);
        // Left because of what is pending, if that can be: whoever finds nothing pending and takes nothing waits for more bytes.
        else if (_tenancy.KnowsOfQueue && taken < data.Length && (taken > 0 || before > 0)
            && State == ConnectionState.Open)
            HoldBack(untilEmpty: true);
        return taken;
    }

    private void AfterOffer(int taken)
    {
        if (taken == 0 && _tenancy.Unread.Length >= Shard.Options.CommonLimits.UnreadBytes
            && (_tenancy.Gate & ReceiveGate.Reader) == 0)
        {
            Host.NoteUnreadLimit(Session, _tenancy.Unread.Length);
            Fail(new CloseReason(CloseCause.UnreadLimit));
            return;
        }

        if (_tenancy.Next is not null || IsUpgrading) AfterCallback();
    }

    internal void SetMinimumBytes(int count)
    {
        CheckMinimumBytes(count, Shard.Options);
        _tenancy.AtLeast = count;
    }

    internal static void CheckMinimumBytes(int count, ConnectionOptions options)
    {
        if (count < 1 || count > options.CommonLimits.UnreadBytes)
            Throw.OutOfRange(nameof(count), count,
                $"between 1 and Limits.UnreadBytes ({options.CommonLimits.UnreadBytes})");
    }

    // ------------------------------------------------------------------ the peer's end

    /// <summary>The engine read the peer's FIN; it stops receiving by itself.</summary>
    internal void CompleteReceiveEnd()
    {
        _tenancy.IsReceiving = false;
        // After a reset that was reported to a direct send, a receive returns what looks like the end of the stream.
        Strand?.TakeOutcome();
        if (_tenancy.Tls is { } tls && TakesInput)
        {
            if (_tenancy.SendError == 0 || State == ConnectionState.Handshaking)
            {
                tls.EndInput();
                return;
            }
        }

        switch (State)
        {
            case ConnectionState.Open or ConnectionState.Concluding when _tenancy.SendError != 0:
                Fail(new CloseReason(ErrorText.CauseOf(_tenancy.SendError), _tenancy.SendError));
                break;
            case ConnectionState.Open:
                PeersEndArrived();
                break;
            case ConnectionState.Draining:
                _tenancy.Life.PeerFinishes();
                Loop.Schedule(this);
                break;
            case ConnectionState.Lingering:
                Detach();
                break;
        }
    }

    /// <summary>What was received before it is offered again, now or later: the peer's end waits for that (contract
    /// 3).</summary>
    private bool OffersFirst => _tenancy.OfferPending || _tenancy.OfferOwed;

    internal void PeersEndArrived()
    {
        if (_tenancy.Gate != ReceiveGate.None || OffersFirst) _tenancy.Life.HoldPeersEnd();
        else PeerFinished();
    }

    private void PeerFinished()
    {
        _tenancy.Life.PeerFinishes();
        _tenancy.Gate |= ReceiveGate.Finished;
        if (Strand is { } strand)
        {
            strand.Finish();
            return;
        }

        // What the session wanted more of before looking at it: there is no more (contract 3).
        if (_tenancy.AtLeast > 0) OfferUnread();
        if (State != ConnectionState.Open) return;
        if (_tenancy.Gate != ReceiveGate.Finished || OffersFirst)
        {
            // It was paused by that, or is to be offered the rest: the end waits (contracts 3, 10).
            _tenancy.Gate &= ~ReceiveGate.Finished;
            _tenancy.Life.HoldPeersEnd();
            return;
        }

        Call(SessionCallback.PeerFinished);
        _tenancy.Life.PeersEndWasTold();
        AfterCallback();
        if (State == ConnectionState.Open && _tenancy.Life.Own == OwnHalf.Finished && SendQueueIsEmpty)
            CloseWith(new CloseReason(CloseCause.LocalClose));
    }

    /// <summary>Receiving failed: reset, timed out, or another error of the system.</summary>
    internal void CompleteReceiveError(int error)
    {
        _tenancy.IsReceiving = false;
        switch (State)
        {
            case ConnectionState.Open or ConnectionState.Handshaking or ConnectionState.Concluding:
                int first = _tenancy.SendError != 0 ? _tenancy.SendError : error;
                Fail(new CloseReason(ErrorText.CauseOf(first), first));
                break;
            case ConnectionState.Draining or ConnectionState.Lingering:
                Detach();
                break;
        }
    }

    internal void DiscardInput(int count)
    {
        // While draining the peer may go on sending: not reading it could keep it from reading us. After our FIN it may
        // not go on for long.
        if (State != ConnectionState.Lingering) return;
        _tenancy.Discarded += count;
        if (_tenancy.Discarded > LingerLimitBytes)
        {
            ResetOnClose = true;
            Detach();
        }
    }

    // ------------------------------------------------------------------ the gate

    internal void PauseReceiving()
    {
        if (State is ConnectionState.Open or ConnectionState.Handshaking or ConnectionState.Connecting)
            Shut(ReceiveGate.User);
    }

    internal void ResumeReceiving() => Open(ReceiveGate.User);

    /// <summary>Inside a callback: unconsumed data is for a reader, which requests it by <see cref="DeliverAgain"/>.</summary>
    internal void HoldForReader()
    {
        if (State == ConnectionState.Open) Shut(ReceiveGate.Reader);
    }

    /// <summary>What is unread comes again, also what the running callback leaves.</summary>
    internal void DeliverAgain()
    {
        if (State != ConnectionState.Open) return;
        Open(ReceiveGate.Reader);
        _tenancy.OfferPending = true;
        Loop.Schedule(this);
    }

    /// <summary>Inside the callback that goes on after it has returned.</summary>
    internal void HoldForCallback()
    {
        if (State == ConnectionState.Open) Shut(ReceiveGate.Callback);
    }

    internal void ReleaseCallback() => Open(ReceiveGate.Callback);

    /// <summary>The next session is not held by what the one before had begun.</summary>
    private void EndHoldsOfSession()
    {
        if ((_tenancy.Gate & (ReceiveGate.Reader | ReceiveGate.Callback)) == 0) return;
        Open(ReceiveGate.Reader);
        Open(ReceiveGate.Callback);
        _tenancy.OfferPending = false; // the switch offers what is unread
    }

    internal void HoldForMailbox()
    {
        if (State == ConnectionState.Open) Shut(ReceiveGate.Mailbox);
    }

    internal void ReleaseMailboxHold(uint generation)
    {
        if (generation == Generation) Open(ReceiveGate.Mailbox);
    }

    private void Shut(ReceiveGate reason)
    {
        if (_tenancy.Gate == ReceiveGate.None) CountHeldTime(isShut: true);
        _tenancy.Gate |= reason;
        UpdateReceiving();
    }

    private void Open(ReceiveGate reason)
    {
        if ((_tenancy.Gate & reason) == 0) return;
        _tenancy.Gate &= ~reason;
        if (_tenancy.Gate == ReceiveGate.None) CountHeldTime(isShut: false);
        if (State != ConnectionState.Open) return;
        if (reason is ReceiveGate.User or ReceiveGate.Callback && _tenancy.Unread.Length > 0)
            _tenancy.OfferPending = true;
        // Not here: this may be inside a callback. The completion phase offers what is unread, then reads on.
        Loop.Schedule(this);
    }

    /// <summary>Makes the engine read exactly when the gate is open; with bytes or a FIN held back it waits for those.</summary>
    internal void UpdateReceiving()
    {
        bool wanted = State switch
        {
            _ when TakesInput && _tenancy.Tls is { } tls => tls.WantsInput,
            ConnectionState.Open => MayDeliver && !_tenancy.Life.HoldsPeersEnd,
            ConnectionState.Lingering or ConnectionState.Draining => _tenancy.Life.Peer == PeerHalf.Open,
            _ => false,
        };
        if (wanted == _tenancy.IsReceiving) return;
        _tenancy.IsReceiving = wanted;
        if (wanted) Loop.StartReceive(this);
        else Loop.StopReceive(this);
    }
}
