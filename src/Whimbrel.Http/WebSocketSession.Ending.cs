using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

// The closing handshake (RFC 6455, 7) and the heart-beat: one timer, which first beats and then waits for the peer's close frame.
public partial class WebSocketSession
{
    private const int DeadAfter = 2; // pings that were answered by nothing
    private const int MostSendLimitBytes = 1 << 30;

    // Bits of _closing.
    private const int SendsNothing = 1; // but the close frame
    private const int Ends = 2; // what comes is dropped

    private LoopTimer? _timer;
    private long _sentThen;
    private long _pendingThen;
    private int _unanswered;
    private bool _heard;
    private bool _peerHasClosed;
    private bool _saidClose;
    private int _closing;
    private int _readingOn; // the thread, of the pool, that is in a callback which was given something
    private int _isShaken; // the closing handshake is over, or will never be
    private TaskCompletionSource? _shaking; // made by who awaits that

    /// <summary>Why it was closed: what the first of both ends has said. <see cref="WebSocketStatus.Abnormal"/> before anybody has.</summary>
    public WebSocketStatus CloseStatus { get; private set; } = WebSocketStatus.Abnormal;

    /// <summary>The reason beside <see cref="CloseStatus"/>; empty for none.</summary>
    public string CloseText { get; private set; } = "";

    /// <summary>Closes with <see cref="WebSocketStatus.Normal"/>. Any thread.</summary>
    public new void Close() => Close(WebSocketStatus.Normal);

    /// <summary>
    /// Says why, behind what this thread has sent, and ends the connection when the peer has answered, or after <see cref="WebSocketOptions.CloseTimeout"/>. The first call
    /// counts. Any thread.
    /// </summary>
    /// <param name="status">What may be sent: 1000 up to 1014 but for 1004 to 1006, 3000 up to 4999, or None for a frame without a status.</param>
    /// <param name="reason">For the log of the peer; what is beyond 123 bytes is left out.</param>
    /// <exception cref="ArgumentOutOfRangeException">The status may not be sent.</exception>
    public void Close(WebSocketStatus status, string reason = "")
    {
        Check(status, reason);
        if ((Interlocked.Or(ref _closing, SendsNothing | Ends) & Ends) != 0) return;
        // It keeps its place behind what this thread has sent.
        bool isTold = Post(static s =>
        {
            (WebSocketSession session, WebSocketStatus status, string reason) = ((WebSocketSession, WebSocketStatus, string))s!;
            session.BeginClose(status, reason);
        }, (this, status, reason));
        if (!isTold) EndHandshake();
    }

    /// <summary>As <see cref="Close()"/>: the peer has finished when it has sent its close frame, and not before.</summary>
    /// <param name="peerFinished">Makes no difference.</param>
    public new void Close(bool peerFinished) => Close();

    /// <summary>
    /// As <see cref="Close()"/>, blocking until the connection has ended: for threads of your own, and callbacks of other sessions on the pool. One that has not ended in time is aborted. Inside a
    /// callback of this session that was given what came, the close frame is sent, and the peer's is not waited for. On a loop it throws.
    /// </summary>
    /// <param name="timeout">Longest time, or <see cref="Timeout.InfiniteTimeSpan"/> for that of the options.</param>
    /// <returns>Why it ended.</returns>
    /// <exception cref="InvalidOperationException">This is a loop's thread.</exception>
    public new CloseReason Close(TimeSpan timeout)
    {
        if (Loop.Current is not null) throw new InvalidOperationException("This would block the loop, and all its connections: await CloseAsync instead.");
        long began = Environment.TickCount64;
        if (_readingOn == Environment.CurrentManagedThreadId)
        {
            if ((Interlocked.Or(ref _closing, SendsNothing | Ends) & Ends) == 0) SayClose(WebSocketStatus.Normal, "");
            EndHandshake();
            return base.Close(timeout);
        }

        Close(WebSocketStatus.Normal);
        if (!Handshake().Wait(timeout)) AbortHandshake();
        if (timeout == Timeout.InfiniteTimeSpan) return base.Close(timeout);
        return base.Close(TimeSpan.FromMilliseconds(Math.Max(1, timeout.TotalMilliseconds - (Environment.TickCount64 - began))));
    }

    /// <summary>As <see cref="Close()"/>, and completes when the connection has ended, with the reason.</summary>
    /// <param name="cancellationToken">Ends the patience: the connection is aborted, and the task is cancelled when it has ended.</param>
    public new ValueTask<CloseReason> CloseAsync(CancellationToken cancellationToken = default) => CloseAsync(WebSocketStatus.Normal, "", cancellationToken);

