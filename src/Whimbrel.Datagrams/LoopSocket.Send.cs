using System.Diagnostics.CodeAnalysis;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;

namespace Whimbrel.Datagrams;

/// <summary>
/// The send queue: whole datagrams, in order, within two limits. Sends on the loop are a copy. Other threads reserve
/// their space first, so that an accepted datagram is never dropped for lack of space, and use the mailbox. Calls that
/// wait for space (<see cref="DatagramSendOperation"/>) are served in FIFO order.
/// </summary>
internal sealed partial class LoopSocket
{
    private const int RetryMs = 1;
    private const int RetriesForOne = 100;

    private DatagramSendOperation? _firstOperation;
    private DatagramSendOperation? _lastOperation;
    private int _operationCount; // including those in the mailbox; any thread
    private long _foreignBytes; // reserved by other threads and not yet in the queue
    private int _foreignCount;
    private long _refusedHere;
    private long _refusedElsewhere;
    private bool _owesDrained;
    private bool _refuses; // read by any thread
    private LoopTimer? _retry;
    private int _retries;
    private bool _isStuck;
    private DatagramPeer _stuckPeer;
    private readonly AnswerBudget? _answers; // null: no limit

    internal long Withheld;

    internal long Refused => Volatile.Read(ref _refusedHere) + Volatile.Read(ref _refusedElsewhere);

    internal int PendingDatagrams => Queue.Count + Volatile.Read(ref _foreignCount);

    internal long PendingBytes => Queue.Bytes + Volatile.Read(ref _foreignBytes);

    private bool HasSends =>
        Queue.Count > 0 || Volatile.Read(ref _foreignCount) > 0 || Volatile.Read(ref _operationCount) > 0;

    // ------------------------------------------------------------------ any thread

    internal SendResult Send(ReadOnlySpan<byte> data)
    {
        if (!IsConnected) ThrowNotConnected();
        return Send(data, default);
    }

    internal SendResult Send(ReadOnlySpan<byte> data, in DatagramPeer peer)
    {
        if (data.Length > DatagramOptions.MaxDatagramBytes) ThrowTooLong(data.Length);
        if (peer.IsNone && !IsConnected) ThrowNobody();
        if (!Loop.IsCurrent) return SendForeign(data, data.Length, in peer);
        if (!MayAnswer(in peer, 1, data.Length)) return SendResult.Refused;
        if (!TryMakeRoom(data.Length, 1, out SendResult refusal))
        {
            _answers?.Refund(in peer, 1, data.Length);
            return refusal;
        }

        Queue.Append(data, data.Length, in peer);
        if (!IsScheduled && !IsSendInFlight) Loop.Schedule(this);
        return SendResult.Queued;
    }

    internal SendResult SendRun(ReadOnlySpan<byte> run, int datagramBytes, in DatagramPeer peer)
    {
        if (datagramBytes is < 1 or > DatagramOptions.MaxDatagramBytes)
            Throw.OutOfRange(nameof(datagramBytes), datagramBytes, $"1 to {DatagramOptions.MaxDatagramBytes}");
        if (run.Length > Options.SendLimitBytes)
            Throw.OutOfRange(nameof(run), run.Length, $"at most SendLimitBytes, {Options.SendLimitBytes} bytes");
        if (peer.IsNone && !IsConnected) ThrowNobody();
        if (run.Length == 0) return Volatile.Read(ref _refuses) ? SendResult.Closed : SendResult.Queued;
        if (!Loop.IsCurrent) return SendForeign(run, datagramBytes, in peer);
        int count = ((run.Length - 1) / datagramBytes) + 1;
        if (!MayAnswer(in peer, count, run.Length)) return SendResult.Refused;
        if (!TryMakeRoom(run.Length, count, out SendResult refusal))
        {
            _answers?.Refund(in peer, count, run.Length);
            return refusal;
        }

        Queue.AppendRun(run, datagramBytes, in peer);
        if (!IsScheduled && !IsSendInFlight) Loop.Schedule(this);
        return SendResult.Queued;
    }

    internal int SendMany(ReadOnlySpan<OutgoingDatagram> datagrams)
    {
        for (int i = 0; i < datagrams.Length; i++)
        {
            if (Send(datagrams[i].Data.Span, datagrams[i].Peer) != SendResult.Queued) return i;
        }

        return datagrams.Length;
    }

    [DoesNotReturn]
    private static void ThrowTooLong(int length) =>
        Throw.OutOfRange("data", length, $"a datagram of at most {DatagramOptions.MaxDatagramBytes} bytes");

    [DoesNotReturn]
    private static void ThrowNobody() =>
        throw new ArgumentException("The peer is empty: a sender without a name cannot be answered, and only a "
            + "connected socket (RemoteEndPoint) has a peer of its own.", "peer");

