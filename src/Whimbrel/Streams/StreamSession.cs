using Whimbrel.Buffers;
using Whimbrel.Connections;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;

namespace Whimbrel.Streams;

/// <summary>
/// The session inside a <see cref="ConnectionStream"/>: converts callbacks into reads, with members that any session
/// may use. <see cref="OnData"/> copies data into the memory of the pending read. Without one the data is kept, and
/// at <see cref="HoldBytes"/> reading pauses, so that the peer's window fills and the peer waits.
/// </summary>
/// <remarks>
/// Everything here runs on the loop, unless a member's documentation says otherwise. The data is kept here and not as
/// unread bytes of the connection, because those end with the connection, and a reader may come later
/// (docs/design/0012).
/// </remarks>
internal sealed class StreamSession : Session
{
    /// <summary>
    /// Number of kept bytes, without a pending read, at which reading pauses. One receive may exceed it.
    /// </summary>
    internal const int HoldBytes = 64 * 1024;

    private readonly ServedHandler<ConnectionStream>? _handler;
    private Completion<ConnectionStream>? _taken;
    private StreamRead? _read; // the reader's object, reused
    private StreamRead? _waiting; // pending read; used by the loop
    private UnreadStore _kept;
    private CancellationTokenRegistration _registration;
    private CloseReason _reason;
    private bool _isHolding;
    private bool _isFinished;
    private volatile bool _serverStops;
    private bool _hasEnded;
    private bool _isClosed;
    private int _isReading;

    internal StreamSession(Func<ConnectionStream, CancellationToken, Task>? handler)
    {
        Stream = new ConnectionStream(this);
        if (handler is not null) _handler = new ServedHandler<ConnectionStream>(this, Stream, handler);
    }

    internal ConnectionStream Stream { get; }

    /// <summary>Implements <see cref="ConnectionStream.TakeOverAsync"/>.</summary>
    internal static ValueTask<ConnectionStream> TakeOver(Session session)
    {
        Completion<ConnectionStream> taken = new(session.Loop.Engine);
        ValueTask<ConnectionStream> task = taken.Task;
        session.HandOverTo(new StreamSession(null) { _taken = taken }, new TakeOverIntake<ConnectionStream>(taken));
        return task;
    }

    /// <summary>Reason of the end, or the default before. Any thread, once it has ended.</summary>
    internal CloseReason Reason => _hasEnded ? _reason : default;

    // ------------------------------------------------------------------ reading: the caller

    /// <summary>Reads. Any thread.</summary>
    internal ValueTask<int> ReadAsync(Memory<byte> into, CancellationToken cancellation)
    {
        if (cancellation.IsCancellationRequested) return ValueTask.FromCanceled<int>(cancellation);
        BeginReading();
        if (Loop.IsCurrent && TryServe(into.Span, out int count, out Exception? failure))
        {
            EndReading();
            return failure is null ? new(count) : ValueTask.FromException<int>(failure);
        }

        return StartRead(into, hasLimit: false, cancellation).Task;
    }

    /// <summary>Reads and blocks. Any thread that is not a loop's.</summary>
    internal int Read(Memory<byte> into, int timeoutMs)
    {
        BeginReading();
        StreamRead read = StartRead(into, hasLimit: timeoutMs != Timeout.Infinite, CancellationToken.None);
        short version = read.Version;
        if (read.SignalWhenCompleted() is { } signal
            && !Loop.Engine.Block(signal, TimeSpan.FromMilliseconds(timeoutMs)))
        {
            // The loop is not involved, because a callback may block it.
            if (read.TryTakeBack())
            {
                _read = null;
                EndReading();
                throw new NetworkException(new NetworkError(0, ErrorCategory.Timeout,
                    $"Nothing was received within {timeoutMs} ms (ReadTimeout). The stream may still be used."));
            }

            Loop.Engine.Block(signal, Timeout.InfiniteTimeSpan);
        }

        return read.GetResult(version);
    }

    private StreamRead StartRead(Memory<byte> into, bool hasLimit, CancellationToken cancellation)
    {
        StreamRead read = _read ??= new StreamRead(this);
        read.Begin(into, hasLimit, cancellation);
        if (Loop.IsCurrent) Await(read);
        // A loop that has ended accepts no posts and uses nothing any more: kept data is read here.
        else if (!Loop.PostControl(static (_, s, r, _) => ((StreamSession)s!).Serve((StreamRead)r!), this, read))
            Serve(read);
        return read;
    }