    /// <summary>
    /// As <see cref="Close(WebSocketStatus, string)"/>, and completes when the connection has ended: the peer has answered, or was waited for as long as
    /// <see cref="WebSocketOptions.CloseTimeout"/>. <see cref="CloseStatus"/> says then what the first of both has said. Any thread; a callback on the loop must not block on it.
    /// </summary>
    /// <param name="status">As there.</param>
    /// <param name="reason">As there.</param>
    /// <param name="cancellationToken">Ends the patience: the connection is aborted, and the task is cancelled when it has ended.</param>
    /// <exception cref="ArgumentOutOfRangeException">The status may not be sent.</exception>
    public async ValueTask<CloseReason> CloseAsync(WebSocketStatus status, string reason = "", CancellationToken cancellationToken = default)
    {
        Close(status, reason);
        using (cancellationToken.UnsafeRegister(static s => ((WebSocketSession)s!).AbortHandshake(), this)) await Handshake().ConfigureAwait(false);
        bool isAborted = cancellationToken.IsCancellationRequested;
        CloseReason ended = await base.CloseAsync(cancellationToken).ConfigureAwait(false);
        return isAborted ? throw new OperationCanceledException(cancellationToken) : ended;
    }

    /// <summary>As <see cref="FinishSending(WebSocketStatus, string)"/> with <see cref="WebSocketStatus.Normal"/>.</summary>
    public new void FinishSending() => FinishSending(WebSocketStatus.Normal);

    /// <summary>
    /// Says why, behind what this thread has sent, and goes on receiving until the peer has said so too, or <see cref="Close()"/> is called. Who
    /// answers a close frame at once, as most do, sends nothing more. Without a limit in time. Any thread.
    /// </summary>
    /// <param name="status">As in <see cref="Close(WebSocketStatus, string)"/>.</param>
    /// <param name="reason">As there.</param>
    /// <exception cref="ArgumentOutOfRangeException">The status may not be sent.</exception>
    public void FinishSending(WebSocketStatus status, string reason = "")
    {
        Check(status, reason);
        if ((Interlocked.Or(ref _closing, SendsNothing) & SendsNothing) != 0) return;
        Post(static s =>
        {
            (WebSocketSession session, WebSocketStatus status, string reason) = ((WebSocketSession, WebSocketStatus, string))s!;
            session.SayClose(status, reason);
            if (session._peerHasClosed) session.EndConnection();
        }, (this, status, reason));
    }

    internal static void Check(WebSocketStatus status, string reason)
    {
        ArgumentNullException.ThrowIfNull(reason);
        if (status != WebSocketStatus.None && !WebSocketClose.MaySend((int)status)) throw new ArgumentOutOfRangeException(nameof(status), status, "A close frame cannot say this.");
    }

    /// <summary>The peer has said that it ends, and was answered. The connection ends behind this call, which may send nothing more. The session's thread.</summary>
    /// <param name="status">None when it said none.</param>
    /// <param name="reason">Its reason; empty for none.</param>
    protected virtual void OnClosing(WebSocketStatus status, string reason)
    {
    }

    /// <summary>The server stops: closes with <see cref="WebSocketStatus.GoingAway"/>.</summary>
    protected override void OnServerStopping()
    {
        if (_inbox is { } inbox && inbox.TryTellHandler()) return;
        if ((Interlocked.Or(ref _closing, SendsNothing | Ends) & Ends) == 0) BeginClose(WebSocketStatus.GoingAway, "");
    }

    /// <summary>The connection has ended. An override calls this one: it gives back memory at once, which else the collector does later.</summary>
    /// <param name="reason">The first cause. What the peer has said is in <see cref="CloseStatus"/>.</param>
    protected override void OnDisconnected(CloseReason reason)
    {
        _timer?.Cancel();
        Interlocked.Or(ref _closing, SendsNothing | Ends);
        _message.Release();
        _inflated.Release();
        DropInflater();
        if (_deflating is { } deflating)
        {
            lock (deflating) DropDeflater();
        }

        _inbox?.Disconnected(_peerHasClosed ? null : new WebSocketException($"The WebSocket ended without a close frame of its peer: {reason}."));
        EndHandshake();
    }

    // ------------------------------------------------------------------ closing

    /// <summary>Whom to tell that the end was the server's: it may dial again.</summary>
    internal WebSocketClient? DialledBy { get; set; }

    private bool IsClosing => Volatile.Read(ref _closing) != 0;

    private bool IsEnding => (Volatile.Read(ref _closing) & Ends) != 0;