    [DoesNotReturn]
    private static void ThrowNotConnected() =>
        throw new InvalidOperationException(
            "The socket is not connected: give RemoteEndPoint in its options, or name the peer of each send.");

    // ------------------------------------------------------------------ space

    /// <summary>
    /// Checks for space, and makes space if the policy allows. Returns false with the reason if the datagrams are not
    /// accepted.
    /// </summary>
    private bool TryMakeRoom(int bytes, int count, out SendResult refusal)
    {
        if (_refuses || _life is Life.Made or Life.Closed)
        {
            refusal = SendResult.Closed;
            return false;
        }

        refusal = SendResult.Full;
        // Waiting calls were first, including those that are still in the mailbox.
        if (Volatile.Read(ref _operationCount) == 0)
        {
            if (HasRoom(bytes, count)) return true;
            if (Options.Overflow == DatagramOverflow.DropOldest && DropOldest(bytes, count)) return true;
        }

        _refusedHere += count;
        _owesDrained = true;
        return false;
    }

    private bool HasRoom(int bytes, int count) =>
        PendingBytes + bytes <= Options.SendLimitBytes && PendingDatagrams + count <= Options.SendLimitDatagrams;

    /// <summary>
    /// Drops the oldest datagrams. Returns false, and drops nothing, if even an empty queue would not have enough
    /// space.
    /// </summary>
    private bool DropOldest(int bytes, int count)
    {
        if (Volatile.Read(ref _foreignBytes) + bytes > Options.SendLimitBytes
            || Volatile.Read(ref _foreignCount) + count + InFlightHeads > Options.SendLimitDatagrams)
            return false;
        while (!HasRoom(bytes, count))
        {
            if (Queue.Count <= InFlightHeads) return false;
            Queue.RemoveBehind(InFlightHeads);
            Displaced++;
        }

        return true;
    }

    // ------------------------------------------------------------------ answers to unverified peers

    /// <summary>Returns false, and counts, if the datagrams would exceed what the peer may be sent.</summary>
    private bool MayAnswer(in DatagramPeer peer, int count, int bytes)
    {
        if (_answers is null || peer.IsMulticast || _answers.TrySpend(in peer, count, bytes, Loop.TimeMs)) return true;
        Withheld += count;
        return false;
    }

    internal void Verify(in DatagramPeer peer)
    {
        RequireLoop(nameof(Verify));
        _answers?.Verify(in peer, Loop.TimeMs);
    }

    internal void Forget(in DatagramPeer peer)
    {
        RequireLoop(nameof(Forget));
        _answers?.Forget(in peer);
    }

    internal bool IsVerified(in DatagramPeer peer)
    {
        RequireLoop(nameof(IsVerified));
        return _answers is null || _answers.IsVerified(in peer, Loop.TimeMs);
    }

    // ------------------------------------------------------------------ other threads

    private SendResult SendForeign(ReadOnlySpan<byte> data, int datagramBytes, in DatagramPeer peer,
        bool isFirstTry = false)
    {
        if (Volatile.Read(ref _refuses)) return SendResult.Closed;
        int count = data.Length == 0 ? 1 : ((data.Length - 1) / datagramBytes) + 1;
        // Reserved first, because accepted datagrams must have space when they arrive.
        long bytes = Interlocked.Add(ref _foreignBytes, data.Length);
        int datagrams = Interlocked.Add(ref _foreignCount, count);
        bool mayDrop = Options.Overflow == DatagramOverflow.DropOldest;
        bool hasRoom = Volatile.Read(ref _operationCount) == 0
            && bytes + (mayDrop ? 0 : Queue.Bytes) <= Options.SendLimitBytes
            && datagrams + (mayDrop ? 0 : Queue.Count) <= Options.SendLimitDatagrams;
        SendResult result = hasRoom
            ? Loop.Mailbox.PostDatagrams(this, datagramBytes, in peer, data, mayWait: isFirstTry)
            : SendResult.Full;
        if (result == SendResult.Queued) return result;
        ReleaseForeign(data.Length, count);
        // A stop may have seen the reservation, and would wait for a datagram that never arrives.
        if (Volatile.Read(ref _refuses))
            Loop.PostControl(static (loop, resident, _, _) => loop.Schedule((LoopSocket)resident!), this);
        if (result == SendResult.Full && !isFirstTry) Interlocked.Add(ref _refusedElsewhere, count);
        return result;
    }

    private void ReleaseForeign(int bytes, int count)
    {
        Interlocked.Add(ref _foreignBytes, -bytes);
        Interlocked.Add(ref _foreignCount, -count);
    }

