using System.Diagnostics;
using System.Runtime.CompilerServices;
using Whimbrel.Buffers;
using Whimbrel.Diagnostics;

namespace Whimbrel.Connections;

/// <summary>
/// Receiving on the loop: from the engine's completion to the driver of the session, or to the pool, and back-pressure
/// to the engine (contracts 9, 10, 11).
/// </summary>
internal sealed partial class Connection
{
    internal const int BackPressureMark = 256 * 1024;

    private DriverHost Here => new(this, pool: null);

    internal bool IsPeerDone => _life.PeerHasFinished;

    internal long BytesReceived => _received.Count;

    internal int UnreadCount => _driver.UnreadCount;

    /// <summary>
    /// True if the session reads received data in place. Data that is copied for the pool, a stream or a body, or that
    /// is decrypted first, arrives in parts of the size that their limits allow.
    /// </summary>
    internal bool TakesLargeBlocks => IsReading && _tls is null && Pool is null
        && !_driver.HoldsOffer && Session.TakesLargeBlocks;

    internal bool IsPaused => _driver.IsHeld(ReceiveGate.User);

    /// <summary>
    /// True if a callback on the loop may consume more data: the connection is open, and its session has not paused,
    /// handed over or filled the queue. False on the pool, where the strand decides.
    /// </summary>
    internal bool TakesMore => State == ConnectionState.Open && WasConnected && Pool is null
        && IsReading && !HasNext && Outbound.PendingHere <= HoldMark;

    /// <summary>True if another loop has not processed yet what this session has sent there.</summary>
    internal bool IsHeldForMailbox => _driver.IsHeld(ReceiveGate.Mailbox);

    /// <summary>True if the connection is not read because of its own full queue (contract 9).</summary>
    internal bool IsAboveHighWaterMark => _driver.IsHeld(ReceiveGate.BackPressure);

    /// <summary>High-water mark of a session's own callbacks: 256 KiB, or a quarter of a smaller limit.</summary>
    internal long HoldMark => Math.Min(BackPressureMark, Outbound.Limit / 4);

    private bool IsReading => _driver.Gate == ReceiveGate.None;

    internal bool WaitsForQueue => _driver.WaitsForQueue;

    /// <summary>Records that the running callback has seen pending bytes.</summary>
    internal void KnowsOfQueue() => _driver.SeesQueue();

    internal void SetMinimumBytes(int count) => _driver.SetMinimumBytes(count, Shard.Options);

    // ------------------------------------------------------------------ back-pressure (contract 9)

    internal long BeginOffer(out bool hasPending)
    {
        Shard.MessagesReceived++;
        hasPending = Outbound.Queued > 0;
        return Outbound.Queued + Outbound.BytesSent;
    }

    internal bool HasFilledQueue(long mark) => Outbound.Queued is var queued && queued > HoldMark
        && queued + Outbound.BytesSent > mark;

    internal void HoldBack(bool untilEmpty)
    {
        // For "until empty", it does not help if a part of the queue is sent.
        long mark = untilEmpty ? 0 : Math.Max(0, (HoldMark / 4) - 1);
        _driver.WaitForQueue(mark, holdsOffer: !Shard.Host.BackPressure);
        if (Shard.Host.BackPressure) Shut(ReceiveGate.BackPressure);
        if (Outbound.PendingHere <= mark) Loop.Schedule(this);
    }

    /// <summary>Called when less is pending than before.</summary>
    internal void QueueShrank(long pending)
    {
        if (_driver.IsQueueShort(pending)) EndBackPressure();
    }

    private void EndBackPressure()
    {
        _driver.EndWaitForQueue();
        if (UnreadCount > 0) _driver.OfferAgain();
        Open(ReceiveGate.BackPressure);
        Loop.Schedule(this);
        // Last, because the session may run on the pool at once, and must not find the hold of the connection.
        Pool?.Strand.Release(ReceiveGate.BackPressure);
    }

    // ------------------------------------------------------------------ received data

    /// <summary>The engine received these bytes. Valid during the call.</summary>
    internal void CompleteReceive(ReadOnlySpan<byte> data)
    {
        Loop.CountReceived(data.Length);
        if (_tls is { } tls) tls.Receive(data);
        else Deliver(data);
    }

