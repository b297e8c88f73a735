using System.Buffers;
using System.IO.Pipelines;
using Whimbrel.Buffers;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;

namespace Whimbrel.Streams;

/// <summary>
/// The writing half of a <see cref="ConnectionPipe"/>: written data is kept in its own segments until a flush passes it
/// to the send queue as one message. If it does not fit there, it waits (<see cref="PipeSend"/>), and so does the
/// flush.
/// </summary>
/// <remarks>
/// One thread at a time writes; the end of a send and a cancellation are under the lock. Data of a cancelled flush is
/// still sent in order.
/// </remarks>
internal sealed class SendingPipe(PipeSession session, ConnectionPipeOptions options) : PipeWriter
{
    private readonly Lock _gate = new();
    private PipeSegment? _first;
    private PipeSegment? _last;
    private PipeSend? _freeSend;
    private PipeWait<FlushResult>? _flush;
    private long _before; // bytes written in the segments before the last one
    private int _waiting; // number of sends that wait for space
    private bool _isCancelled;
    private bool _isCompleted;
    private bool _hasEnded;

    // ------------------------------------------------------------------ writing

    public override bool CanGetUnflushedBytes => true;

    public override long UnflushedBytes => _before + (_last?.Length ?? 0);

    public override Memory<byte> GetMemory(int sizeHint = 0) => SegmentFor(sizeHint).Room;

    public override Span<byte> GetSpan(int sizeHint = 0) => SegmentFor(sizeHint).RoomSpan;

    public override void Advance(int bytes)
    {
        if (bytes == 0 && _last is null) return;
        if (_last is null || (uint)bytes > (uint)_last.RoomLength)
            Throw.OutOfRange(nameof(bytes), bytes,
                $"between 0 and the {_last?.RoomLength ?? 0} bytes of the last GetMemory or GetSpan");
        _last!.Advance(bytes);
    }

    private PipeSegment SegmentFor(int sizeHint)
    {
        if (sizeHint < 0) Throw.OutOfRange(nameof(sizeHint), sizeHint, "0 or more");
        CheckWritable();
        int least = Math.Max(sizeHint, 1);
        if (_last is { } last && last.RoomLength >= least) return last;
        return AddSegment(least);
    }

    private PipeSegment AddSegment(int least)
    {
        if (_last is { } last) _before += last.Length;
        PipeSegment segment = session.Loop.PipeSegments.Take(this,
            Math.Max(least, _last is null ? PipeSegments.Short : PipeSegments.Long), _before);
        if (_last is null) _first = segment;
        else _last.NextSegment = segment;

        return _last = segment;
    }

    private bool IsWaiting => _flush is { IsWaiting: true };

    private void CheckWritable()
    {
        if (_isCompleted) Throw.State("The writer was completed: writing is not allowed any more.");
    }

    // ------------------------------------------------------------------ flushing

    public override ValueTask<FlushResult> FlushAsync(CancellationToken cancellationToken = default)
    {
        CheckWritable();
        if (cancellationToken.IsCancellationRequested) return ValueTask.FromCanceled<FlushResult>(cancellationToken);
        if (IsWaiting) Throw.State("A flush is pending on this pipe: one flush at a time. Await it before the next.");
        SendResult sent;
        using (session.Posting()) sent = SendWritten();
        if (Volatile.Read(ref _waiting) == 0) return new(ResultNow(sent == SendResult.Closed));
        // The code that waits for the loop may be what blocks the pool, so the loop is woken now.
        session.Loop.Mailbox.WakeIfSleeping();
        return WaitForRoom(cancellationToken);
    }

    public override ValueTask<FlushResult> WriteAsync(ReadOnlyMemory<byte> source,
        CancellationToken cancellationToken = default)
    {
        CheckWritable();
        if (cancellationToken.IsCancellationRequested) return ValueTask.FromCanceled<FlushResult>(cancellationToken);
        if (UnflushedBytes == 0 && Volatile.Read(ref _waiting) == 0)
        {
            // Sent directly from the caller's memory, if there is space.
            SendResult sent;
            using (session.Posting()) sent = session.SendIfRoom(source.Span);
            if (sent != SendResult.Full) return new(ResultNow(sent == SendResult.Closed));
        }

        // Copied, because the send may wait, and a cancelled wait returns the memory to the caller.
        this.Write(source.Span);
        return FlushAsync(cancellationToken);
    }

    private FlushResult ResultNow(bool isClosed)
    {
        bool isCancelled = false;
        if (Volatile.Read(ref _isCancelled))
        {
            lock (_gate)
            {
                isCancelled = _isCancelled;
                _isCancelled = false;
            }
        }

        return new FlushResult(isCancelled, isClosed || Volatile.Read(ref _hasEnded));
    }

    /// <summary>Passes the written data to the queue, or to a send that waits for space there.</summary>
    private SendResult SendWritten()
    {
        if (_first is not { } first) return SendResult.Queued;
        ReadOnlySequence<byte> written = new(first, 0, _last!, _last!.Length);
        _first = _last = null;
        _before = 0;
        SendResult result = SendResult.Queued;
        if (written.IsEmpty)
        {
            GiveBack(first);
            return result;
        }

        if (session.BeginSend(written, out result) is { } operation)
        {
            PipeSend send = Interlocked.Exchange(ref _freeSend, null) ?? new PipeSend(this);
            // Before the operation can end.
            lock (_gate) _waiting++;
            send.Begin(first, operation);
            return SendResult.Queued;
        }

        GiveBack(first);
        return result;
    }

    private void GiveBack(PipeSegment? first) => session.Loop.PipeSegments.Return(first);

    private ValueTask<FlushResult> WaitForRoom(CancellationToken cancellation)
    {
        ValueTask<FlushResult> task;
        lock (_gate)
        {
            if (_waiting == 0 || _isCancelled)
            {
                FlushResult result = new(_isCancelled, _hasEnded);
                _isCancelled = false;
                return new(result);
            }

            _flush ??= new PipeWait<FlushResult>(_gate, session.Loop, options.Scheduler);
            task = _flush.Begin(cancellation);
        }

        _flush.Watch(cancellation);
        return task;
    }

    /// <summary>Called when a waiting send is queued, or the connection has ended. Any thread.</summary>
    internal void Ended(PipeSend send, PipeSegment first, bool isClosed)
    {
        _freeSend = send;
        GiveBack(first);
        lock (_gate)
        {
            _waiting--;
            _hasEnded |= isClosed;
            if (_waiting > 0 || !IsWaiting) return;
            _flush!.End();
        }

        _flush!.SetResult(new FlushResult(isCanceled: false, _hasEnded));
    }

    // ------------------------------------------------------------------ cancelling

    public override void CancelPendingFlush()
    {
        lock (_gate)
        {
            if (!IsWaiting)
            {
                _isCancelled = true;
                return;
            }

            _flush!.End();
        }

        _flush!.SetResult(new FlushResult(isCanceled: true, _hasEnded));
    }

    // ------------------------------------------------------------------ the end

    public override void Complete(Exception? exception = null)
    {
        if (_isCompleted) return;
        using WakeUpBatch posting = session.Posting();
        if (exception is null) SendWritten();
        _isCompleted = true;
        GiveBack(_first);
        _first = _last = null;
        _before = 0;
        session.OutputCompleted(exception);
    }

    /// <summary>Called when the connection has ended: flushes report it.</summary>
    internal void End() => Volatile.Write(ref _hasEnded, true);
}
