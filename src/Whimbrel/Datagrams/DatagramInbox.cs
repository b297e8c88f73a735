using System.Diagnostics.CodeAnalysis;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;

namespace Whimbrel.Datagrams;

/// <summary>
/// Pull style: where the datagrams of a socket without a handler wait for receive calls. The loop puts in; any thread takes out, first
/// come first served. At its limit the loop stops receiving, and goes on when half of it is free.
/// </summary>
[SuppressMessage("Design", "CA1001", Justification = "Whoever blocks may still be on its way out of the wait when the socket is closed: the collector frees the event.")]
internal sealed class DatagramInbox(Engine engine, int limitBytes)
{
    /// <summary>What an empty datagram counts, so that a flood of them is bounded too.</summary>
    private const int EntryBytes = 64;

    private readonly Lock _gate = new();
    private readonly DatagramQueue _waiting = new();
    private readonly Stack<DatagramReceiveOperation> _free = new();
    private readonly ManualResetEventSlim _arrived = new();
    private readonly LinkedList<DatagramReceiveOperation> _receivers = new();
    private Exception? _failure;
    private DatagramResident? _resident;
    private bool _isStopped; // receiving, for lack of room
    private bool _isClosed;

    internal bool IsFull { get; private set; }

    private long Held => _waiting.Bytes + ((long)_waiting.Count * EntryBytes);

    // ------------------------------------------------------------------ the loop's side

    internal void BelongTo(DatagramResident resident) => _resident = resident;

    /// <summary>False when no more is wanted for now. What is put is always kept.</summary>
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
                // The caller's memory: he is told, and the next one gets the datagram.
                receiver.SetException(e);
                continue;
            }

            receiver.SetResult(new ReceivedDatagram(count, length, peer));
            return true;
        }
    }

    /// <summary>Tells one receive call of an error of the connected peer: who waits, or the next.</summary>
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

    /// <summary>The socket is closed. What is here can still be taken.</summary>
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

    /// <summary>Nobody can take anything any more.</summary>
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
        new(new NetworkError(0, ErrorCategory.Cancelled, "The datagram socket was stopped: nothing is received any more."));

    // ------------------------------------------------------------------ any thread

    internal ValueTask<ReceivedDatagram> ReceiveAsync(Memory<byte> target, CancellationToken cancellationToken)
    {
        if (cancellationToken.IsCancellationRequested) return ValueTask.FromCanceled<ReceivedDatagram>(cancellationToken);
        DatagramReceiveOperation operation;
        ValueTask<ReceivedDatagram> task;
        lock (_gate)
        {
            if (_receivers.Count == 0 && TryTake(target.Span, out ReceivedDatagram datagram)) return new ValueTask<ReceivedDatagram>(datagram);
            if (TakeFailure() is { } failure) return ValueTask.FromException<ReceivedDatagram>(failure);
            operation = _free.Count > 0 ? _free.Pop() : new DatagramReceiveOperation(engine, this);
            operation.Target = target;
            _receivers.AddLast(operation.Place);
            task = operation.Task;
        }

        operation.WatchCancellation(cancellationToken);
        return task;
    }

    /// <summary>False when the time passed. Blocks; not on a loop's thread.</summary>
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
            DatagramResident resident = _resident!;
            resident.Loop.PostControl(static (_, r, _, _) => ((DatagramResident)r!).ResumeInbox(), resident);
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

    /// <summary>A wait was cancelled. True when it was still waiting.</summary>
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