    /// <summary>
    /// Returns the size of a receive from which on the next one is spliced, or uses <see cref="BulkBuffer"/>.
    /// </summary>
    /// <param name="room">Capacity of the engine's block.</param>
    internal int MuchFrom(int room) =>
        IsPiped ? Duct.FromBytes
        : Pool is not null && _tls is null ? StrandBlock.ReceivedFromBytes
        : Session.LendsRoom ? PipeSegments.BulkBytes
        : TakesLargeBlocks ? room : int.MaxValue;

    /// <summary>
    /// Returns the buffer for large receives: blocks for the pool, memory of the session, or the large block of the
    /// loop. Null: the block of the engine, because unread data precedes the received data, or TLS changes it.
    /// </summary>
    internal IReceiveBuffer? BulkBuffer(LargeBlock large)
    {
        if (!IsReading || _tls is not null || State != ConnectionState.Open) return null;
        bool isNext = UnreadCount == 0;
        if (Pool is { } pool) return isNext ? pool : null;
        return isNext && Session.LendsRoom ? Session : TakesLargeBlocks ? large : null;
    }

    /// <summary>
    /// Called when the engine has received data for the pool by <see cref="BulkBuffer"/>. It owns the block.
    /// </summary>
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
        _received.Add(block.Length);
        Shard.BytesReceived += block.Length;
        if (Pool!.Add(block)) Shut(ReceiveGate.Pool);
        Loop.FlushIfMany();
    }

    /// <summary>Delivers plaintext to the session, or to the pool.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    internal void Deliver(ReadOnlySpan<byte> data)
    {
        _received.Add(data.Length);
        Shard.BytesReceived += data.Length;
        if (State != ConnectionState.Open)
        {
            DiscardInput(data.Length);
            return;
        }

        if (Pool is not { } pool) _driver.Deliver(Here, data);
        else if (pool.Add(data)) Shut(ReceiveGate.Pool);
        Loop.FlushIfMany();
    }

    // ------------------------------------------------------------------ the peer's end

    /// <summary>The engine read the peer's FIN; it stops receiving by itself.</summary>
    internal void CompleteReceiveEnd()
    {
        _isReceiving = false;
        // After a reset that was reported to a direct send, a receive returns what looks like the end of the stream.
        Pool?.Sends.Direct.TakeOutcome();
        if (_tls is { } tls && TakesInput)
        {
            if (Outbound.Error == 0 || State == ConnectionState.Handshaking)
            {
                tls.EndInput();
                return;
            }
        }

        switch (State)
        {
            case ConnectionState.Open or ConnectionState.Concluding when Outbound.Error != 0:
                Fail(new CloseReason(ErrorText.CauseOf(Outbound.Error), Outbound.Error));
                break;
            case ConnectionState.Open:
                PeersEndArrived();
                break;
            case ConnectionState.Draining:
                _life.PeerFinishes();
                Loop.Schedule(this);
                break;
            case ConnectionState.Lingering:
                Detach();
                break;
        }
    }

    /// <summary>True if unread data is passed again, now or later: the peer's FIN waits (contract 3).</summary>
    private bool OffersFirst => _driver.OffersAgain || _driver.HoldsOffer;

    internal void PeersEndArrived()
    {
        if (!IsReading || OffersFirst) _life.HoldPeersEnd();
        else PeerFinished();
    }

    private void PeerFinished()
    {
        _life.PeerFinishes();
        _driver.Hold(ReceiveGate.Finished);
        if (Pool is { } pool)
        {
            pool.Strand.Finish();
            return;
        }

        if (!_driver.DeliverLast(Here) || _driver.HoldsOffer)
        {
            if (State != ConnectionState.Open) return;
            _driver.Release(ReceiveGate.Finished);
            _life.HoldPeersEnd();
            return;
        }

        Call(SessionCallback.PeerFinished);
        _life.PeersEndWasTold();
        AfterCallback();
        if (State == ConnectionState.Open && _life.Own == OwnHalf.Finished && Outbound.IsEmpty)
            CloseWith(new CloseReason(CloseCause.LocalClose));
    }

    /// <summary>Receiving failed: reset, timed out, or another error of the system.</summary>
    internal void CompleteReceiveError(int error)
    {
        _isReceiving = false;
        switch (State)
        {
            case ConnectionState.Open or ConnectionState.Handshaking or ConnectionState.Concluding:
                int first = Outbound.Error != 0 ? Outbound.Error : error;
                Fail(new CloseReason(ErrorText.CauseOf(first), first));
                break;
            case ConnectionState.Draining or ConnectionState.Lingering:
                Detach();
                break;
        }
    }

    internal void DiscardInput(int count)
    {
        // While draining, the peer may continue to send: a peer that is not read might not read either. After the own
        // FIN there is a limit.
        if (State != ConnectionState.Lingering || _received.TryDiscard(count)) return;
        ResetOnClose = true;
        Detach();
    }

    // ------------------------------------------------------------------ the gate

    internal void PauseReceiving()
    {
        if (State is ConnectionState.Open or ConnectionState.Handshaking or ConnectionState.Connecting)
            Shut(ReceiveGate.User);
    }

    internal void ResumeReceiving() => Open(ReceiveGate.User);

    /// <summary>Stops deliveries, and reading, for a reason that the session or another loop releases.</summary>
    internal override void HoldFor(ReceiveGate reason)
    {
        if (State == ConnectionState.Open) Shut(reason);
    }

    internal void ReleaseCallback() => Open(ReceiveGate.Callback);

    /// <summary>Ends a hold that another thread ends, unless the connection has ended meanwhile.</summary>
    internal override void Release(ReceiveGate reason, uint generation)
    {
        if (generation == Generation) Open(reason);
    }

    /// <summary>Passes unread data again, also data that the running callback leaves.</summary>
    internal void DeliverAgain()
    {
        if (State != ConnectionState.Open) return;
        Open(ReceiveGate.Reader);
        _driver.OfferAgain();
        Loop.Schedule(this);
    }

    private void Shut(ReceiveGate reason)
    {
        if (IsReading) _held.Begin(Loop.TimeMs);
        _driver.Hold(reason);
        UpdateReceiving();
    }

    internal void Open(ReceiveGate reasons)
    {
        if (!_driver.Release(reasons)) return;
        if (IsReading) _held.End(Loop.TimeMs);
        if (State != ConnectionState.Open) return;
        if ((reasons & (ReceiveGate.User | ReceiveGate.Callback)) != 0 && UnreadCount > 0)
            _driver.OfferAgain();
        // This may be inside a callback. The completion phase passes the unread data, then reads.
        Loop.Schedule(this);
    }

    /// <summary>
    /// Starts or stops reading: the engine reads if nothing is held. Unread data or a FIN that waits comes first.
    /// </summary>
    internal void UpdateReceiving()
    {
        bool wanted = State switch
        {
            _ when TakesInput && _tls is { } tls => tls.WantsInput,
            ConnectionState.Open => MayDeliver && !_life.HoldsPeersEnd,
            ConnectionState.Lingering or ConnectionState.Draining => _life.Peer == PeerHalf.Open,
            _ => false,
        };
        if (wanted == _isReceiving) return;
        _isReceiving = wanted;
        if (wanted) Loop.StartReceive(this);
        else Loop.StopReceive(this);
    }

    // ------------------------------------------------------------------ data of a pipe in the kernel (design 28)

    /// <summary>True if all received data goes into a pipe (contract 22), so that splice may be possible.</summary>
    internal bool IsPiped => Session.Piping is not null;

    /// <summary>
    /// Target to which the next received data may be spliced: everything before it was taken, and nothing waits at the
    /// target. Null if the data must be received here.
    /// </summary>
    internal Connection? SpliceTarget =>
        State == ConnectionState.Open && MayDeliver
        && !_driver.HoldsOffer && UnreadCount == 0 && !_driver.HasMinimum
            && _tls is null && Pool is null && !MayHaveDuplicate ? Session.Piping?.SpliceTarget : null;

    /// <summary>
    /// True if, as a target, spliced data would be the next on the wire. A socket that other code has an object of may
    /// have been made blocking.
    /// </summary>
    internal bool TakesSplice(uint generation) =>
        Outbound.TakesSends(generation) && Outbound.CanSendNow && !Outbound.HasCallers && !MayHaveDuplicate;

    /// <summary>Records that this number of bytes was moved to the target's socket.</summary>
    internal void CompleteSplice(Connection target, int count)
    {
        Loop.CountReceived(count);
        _received.Add(count);
        Shard.BytesReceived += count;
        Shard.MessagesReceived++;
        Session.Piping!.Spliced(count);
        target.Outbound.CountSent(count);
        target.Outbound.CountMessage(count);
        Loop.FlushIfMany();
    }
}