    private void BeginClose(WebSocketStatus status, string reason)
    {
        SayClose(status, reason);
        // The peer's frame ends it, or this timer. Behind messages that nobody will read it must be seen.
        _inbox?.StopHolding();
        if (_peerHasClosed) EndConnection();
        else BeatIn(_options!.CloseTimeout, Loop);
    }

    /// <summary>Both have said that they end.</summary>
    private void EndConnection()
    {
        base.Close(peerFinished: true);
        EndHandshake();
    }

    private Task Handshake()
    {
        TaskCompletionSource made = new(TaskCreationOptions.RunContinuationsAsynchronously);
        TaskCompletionSource shaking = Interlocked.CompareExchange(ref _shaking, made, null) ?? made;
        if (Volatile.Read(ref _isShaken) != 0) shaking.TrySetResult();
        return shaking.Task;
    }

    private void AbortHandshake()
    {
        Abort();
        EndHandshake();
    }

    private void EndHandshake()
    {
        // A full fence: who awaits it puts his source there first, and looks then.
        Interlocked.Exchange(ref _isShaken, 1);
        Volatile.Read(ref _shaking)?.TrySetResult();
    }

    /// <summary>One close frame, and nothing behind it. False: there was one.</summary>
    private bool SayClose(WebSocketStatus status, string reason)
    {
        Interlocked.Or(ref _closing, SendsNothing);
        if (_saidClose) return false;
        _saidClose = true;
        if (!_peerHasClosed) SetStatus(status, reason);
        Span<byte> payload = stackalloc byte[WebSocketReader.MostControlBytes];
        // Behind a full queue, or one large message, it would be refused, and what waits there lost. Nothing is sent after it.
        SendLimitBytes = MostSendLimitBytes;
        SendSmall(WebSocketOpcode.Close, payload[..WebSocketClose.Write(payload, status, reason)]);
        return true;
    }

    private void SetStatus(WebSocketStatus status, string reason)
    {
        CloseStatus = status;
        CloseText = reason;
    }

    private void PeerCloses(WebSocketStatus status, string reason)
    {
        if (!_saidClose)
        {
            SetStatus(status, reason);
            NoteTheirEnd();
        }

        _peerHasClosed = true;
        if (_inbox is { } inbox)
        {
            // Who pulls may still send: the answer waits for his own end.
            inbox.PeerCloses(status, reason);
            if (_saidClose) EndConnection();
            return;
        }

        SayClose(status, "");
        try
        {
            OnClosing(status, reason);
        }
        finally
        {
            EndConnection();
        }
    }

    private void NoteTheirEnd()
    {
        if (DialledBy is { } client) client.EndWasTheirs = true;
    }

    private void Fail(WebSocketRule rule)
    {
        SayClose(WebSocketRules.StatusOf(rule), WebSocketRules.TextOf(rule));
        base.Close();
        _inbox?.End(new WebSocketException($"The peer broke a rule, and the WebSocket was closed: {WebSocketRules.TextOf(rule)}."));
        EndHandshake();
    }

    // ------------------------------------------------------------------ the heart-beat

    private void StartHeart(Loop loop)
    {
        if (_options!.Heartbeat != Timeout.InfiniteTimeSpan) BeatIn(_options.Heartbeat, loop);
    }

    private void BeatIn(TimeSpan due, Loop loop)
    {
        if (_timer is { } timer) timer.Start(due);
        else _timer = loop.StartTimer(due, static s => ((WebSocketSession)s!).TimerIsDue(), this);
    }

    private void TimerIsDue()
    {
        if (!Post(static s => ((WebSocketSession)s!).Beat(), this)) EndHandshake();
    }

    private void Beat()
    {
        // Half closed there is nothing to ask a peer by.
        if (_saidClose || _peerHasClosed)
        {
            if (!IsEnding) return;
            if (!_peerHasClosed) base.Close();
            EndHandshake();
            return;
        }

        // A peer that takes what it is sent lives, though its pong waits behind that; so does one that is not read because nobody here asks for more.
        bool isAlive = _heard || IsReceivingPaused || (_pendingThen > 0 && BytesSent != _sentThen);
        _heard = false;
        _unanswered = isAlive ? 0 : _unanswered + 1;
        if (_unanswered > DeadAfter)
        {
            NoteTheirEnd();
            Abort();
            return;
        }

        _sentThen = BytesSent;
        _pendingThen = BytesPending;
        // Behind what a peer does not take a ping asks nothing, and may find no room.
        if (!isAlive && _pendingThen == 0) SendControl(WebSocketOpcode.Ping, default);
        BeatIn(_options!.Heartbeat, Loop);
    }
}
