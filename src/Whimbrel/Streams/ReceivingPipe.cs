using System.Buffers;
using System.IO.Pipelines;
using Whimbrel.Buffers;
using Whimbrel.Connections;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;

namespace Whimbrel.Streams;

/// <summary>
/// The reading half of a <see cref="ConnectionPipe"/> or a <see cref="ConnectionStream"/>. Received data is copied
/// once, into segments that the reader of a pipe sees and returns by consuming them, and from which a stream copies to
/// its caller. Large amounts are received directly into such a segment, without a copy.
/// </summary>
/// <remarks>
/// The loop adds data, the reader removes it on any thread: both under one lock, so that a read on the pool does not
/// need the loop. No user code runs inside the lock, and nothing waits there. Positions are counted in bytes since the
/// beginning: <c>consumed &lt;= examined &lt;= received</c>.
/// </remarks>
[System.Diagnostics.CodeAnalysis.SuppressMessage("Design", "CA1001", Justification = "A token source without a timer "
    + "or a wait handle owns nothing to release, and its token may be used after the end.")]
internal sealed class ReceivingPipe(PipeSession session, ConnectionPipeOptions options) : PipeReader
{
    private readonly Lock _gate = new();
    private PipeSegment? _first; // contains the first unconsumed byte
    private PipeSegment? _last;
    private PipeSegment? _room; // for the current receive; used by the loop
    private PipeWait<ReadResult>? _read;
    private StreamRead? _streamRead;
    private long _consumed;
    private long _examined;
    private long _received;
    private CancellationTokenSource? _ended;
    private Exception? _failure;
    private bool _isReading; // a result was returned: AdvanceTo comes next
    private bool _mayAdvance; // also after a cancelled result
    private bool _isCancelled;
    private bool _isHolding;
    private bool _isFinished;
    private bool _isCompleted;
    private bool _hasEnded;

    // ------------------------------------------------------------------ the reader: any thread, one at a time

    public override ValueTask<ReadResult> ReadAsync(CancellationToken cancellationToken = default)
    {
        if (cancellationToken.IsCancellationRequested) return ValueTask.FromCanceled<ReadResult>(cancellationToken);
        ValueTask<ReadResult> task;
        lock (_gate)
        {
            CheckReadable();
            if (TryTake(out ReadResult result, out Exception? failure))
                return failure is null ? new(result) : ValueTask.FromException<ReadResult>(failure);
            _read ??= new PipeWait<ReadResult>(_gate, session.Loop, options.Scheduler);
            task = _read.Begin(cancellationToken);
        }

        _read.Watch(cancellationToken);
        return task;
    }

    public override bool TryRead(out ReadResult result)
    {
        Exception? failure;
        lock (_gate)
        {
            CheckReadable();
            if (!TryTake(out result, out failure)) return false;
        }

        if (failure is not null) throw failure;
        return true;
    }

    public override void AdvanceTo(SequencePosition consumed) => AdvanceTo(consumed, consumed);

    public override void AdvanceTo(SequencePosition consumed, SequencePosition examined)
    {
        bool resumes;
        lock (_gate)
        {
            if (_isCompleted) ThrowCompleted();
            if (!_mayAdvance)
                Throw.State("There is no read to complete: AdvanceTo comes once after each ReadAsync or TryRead that "
                    + "gave a result.");
            long upTo = PlaceOf(consumed), seenTo = PlaceOf(examined);
            if (upTo < _consumed || upTo > seenTo || seenTo > _received)
                Throw.OutOfRange(nameof(consumed), upTo, $"between {_consumed} and examined, and examined ({seenTo}) "
                    + $"up to {_received}: positions of the buffer that the last read gave");
            resumes = Advance(upTo, seenTo);
        }

        if (resumes) session.ResumeReceiving();
    }

    /// <summary>Ends a read. Returns true if it ends a hold. Under the lock.</summary>
    private bool Advance(long upTo, long seenTo)
    {
        _isReading = _mayAdvance = false;
        _examined = Math.Max(_examined, seenTo);
        Release(upTo);
        if (!_isHolding || _received - _examined > options.HoldBytes / 2) return false;
        _isHolding = false;
        return true;
    }

    public override void CancelPendingRead()
    {
        ReadResult result;
        lock (_gate)
        {
            _isCancelled = true;
            if (!IsWaiting) return;
            _read!.End();
            TryTake(out result, out _);
        }

        _read!.SetResult(result);
    }

    public override void Complete(Exception? exception = null)
    {
        if (!Discard()) return;
        using (session.Posting()) session.InputCompleted(exception);
    }

