using System.IO.Pipelines;
using Whimbrel.Engines;

namespace Whimbrel.Streams;

/// <summary>
/// The session inside a <see cref="ConnectionPipe"/>: passes received data to its reader, and ends with its two halves.
/// </summary>
internal sealed class PipeSession : Session
{
    private const int InputBit = 1;
    private const int OutputBit = 2;

    private readonly ServedHandler<ConnectionPipe>? _handler;
    private readonly ConnectionPipeOptions _options;
    private readonly bool _isOnPool;
    private Completion<ConnectionPipe>? _taken;
    private CloseReason _reason;
    private int _completed; // bits of the completed halves
    private volatile bool _serverStops;
    private bool _hasEnded;

    internal PipeSession(Func<ConnectionPipe, CancellationToken, Task>? handler, ConnectionPipeOptions options)
    {
        _options = options;
        _isOnPool = ReferenceEquals(options.Scheduler, PipeScheduler.ThreadPool);
        Receiving = new ReceivingPipe(this, options);
        Sending = new SendingPipe(this, options);
        Pipe = new ConnectionPipe(this);
        if (handler is not null) _handler = new ServedHandler<ConnectionPipe>(this, Pipe, handler);
    }

    internal ConnectionPipe Pipe { get; }

    internal ReceivingPipe Receiving { get; }

    internal SendingPipe Sending { get; }

    /// <summary>Reason of the end, or the default before. Any thread.</summary>
    internal CloseReason Reason => Volatile.Read(ref _hasEnded) ? _reason : default;

    internal static ValueTask<ConnectionPipe> TakeOver(Session session, ConnectionPipeOptions options)
    {
        Completion<ConnectionPipe> taken = new(session.Loop.Engine);
        ValueTask<ConnectionPipe> task = taken.Task;
        session.HandOverTo(new PipeSession(null, options) { _taken = taken },
            new TakeOverIntake<ConnectionPipe>(taken));
        return task;
    }

    // ------------------------------------------------------------------ calls of the two halves: any thread

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

    /// <summary>
    /// Reports an exception of a callback that was registered with the token of the end. On the pool.
    /// </summary>
    internal void RegisteredThrew(Exception exception)
    {
        Loop.Engine.UserCodeThrew(exception);
        Loop.Engine.ReportException("what was registered with InputEnded of a pipe", exception);
    }

    // ------------------------------------------------------------------ callbacks of the session: its loop

    protected override void OnConnected()
    {
        // The previous session may have paused, and no other code could end that pause.
        if (_taken is not null && IsReceivingPaused) ResumeReceiving();
        _taken?.SetResult(Pipe);
        _handler?.Begin();
    }

    /// <summary>Called if it took over before the connection was established, and the connect failed.</summary>
    protected override void OnConnectFailed(CloseReason reason) =>
        _taken?.SetException(StreamSession.EndOf("take over", reason));

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
        Sending.End();
        Receiving.End(reason);
        _handler?.Cancel();
    }

    internal override bool StaysOnLoop => true;

    /// <summary>False, because the session keeps received data.</summary>
    internal override bool TakesLargeBlocks => false;

    internal override bool LendsRoom => true;

    internal override Span<byte> LendRoom() => Receiving.LendRoom();

    internal override void DropRoom() => Receiving.DropRoom();

    internal override string DisplayName => _handler?.Name ?? "a pipe";

    internal override string UnfinishedText => $"the handler {_handler?.Name}";

    internal override bool IsOrphan => Volatile.Read(ref _hasEnded);

    internal override CloseCause CauseOfClose => _serverStops ? CloseCause.ServerStopped : CloseCause.LocalClose;
}