    internal override void DrainDatagrams(ReadOnlySpan<byte> data, int datagramBytes, in DatagramPeer peer)
    {
        int count = data.Length == 0 ? 1 : ((data.Length - 1) / datagramBytes) + 1;
        ReleaseForeign(data.Length, count);
        if (_life is not (Life.Bound or Life.Open or Life.Draining) || _isDetaching)
        {
            Abandoned += count;
            return;
        }

        if (!MayAnswer(in peer, count, data.Length))
        {
            // Queued was returned to the caller already, because only the loop can check the answer limit.
            AddNote(new DatagramFault(peer, DatagramErrors.Withheld, data.Length, 0), isPeerError: false);
            return;
        }

        if (Options.Overflow == DatagramOverflow.DropOldest && !HasRoom(data.Length, count))
            DropOldest(data.Length, count);
        if (data.IsEmpty) Queue.Append(data, 0, in peer);
        else Queue.AppendRun(data, datagramBytes, in peer);
        if (!IsScheduled && !IsSendInFlight) Loop.Schedule(this);
    }

    // ------------------------------------------------------------------ waiting for space

    internal ValueTask<SendResult> SendAsync(ReadOnlyMemory<byte> data, in DatagramPeer peer,
        CancellationToken cancellationToken)
    {
        if (cancellationToken.IsCancellationRequested) return ValueTask.FromCanceled<SendResult>(cancellationToken);
        SendResult result = TrySend(data.Span, in peer);
        if (result != SendResult.Full) return new ValueTask<SendResult>(result);
        DatagramSendOperation operation = new(this, data, in peer);
        ValueTask<SendResult> task = operation.Task;
        Begin(operation);
        operation.WatchCancellation(cancellationToken);
        return task;
    }

    /// <summary>Sends like Send, but a rejection is not final and not counted.</summary>
    internal SendResult TrySend(ReadOnlySpan<byte> data, in DatagramPeer peer)
    {
        if (data.Length > DatagramOptions.MaxDatagramBytes) ThrowTooLong(data.Length);
        if (peer.IsNone && !IsConnected) ThrowNobody();
        if (!Loop.IsCurrent) return SendForeign(data, data.Length, in peer, isFirstTry: true);
        if (_refuses || _life is Life.Made or Life.Closed) return SendResult.Closed;
        if (Volatile.Read(ref _operationCount) > 0) return SendResult.Full;
        if (!MayAnswer(in peer, 1, data.Length)) return SendResult.Refused;
        if (!HasRoom(data.Length, 1)
            && !(Options.Overflow == DatagramOverflow.DropOldest && DropOldest(data.Length, 1)))
        {
            _answers?.Refund(in peer, 1, data.Length);
            return SendResult.Full;
        }

        Queue.Append(data, data.Length, in peer);
        if (!IsScheduled && !IsSendInFlight) Loop.Schedule(this);
        return SendResult.Queued;
    }

    /// <summary>Counts a datagram whose wait for space timed out. Any thread.</summary>
    internal void CountRefused() => Interlocked.Increment(ref _refusedElsewhere);

    internal void Begin(DatagramSendOperation operation)
    {
        Interlocked.Increment(ref _operationCount);
        if (Loop.IsCurrent) DrainOperation(operation);
        else if (!Loop.Mailbox.Post(
            new DataItem { Kind = DataKind.DatagramOperation, Receiver = this, Payload = operation },
            atOnce: true))
        {
            EndOperation(operation, SendResult.Closed);
        }
    }

    internal override void DrainOperation(object operation) => DrainOperation((DatagramSendOperation)operation);

    private void DrainOperation(DatagramSendOperation operation)
    {
        if (operation.IsCancelRequested)
        {
            CancelOperation(operation);
            return;
        }

        if (_life is not (Life.Bound or Life.Open or Life.Draining) || _isDetaching)
        {
            EndOperation(operation, SendResult.Closed);
            return;
        }

        if (_lastOperation is null) _firstOperation = operation;
        else _lastOperation.Next = operation;
        _lastOperation = operation;
        operation.IsListed = true;
        Loop.Schedule(this);
    }

    private void PumpOperations()
    {
        while (_firstOperation is { } operation && HasRoom(operation.Data.Length, 1))
        {
            Unlist(operation, null);
            ReadOnlySpan<byte> data;
            try
            {
                data = operation.Data.Span;
            }
            catch (Exception e)
            {
                // The caller's memory has thrown: the caller gets the exception.
                Interlocked.Decrement(ref _operationCount);
                operation.SetException(e);
                continue;
            }

            bool mayAnswer = MayAnswer(in operation.Peer, 1, data.Length);
            if (mayAnswer) Queue.Append(data, data.Length, in operation.Peer);
            EndOperation(operation, mayAnswer ? SendResult.Queued : SendResult.Refused);
        }
    }