    /// <summary>
    /// Discards kept and further data, so that the end of stream can be received. Returns false if it was called
    /// before. Any thread.
    /// </summary>
    internal bool Discard()
    {
        bool resumes, waited;
        lock (_gate)
        {
            if (_isCompleted) return false;
            _isCompleted = true;
            waited = IsWaiting;
            if (waited) _read!.End();
            _isReading = _mayAdvance = false;
            Release(_received);
            resumes = _isHolding;
            _isHolding = false;
        }

        if (waited)
            _read!.SetException(session.Stream is not null
                ? PipeSession.Disposed()
                : new InvalidOperationException("The reader was completed while a read waited."));
        if (resumes) session.ResumeReceiving();
        return true;
    }

    private void CheckReadable()
    {
        if (_isCompleted) ThrowCompleted();
        if (IsWaiting) Throw.State("A read is pending: one read at a time. Await it before the next.");
        if (_isReading)
            Throw.State("The last read was not completed: say by AdvanceTo what was consumed before the next.");
    }

    private bool IsWaiting => _read is { IsWaiting: true };

    private static void ThrowCompleted() => Throw.State("The reader was completed: reading is not allowed any more.");

    /// <summary>Returns the result of a read that need not wait; false if it must wait. Under the lock.</summary>
    private bool TryTake(out ReadResult result, out Exception? failure)
    {
        failure = null;
        result = default;
        bool isNews = _received > _examined || _isFinished || _isCancelled;
        if (!isNews)
        {
            failure = _failure;
            return failure is not null;
        }

        result = new ReadResult(Unread, _isCancelled, _isFinished);
        // After a cancelled read the next one may come without AdvanceTo, as with every pipe.
        _isReading = !_isCancelled;
        _mayAdvance = true;
        _isCancelled = false;
        return true;
    }

    private ReadOnlySequence<byte> Unread =>
        _first is null ? default : new(_first, (int)(_consumed - _first.RunningIndex), _last!, _last!.Length);

    /// <summary>
    /// Returns the position in the stream. All positions of an empty buffer are its beginning; positions in returned
    /// segments are invalid.
    /// </summary>
    private long PlaceOf(SequencePosition position) => position.GetObject() is not PipeSegment segment ? _consumed
        : ReferenceEquals(segment.Owner, this) ? segment.RunningIndex + position.GetInteger()
        : long.MinValue;

    private void Release(long upTo)
    {
        _consumed = upTo;
        PipeSegment? released = _first, end = null;
        while (_first is { } segment && (upTo == _received || upTo - segment.RunningIndex >= segment.Length))
        {
            _first = segment.NextSegment;
            end = segment;
        }

        if (end is null) return;
        end.NextSegment = null;
        if (_first is null) _last = null;
        session.Loop.PipeSegments.Return(released);
    }

    // ------------------------------------------------------------------ the reads of a stream: any thread

    /// <summary>Reads into the memory of the caller. Of length 0, it only waits.</summary>
    internal ValueTask<int> ReadAsync(Memory<byte> into, CancellationToken cancellationToken)
    {
        ValueTask<ReadResult> read = ReadAsync(cancellationToken);
        if (!read.IsCompleted) return (_streamRead ??= new StreamRead(this)).Begin(_read!, into);
        if (!read.IsCompletedSuccessfully) return Failed(read);
        _ = read.Result;
        return new ValueTask<int>(Take(into));
    }

    private static async ValueTask<int> Failed(ValueTask<ReadResult> read)
    {
        await read.ConfigureAwait(false);
        return 0;
    }

    /// <summary>
    /// Reads and blocks. A read that has timed out is withdrawn without the loop, which may be blocked.
    /// </summary>
    internal int Read(Memory<byte> into, int timeoutMs)
    {
        if (PoolSession.Current is { } pool && pool.Runs(session))
            Throw.State(
                "Read would wait for the next callback of its own session. Await ReadAsync, or read elsewhere.");
#pragma warning disable CA2012 // its result is taken once, when this thread has waited for it
        ValueTask<ReadResult> read = ReadAsync(CancellationToken.None);
#pragma warning restore CA2012
        if (!read.IsCompleted && _read!.SignalWhenCompleted() is { } signal
            && !session.Loop.Engine.Block(signal, TimeSpan.FromMilliseconds(timeoutMs)))
        {
            if (TryWithdraw())
                throw new NetworkException(new NetworkError(0, ErrorCategory.Timeout,
                    $"Nothing was received within {timeoutMs} ms (ReadTimeout). The stream may still be used."));
            session.Loop.Engine.Block(signal, Timeout.InfiniteTimeSpan);
        }

        _ = read.Result;
        return Take(into);
    }

    private bool TryWithdraw()
    {
        lock (_gate)
        {
            if (!IsWaiting) return false;
            _read!.End();
            // It has the signal of this thread, so the next read uses another one.
            _read = null;
            return true;
        }
    }