    private void BeginReading()
    {
        if (Interlocked.Exchange(ref _isReading, 1) == 1)
            Throw.State("A read is pending on this stream: one read at a time. Await it before the next.");
    }

    /// <summary>Called when the reader has its result. Any thread.</summary>
    internal void EndReading() => Volatile.Write(ref _isReading, 0);

    // ------------------------------------------------------------------ reading: the loop

    private void Serve(StreamRead read)
    {
        // The read was withdrawn; the next one may already wait.
        if (read.IsTakenBack) return;
        if (read.Cancellation.IsCancellationRequested)
            read.SetException(new OperationCanceledException(read.Cancellation));
        else if (!HasNews) Await(read);
        else if (!read.TryTake() || !TryRoom(read, out Span<byte> into)) return;
        else if (TryServe(into, out int count, out Exception? failure) && failure is null) read.SetResult(count);
        else read.SetException(failure!);
    }

    /// <summary>True if a read need not wait.</summary>
    private bool HasNews => _kept.Length > 0 || _isFinished || _isClosed || _hasEnded;

    /// <summary>
    /// Gets the memory of a read, which belongs to the application and may throw: the read then fails, and the data
    /// stays for the next one.
    /// </summary>
    private static bool TryRoom(StreamRead read, out Span<byte> into)
    {
        try
        {
            into = read.Into.Span;
            return true;
        }
        catch (Exception e)
        {
            into = default;
            read.SetException(e);
            return false;
        }
    }

    private void Await(StreamRead read)
    {
        _waiting = read;
        Watch(read.Cancellation);
    }

    /// <summary>Returns the result of a read that need not wait; false if it must wait.</summary>
    private bool TryServe(Span<byte> into, out int count, out Exception? failure)
    {
        count = 0;
        failure = null;
        if (_isClosed)
        {
            failure = Disposed();
            return true;
        }

        if (_kept.Length > 0)
        {
            count = Math.Min(into.Length, _kept.Length);
            _kept.Span[..count].CopyTo(into);
            _kept.Consume(count);
            if (_isHolding && _kept.Length <= HoldBytes / 2)
            {
                _isHolding = false;
                ResumeReceiving();
            }

            return true;
        }

        if (_isFinished) return true;
        if (_hasEnded) failure = EndOf("read", _reason);
        return _hasEnded;
    }

    protected override int OnData(ReadOnlySpan<byte> unread)
    {
        int taken = 0;
        if (TakeWaiting() is { } read && TryRoom(read, out Span<byte> into))
        {
            // While a read is pending nothing is kept, so this data is its data.
            taken = Math.Min(unread.Length, into.Length);
            unread[..taken].CopyTo(into);
            read.SetResult(taken);
        }

        if (taken < unread.Length) Keep(unread[taken..]);
        return unread.Length;
    }

    private void Keep(ReadOnlySpan<byte> data)
    {
        _kept.Append(data);
        if (_kept.Length < HoldBytes || _isHolding) return;
        _isHolding = true;
        PauseReceiving();
    }

    /// <summary>
    /// Claims the pending read for completion; null if there is none, or its caller has withdrawn it.
    /// </summary>
    private StreamRead? TakeWaiting()
    {
        if (_waiting is not { } read) return null;
        _waiting = null;
        _registration.Unregister();
        _registration = default;
        return read.TryTake() ? read : null;
    }

    // ------------------------------------------------------------------ cancelling a read

    /// <summary>
    /// Registers the cancellation of this read. Registered for each read, because a source that was reset has forgotten
    /// its registrations, and its token looks the same. The source reuses the node of an ended registration, so a read
    /// costs no memory. The handler's own token needs none, because this session cancels it.
    /// </summary>
    private void Watch(CancellationToken token)
    {
        if (!token.CanBeCanceled || (_handler is not null && token == _handler.Token)) return;
        _registration = token.UnsafeRegister(static session => ((StreamSession)session!).CancelRequested(), this);
    }

    private void CancelRequested() => Loop.PostControl(static (_, s, _, _) => ((StreamSession)s!).CancelRead(), this);