    /// <summary>Cancels a wait. The loop's thread.</summary>
    internal void CancelOperation(DatagramSendOperation operation)
    {
        if (operation.IsListed)
        {
            DatagramSendOperation? before = null;
            for (DatagramSendOperation? one = _firstOperation;
                one is not null && !ReferenceEquals(one, operation); one = one.Next)
                before = one;
            Unlist(operation, before);
        }

        Interlocked.Decrement(ref _operationCount);
        operation.EndCancelled();
        Loop.Schedule(this);
    }

    private void Unlist(DatagramSendOperation operation, DatagramSendOperation? before)
    {
        if (before is null) _firstOperation = operation.Next;
        else before.Next = operation.Next;
        if (ReferenceEquals(_lastOperation, operation)) _lastOperation = before;
        operation.Next = null;
        operation.IsListed = false;
    }

    private void EndOperation(DatagramSendOperation operation, SendResult result)
    {
        Interlocked.Decrement(ref _operationCount);
        operation.SetResult(result);
    }

    // ------------------------------------------------------------------ called by the engine

    private void SendQueued()
    {
        IsSendInFlight = true;
        _engine.StartSend(this);
    }

    internal override void AdvanceSend(int count, int calls)
    {
        long before = Queue.Bytes;
        _retries = 0;
        if (_isStuck && Queue[0].Peer == _stuckPeer) _isStuck = false;
        Queue.Remove(count);
        DatagramsSent += count;
        BytesSent += before - Queue.Bytes;
        SendCalls += calls;
    }

    internal override void FailSend(int error)
    {
        ref QueuedDatagram head = ref Queue[0];
        DatagramFault fault = new(head.Peer.IsNone ? Remote : head.Peer, DatagramErrors.Of(error), head.Length, 0);
        Queue.Remove(1);
        Failed++;
        AddNote(in fault, isPeerError: false);
    }

    internal override void CompleteSend()
    {
        IsSendInFlight = false;
        if (_life == Life.Closed) return;
        if (Queue.Count > 0 || _firstOperation is not null || _owesDrained || _life == Life.Draining)
            Loop.Schedule(this);
    }

    /// <summary>
    /// Tries again soon, because the receiver's queue of a Unix datagram is full and no event reports when it has
    /// space. A receiver that accepts nothing for <see cref="RetriesForOne"/> tries is skipped, with all its further
    /// datagrams, until it accepts one: it must not delay other receivers.
    /// </summary>
    internal override void RetrySend()
    {
        DatagramPeer peer = Queue[0].Peer;
        if (peer == _stuckPeer && _isStuck || ++_retries > RetriesForOne)
        {
            _isStuck = true;
            _stuckPeer = peer;
            _retries = 0;
            FailSend(Linux.Errno.EAGAIN);
            CompleteSend();
            return;
        }

        _retry ??= Loop.StartTimer(TimeSpan.FromMilliseconds(RetryMs),
            static resident => ((LoopSocket)resident!).Retry(), this);
        if (!_retry.IsActive) _retry.Start(TimeSpan.FromMilliseconds(RetryMs));
    }

    private void Retry()
    {
        if (_isDetaching || Queue.Count == 0 || !IsSendInFlight) return;
        _engine.StartSend(this);
    }

    internal override void RoomAgain()
    {
        _owesDrained = true;
        Loop.Schedule(this);
    }

    /// <summary>Serves calls that wait for space, and checks for the end. In the completion phase.</summary>
    private void AfterSends()
    {
        if (_firstOperation is not null)
        {
            PumpOperations();
            if (Queue.Count > 0 && !IsSendInFlight) Loop.Schedule(this);
        }

        if (_owesDrained && Queue.Count == 0 && _life == Life.Open)
        {
            _owesDrained = false;
            TellDrained();
        }

        if (_life == Life.Draining && !HasSends && !IsSendInFlight && _noteCount == 0) Detach();
    }

    private void TellDrained()
    {
        if (_handler is not { } handler) return;
        Enter("OnDrained");
        try
        {
            handler.CallDrained();
        }
        catch (Exception e)
        {
            Threw(e);
        }

        Leave();
    }

    /// <summary>Called when the descriptor is closed: queued datagrams are never sent.</summary>
    private void AbandonSends()
    {
        Abandoned += Queue.Count;
        Queue.Free();
        InFlightHeads = 0;
        IsSendInFlight = false;
        _retry?.Cancel();
        while (_firstOperation is { } operation)
        {
            Unlist(operation, null);
            EndOperation(operation, SendResult.Closed);
        }
    }
}