    /// <summary>
    /// Ends a successful read: copies what fits. Returns the number of bytes, 0 at the end of stream.
    /// </summary>
    internal int Take(Memory<byte> into)
    {
        Span<byte> room;
        try
        {
            room = into.Span;
        }
        catch
        {
            // The memory belongs to the application and may throw: the data stays for the next read.
            lock (_gate) Advance(_consumed, _examined);
            throw;
        }

        int count;
        bool resumes;
        lock (_gate)
        {
            // A dispose meanwhile has released the segments.
            if (_isCompleted) throw PipeSession.Disposed();
            ReadOnlySequence<byte> unread = Unread;
            count = (int)Math.Min(unread.Length, room.Length);
            unread.Slice(0, count).CopyTo(room);
            resumes = Advance(_consumed + count, _consumed + count);
        }

        if (resumes) session.ResumeReceiving();
        return count;
    }

    // ------------------------------------------------------------------ the session: its thread

    internal void Receive(ReadOnlySpan<byte> data)
    {
        ReadResult result = default;
        bool wakes, holds = false;
        lock (_gate)
        {
            if (_isCompleted) return;
            Append(data);
            wakes = IsWaiting;
            if (wakes)
            {
                _read!.End();
                TryTake(out result, out _);
            }
            else if (!_isHolding && _received - _examined >= options.HoldBytes)
            {
                _isHolding = holds = true;
            }
        }

        if (wakes) _read!.SetResult(result);
        if (!holds) return;
        session.PauseReceiving();
        // On the pool, a reader that has ended the hold meanwhile may have resumed before.
        lock (_gate) holds = _isHolding;
        if (!holds) session.ResumeReceiving();
    }

    /// <summary>
    /// Returns memory for the next receive. The reader does not see the segment before it contains data, so it is not
    /// among the returned ones.
    /// </summary>
    internal Span<byte> LendRoom()
    {
        _room = session.Loop.PipeSegments.Take(this, PipeSegments.Long, _received);
        return _room.RoomSpan;
    }

    internal void DropRoom()
    {
        if (_room is not { } room) return;
        _room = null;
        session.Loop.PipeSegments.Return(room);
    }

    private void Append(ReadOnlySpan<byte> data)
    {
        // Fewer bytes are not worth a segment of this length.
        if (_room is { } room && data.Length >= PipeSegments.BulkBytes
            && (ReadOnlySpan<byte>)room.RoomSpan[..data.Length] == data)
        {
            _room = null;
            Link(room);
            room.Advance(data.Length);
            _received += data.Length;
            return;
        }

        while (!data.IsEmpty)
        {
            if (_last is not { RoomLength: > 0 })
                Link(session.Loop.PipeSegments.Take(this,
                    data.Length > PipeSegments.BulkBytes ? PipeSegments.Long : PipeSegments.Short, _received));

            int count = Math.Min(_last!.RoomLength, data.Length);
            data[..count].CopyTo(_last.RoomSpan);
            _last.Advance(count);
            _received += count;
            data = data[count..];
        }
    }

    private void Link(PipeSegment segment)
    {
        if (_last is null) _first = segment;
        else _last.NextSegment = segment;
        _last = segment;
    }

    /// <summary>Called for the peer's FIN.</summary>
    internal void Finish() => EndReads(isFinished: true, null);

    /// <summary>
    /// Called when the connection has ended. Data received before can still be read; after the peer's FIN there is no
    /// more.
    /// </summary>
    internal void End(CloseReason reason)
    {
        if (!_isFinished) EndReads(isFinished: false, FailureOf(reason));
    }

    private Exception FailureOf(CloseReason reason)
    {
        try
        {
            if (options.ReadFailure is { } make) return make(reason);
        }
        catch (Exception e)
        {
            return e;
        }

        return PipeSession.EndOf("read", reason);
    }

    private void EndReads(bool isFinished, Exception? failure)
    {
        ReadResult result = default;
        CancellationTokenSource? ended;
        bool wakes;
        lock (_gate)
        {
            _isFinished = isFinished;
            _failure = failure;
            _hasEnded = true;
            ended = _ended;
            wakes = IsWaiting;
            if (wakes)
            {
                _read!.End();
                if (isFinished) TryTake(out result, out _);
            }
        }

        if (wakes && failure is null) _read!.SetResult(result);
        else if (wakes) _read!.SetException(failure!);
        if (ended is not null) TellEnded(ended);
    }

    // ------------------------------------------------------------------ the token of the end

    internal CancellationToken Ended
    {
        get
        {
            lock (_gate)
            {
                if (_ended is null)
                {
                    _ended = new CancellationTokenSource();
                    if (_hasEnded) _ended.Cancel(); // no callback is registered yet
                }

                return _ended.Token;
            }
        }
    }

    /// <summary>Cancels the token on the pool, because its callbacks are user code that may block or throw.</summary>
    private void TellEnded(CancellationTokenSource source)
    {
        session.Loop.Engine.Offload(
            static state =>
            {
                (PipeSession session, CancellationTokenSource source) = ((PipeSession, CancellationTokenSource))state!;
                try
                {
                    source.Cancel();
                }
                catch (Exception e)
                {
                    session.RegisteredThrew(e);
                }
            },
            (session, source));
    }
}