    private void CancelRead()
    {
        if (_waiting is { Cancellation: { IsCancellationRequested: true } token })
            TakeWaiting()?.SetException(new OperationCanceledException(token));
    }

    // ------------------------------------------------------------------ callbacks of the session

    protected override void OnConnected()
    {
        // The previous session may have paused, and no other code could end that pause.
        if (_taken is not null && IsReceivingPaused) ResumeReceiving();
        _taken?.SetResult(Stream);
        _handler?.Begin();
    }

    /// <summary>Called if it took over before the connection was established, and the connect failed.</summary>
    protected override void OnConnectFailed(CloseReason reason) => _taken?.SetException(EndOf("take over", reason));

    internal override bool StaysOnLoop => true;

    /// <summary>False, because data that does not fit into the read is copied.</summary>
    internal override bool TakesLargeBlocks => false;

    internal override string DisplayName => _handler?.Name ?? "a stream";

    internal override string UnfinishedText => $"the handler {_handler?.Name}";

    internal override bool IsOrphan => Volatile.Read(ref _hasEnded);

    /// <summary>Cause of a close: after the stop has begun, the stop of the server.</summary>
    internal override CloseCause CauseOfClose => _serverStops ? CloseCause.ServerStopped : CloseCause.LocalClose;

    /// <summary>
    /// Called for the peer's FIN: reads return 0 from here on. The sending side stays open until the application ends
    /// it.
    /// </summary>
    protected override void OnEndOfStream()
    {
        _isFinished = true;
        TakeWaiting()?.SetResult(0);
    }

    protected override void OnServerStopping()
    {
        // Without a handler there is no code to notify.
        if (_handler is null)
        {
            base.OnServerStopping();
            return;
        }

        _serverStops = true;
        CancelRequested(); // for a read with this token; takes effect in a later turn
        _handler.Cancel();
    }

    protected override void OnDisconnected(CloseReason reason)
    {
        _reason = reason;
        Volatile.Write(ref _hasEnded, true);
        TakeWaiting()?.SetException(EndOf("read", reason));
        _handler?.Cancel();
    }

    // ------------------------------------------------------------------ ending

    /// <summary>Called when the stream was disposed. Any thread.</summary>
    internal void CloseStream()
    {
        Close();
        if (Loop.IsCurrent) EndReads();
        else Loop.PostControl(static (_, s, _, _) => ((StreamSession)s!).EndReads(), this);
    }

    private void EndReads()
    {
        _isClosed = true;
        _kept.Clear();
        TakeWaiting()?.SetException(Disposed());
    }

    /// <summary>Fails a write that was not queued, with the reason, which the loop has. Any thread.</summary>
    internal ValueTask FailWriteAsync() =>
        Loop.IsCurrent ? ValueTask.FromException(WriteFailure()) : AskForWriteFailure().PlainTask;

    /// <summary>Fails a blocking write that was not queued.</summary>
    internal void FailWrite()
    {
        Completion<bool> failure = AskForWriteFailure();
        if (failure.SignalWhenCompleted() is { } signal) Loop.Engine.Block(signal, Timeout.InfiniteTimeSpan);
        failure.GetResult(failure.Version);
    }

    private Completion<bool> AskForWriteFailure()
    {
        Completion<bool> failure = new(Loop.Engine);
        if (!Loop.PostControl(static (_, s, f, _) =>
            ((Completion<bool>)f!).SetException(((StreamSession)s!).WriteFailure()), this, failure))
            failure.SetException(WriteFailure());
        return failure;
    }

    /// <summary>
    /// Exception for a stream that is used after its end, usually by work that its handler did not await.
    /// </summary>
    internal static ObjectDisposedException Disposed() =>
        new(nameof(ConnectionStream), "The stream was disposed, or its handler has returned, which closes the "
            + "connection: a handler awaits all its reads and writes before it returns.");

    private Exception WriteFailure()
    {
        if (_isClosed) return Disposed();
        return EndOf("write", _hasEnded ? _reason : Connection?.EndSoFar ?? default);
    }

    internal static NetworkException EndOf(string verb, CloseReason reason)
    {
        string why = reason.Cause == CloseCause.None ? "this side has finished sending" : reason.ToString();
        return new NetworkException(reason.Error with { Message = $"Cannot {verb}: {why}." }, reason.Exception);
    }
}
