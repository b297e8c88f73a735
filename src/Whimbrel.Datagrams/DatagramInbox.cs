using System.Diagnostics.CodeAnalysis;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;

namespace Whimbrel.Datagrams;

/// <summary>
/// Queue of received datagrams for a socket without a handler: the loop adds them, and receive calls of any thread take
/// them in FIFO order. At its limit the loop stops receiving, and continues when half of it is free.
/// </summary>
[SuppressMessage("Design", "CA1001", Justification = "A blocked thread may still be leaving the wait when the socket "
    + "is closed: the collector frees the event.")]
internal sealed class DatagramInbox(Engine engine, int limitBytes)
{
    /// <summary>Size that an entry counts in addition, so that a flood of empty datagrams is bounded, too.</summary>
    private const int EntryBytes = 64;

    private readonly Lock _gate = new();
    private readonly DatagramQueue _waiting = new();
    private readonly Stack<DatagramReceiveOperation> _free = new();
    private readonly ManualResetEventSlim _arrived = new();
    private readonly LinkedList<DatagramReceiveOperation> _receivers = new();
    private Exception? _failure;
    private LoopSocket? _resident;
    private bool _isStopped; // receiving, because the inbox was full
    private bool _isClosed;

    internal bool IsFull { get; private set; }

    private long Held => _waiting.Bytes + ((long)_waiting.Count * EntryBytes);

    // ------------------------------------------------------------------ the loop

    internal void BelongTo(LoopSocket resident) => _resident = resident;

    /// <summary>Adds a datagram, always. Returns false if the loop should stop receiving.</summary>
    internal bool Put(ReadOnlySpan<byte> data, int length, in DatagramPeer peer)
    {
        while (true)
        {
            DatagramReceiveOperation? receiver;
            lock (_gate)
            {
                receiver = TakeReceiver();
                if (receiver is null)
                {
                    _waiting.Append(data, length, in peer);
                    if (Held >= limitBytes) IsFull = _isStopped = true;
                    _arrived.Set();
                    return !IsFull;
                }
            }

            int count = Math.Min(data.Length, receiver.Target.Length);
            try
            {
                data[..count].CopyTo(receiver.Target.Span);
            }
            catch (Exception e)
            {
                // The caller's memory has thrown: the caller gets the exception, and the next one the datagram.
                receiver.SetException(e);
                continue;
            }

            receiver.SetResult(new ReceivedDatagram(count, length, peer));
            return true;
        }
    }

    /// <summary>Fails one receive call with an error of the connected peer: a waiting one, or the next.</summary>
    internal void Fail(Exception failure)
    {
        DatagramReceiveOperation? receiver;
        lock (_gate)
        {
            receiver = TakeReceiver();
            if (receiver is null)
            {
                _failure = failure;
                _arrived.Set();
                return;
            }
        }

        receiver.SetException(failure);
    }

    /// <summary>Called when the socket is closed. Stored datagrams can still be received.</summary>
    internal void Close()
    {
        List<DatagramReceiveOperation> receivers = [];
        lock (_gate)
        {
            _isClosed = true;
            while (TakeReceiver() is { } receiver) receivers.Add(receiver);
            _arrived.Set();
        }

        foreach (DatagramReceiveOperation receiver in receivers) receiver.SetException(ClosedError());
    }

    /// <summary>Frees the memory, when no caller can receive any more.</summary>
    internal void Free()
    {
        lock (_gate) _waiting.Free();
    }

    private DatagramReceiveOperation? TakeReceiver()
    {
        if (_receivers.First is not { } first) return null;
        _receivers.RemoveFirst();
        return first.Value;
    }

    private static NetworkException ClosedError() =>
        new(new NetworkError(0, ErrorCategory.Cancelled,
            "The datagram socket was stopped: nothing is received any more."));

    // ------------------------------------------------------------------ any thread

    internal ValueTask<ReceivedDatagram> ReceiveAsync(Memory<byte> target, CancellationToken cancellationToken)
    {
        if (cancellationToken.IsCancellationRequested)
            return ValueTask.FromCanceled<ReceivedDatagram>(cancellationToken);
        DatagramReceiveOperation operation;
        ValueTask<ReceivedDatagram> task;
        lock (_gate)
        {
            if (_receivers.Count == 0 && TryTake(target.Span, out ReceivedDatagram datagram))
                return new ValueTask<ReceivedDatagram>(datagram);
            if (TakeFailure() is { } failure) return ValueTask.FromException<ReceivedDatagram>(failure);
            operation = _free.Count > 0 ? _free.Pop() : new DatagramReceiveOperation(engine, this);
            operation.Target = target;
            _receivers.AddLast(operation.Place);
            task = operation.Task;
        }

        operation.WatchCancellation(cancellationToken);
        return task;
    }

    /// <summary>Receives a datagram; returns false after the timeout. Blocks; not on a loop's thread.</summary>
    internal bool TryReceive(Span<byte> target, TimeSpan timeout, out ReceivedDatagram datagram)
    {
        if (Loop.Current is not null) Throw.BlocksLoop("Receive");
        datagram = default;
        long end = timeout == Timeout.InfiniteTimeSpan ? long.MaxValue : engine.NowMs + Loop.WholeMs(timeout);
        while (true)
        {
            lock (_gate)
            {
                if (_receivers.Count == 0 && TryTake(target, out datagram)) return true;
                if (TakeFailure() is { } failure) throw failure;
                _arrived.Reset();
            }

            long left = end == long.MaxValue ? -1 : end - engine.NowMs;
            if (end != long.MaxValue && left <= 0) return false;
            engine.Block(_arrived, TimeSpan.FromMilliseconds(left));
        }
    }

    private bool TryTake(Span<byte> target, out ReceivedDatagram datagram)
    {
        datagram = default;
        if (_waiting.Count == 0) return false;
        TakeFirst(target, out datagram);
        if (_isStopped && Held <= limitBytes / 2)
        {
            IsFull = _isStopped = false;
            LoopSocket resident = _resident!;
            resident.Loop.PostControl(static (_, r, _, _) => ((LoopSocket)r!).ResumeInbox(), resident);
        }

        return true;
    }

    // Safe: the bytes of an entry stay until it is removed.
    private unsafe void TakeFirst(Span<byte> target, out ReceivedDatagram datagram)
    {
        ref QueuedDatagram entry = ref _waiting[0];
        int count = Math.Min(entry.Length, target.Length);
        new ReadOnlySpan<byte>(entry.Data, count).CopyTo(target);
        datagram = new ReceivedDatagram(count, entry.FullLength, entry.Peer);
        _waiting.Remove(1);
    }

    private Exception? TakeFailure()
    {
        if (_failure is { } failure)
        {
            _failure = null;
            return failure;
        }

        return _isClosed ? ClosedError() : null;
    }

    /// <summary>Cancels a wait. Returns true if it was still pending.</summary>
    internal bool TryCancel(DatagramReceiveOperation operation)
    {
        lock (_gate)
        {
            if (operation.Place.List is null) return false;
            _receivers.Remove(operation.Place);
            return true;
        }
    }

    internal void Return(DatagramReceiveOperation operation)
    {
        lock (_gate)
        {
            if (_free.Count < 64) _free.Push(operation);
        }
    }
}
