using System.IO.Pipelines;
using Whimbrel.Connections;
using Whimbrel.Engines;

namespace Whimbrel.Streams;

/// <summary>
/// The session inside a <see cref="ConnectionPipe"/> or a <see cref="ConnectionStream"/>: passes received data to its
/// reader, and ends with its owner.
/// </summary>
internal sealed class PipeSession : Session
{
    private const int InputBit = 1;
    private const int OutputBit = 2;

    private readonly ServedHandler? _handler;
    private readonly ConnectionPipeOptions _options;
    private readonly bool _isOnPool;
    private Action<Exception?>? _taken;
    private CloseReason _reason;
    private int _completed; // bits of the completed halves
    private volatile bool _serverStops;
    private volatile bool _isDisposed; // of a stream
    private bool _hasEnded;

    private PipeSession(ConnectionPipeOptions options, ServedHandler? handler, bool isStream)
    {
        _options = options;
        _isOnPool = ReferenceEquals(options.Scheduler, PipeScheduler.ThreadPool);
        _handler = handler;
        Receiving = new ReceivingPipe(this, options);
        if (isStream)
        {
            Stream = new ConnectionStream(this);
            return;
        }

        Sending = new SendingPipe(this, options);
        Pipe = new ConnectionPipe(this);
    }

    internal static PipeSession ForPipe(ConnectionPipeOptions options, ServedHandler? handler = null) =>
        new(options, handler, isStream: false);

    internal static PipeSession ForStream(ServedHandler? handler = null) =>
        new(ConnectionPipeOptions.Default, handler, isStream: true);

    internal ConnectionPipe? Pipe { get; }

    internal ConnectionStream? Stream { get; }

    internal ReceivingPipe Receiving { get; }

    /// <summary>Null in a stream, whose writes are sends of the session.</summary>
    internal SendingPipe? Sending { get; }

    /// <summary>Reason of the end, or the default before. Any thread.</summary>
    internal CloseReason Reason => Volatile.Read(ref _hasEnded) ? _reason : default;

    /// <summary>Implements TakeOverAsync of streams and pipes.</summary>
    internal static ValueTask<T> TakeOver<T>(Session session, PipeSession next, T owner)
    {
        Completion<T> taken = new(session.Loop.Engine);
        ValueTask<T> task = taken.Task;
        next._taken = failure =>
        {
            if (failure is null) taken.SetResult(owner);
            else taken.SetException(failure);
        };
        session.HandOverTo(next, new TakeOverIntake(next._taken));
        // The awaiting code may block on the stream, so it does not run in the order of the callbacks on the pool.
        return PoolSession.Current is null ? task : new ValueTask<T>(task.AsTask());
    }

    // ------------------------------------------------------------------ calls of the owner: any thread

    /// <summary>
    /// Scope for posts of a half to the loop. A reader on the pool, by <see cref="PipeScheduler.ThreadPool"/>, sends
    /// its answers there, together with those of other readers.
    /// </summary>
    internal WakeUpBatch Posting() => _isOnPool ? new WakeUpBatch(Loop.Engine) : default;

    internal void InputCompleted(Exception? exception) => Completed(InputBit, exception);

    internal void OutputCompleted(Exception? exception) => Completed(OutputBit, exception);

    internal void CloseByOwner()
    {
        if (_options.AwaitsPeer) Close();
        else CloseWithoutLingering();
    }

    private void Completed(int half, Exception? exception)
    {
        int before = Interlocked.Or(ref _completed, half);
        if (exception is not null) AbortWith(new CloseReason(CloseCause.LocalAbort, 0, exception));
        else if ((before | half) == (InputBit | OutputBit)) CloseByOwner();
        else if (half == OutputBit) ShutdownSend();
    }

    /// <summary>Called when the handler has returned.</summary>
    internal void DisposeOwner()
    {
        if (Stream is not null) Stream.Dispose();
        else Pipe!.Dispose();
    }

    /// <summary>Called when the stream was disposed.</summary>
    internal void CloseStream()
    {
        _isDisposed = true;
        Close();
        Receiving.Discard();
    }

    /// <summary>
    /// Reports an exception of a callback that was registered with the token of the end. On the pool.
    /// </summary>
    internal void RegisteredThrew(Exception exception)
    {
        Loop.Engine.UserCodeThrew(exception);
        Loop.Engine.ReportException("what was registered with InputEnded of a pipe", exception);
    }

    // ------------------------------------------------------------------ failures

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
            ((Completion<bool>)f!).SetException(((PipeSession)s!).WriteFailure()), this, failure))
            failure.SetException(WriteFailure());
        return failure;
    }

    private Exception WriteFailure()
    {
        if (_isDisposed) return Disposed();
        return EndOf("write", _hasEnded ? _reason : Connection?.EndSoFar ?? default);
    }

    /// <summary>
    /// Exception for a stream that is used after its end, usually by work that its handler did not await.
    /// </summary>
    internal static ObjectDisposedException Disposed() =>
        new(nameof(ConnectionStream), "The stream was disposed, or its handler has returned, which closes the "
            + "connection: a handler awaits all its reads and writes before it returns.");

    internal static NetworkException EndOf(string verb, CloseReason reason)
    {
        string why = reason.Cause == CloseCause.None ? "this side has finished sending" : reason.ToString();
        return new NetworkException(reason.Error with { Message = $"Cannot {verb}: {why}." }, reason.Exception);
    }

    // ------------------------------------------------------------------ callbacks of the session

    protected override void OnConnected()
    {
        // The previous session may have paused, and no other code could end that pause.
        if (_taken is not null && IsReceivingPaused) ResumeReceiving();
        _taken?.Invoke(null);
        _handler?.Begin(this);
    }

    /// <summary>Called if it took over before the connection was established, and the connect failed.</summary>
    protected override void OnConnectFailed(CloseReason reason) => _taken?.Invoke(EndOf("take over", reason));

    protected override int OnData(ReadOnlySpan<byte> unread)
    {
        Receiving.Receive(unread);
        return unread.Length;
    }

    /// <summary>
    /// Called for the peer's FIN: reads are completed from here on. The sending side stays open until the application
    /// ends it.
    /// </summary>
    protected override void OnEndOfStream() => Receiving.Finish();

    protected override void OnServerStopping()
    {
        // Without a handler there is no code to notify.
        if (_handler is null)
        {
            base.OnServerStopping();
            return;
        }

        _serverStops = true;
        _handler.Cancel();
    }

    protected override void OnDisconnected(CloseReason reason)
    {
        _reason = reason;
        Volatile.Write(ref _hasEnded, true);
        Sending?.End();
        Receiving.End(reason);
        _handler?.Cancel();
    }

    internal override bool StaysOnLoop => true;

    /// <summary>False, because the session keeps received data.</summary>
    internal override bool TakesLargeBlocks => false;

    internal override bool LendsRoom => true;

    internal override Span<byte> LendRoom() => Receiving.LendRoom();

    internal override void DropRoom() => Receiving.DropRoom();

    internal override string DisplayName => _handler?.Name ?? (Stream is null ? "a pipe" : "a stream");

    internal override string UnfinishedText => $"the handler {_handler?.Name}";

    internal override bool IsOrphan => Volatile.Read(ref _hasEnded);

    /// <summary>Cause of a close: after the stop has begun, the stop of the server.</summary>
    internal override CloseCause CauseOfClose => _serverStops ? CloseCause.ServerStopped : CloseCause.LocalClose;
}
