using Whimbrel.Http.Parsing;
using Whimbrel.Http.WebSockets;

namespace Whimbrel.Http;

// The closing handshake (RFC 6455, 7) and the heart-beat.
public partial class WebSocketSession
{
    private const int DeadAfter = 2; // unanswered pings
    private const int MostSendLimitBytes = 1 << 30;
    private const int LongestRetryMs = 1000;

    internal HeartBeats.Place HeartPlace; // the loop's thread
    private LoopTimer? _closeTimer;
    private long _sentThen;
    private int _unanswered;
    private volatile bool _heartHasEnded;
    private bool _heard;
    private bool _wasPending;
    private bool _peerHasClosed;
    private bool _saidClose;
    private int _isShaken; // the closing handshake is complete or impossible: a close ends the connection

    /// <summary>Status of the first close frame of either end; <see cref="WebSocketStatus.Abnormal"/> before.</summary>
    public WebSocketStatus CloseStatus { get; private set; } = WebSocketStatus.Abnormal;

    /// <summary>Reason text of <see cref="CloseStatus"/>; empty for none.</summary>
    public string CloseText { get; private set; } = "";

    /// <summary>
    /// Sends a close frame after earlier sends of this thread, and ends the connection when the peer has answered, or
    /// after <see cref="WebSocketOptions.CloseTimeout"/>. Only the first call has an effect. Any thread.
    /// </summary>
    /// <param name="status">1000 to 1014 except 1004 to 1006, 3000 to 4999, or None for a frame without a
    /// status.</param>
    /// <param name="reason">Reason text for the peer's log; cut to 123 bytes.</param>
    /// <exception cref="ArgumentOutOfRangeException">The status may not be sent.</exception>
    public void Close(WebSocketStatus status, string reason = "")
    {
        Check(status, reason);
        if (!EndsNow()) return;
        if (!_isInline && IsOnSessionThread)
        {
            // The callback may block on the end, and a posted action would run only after it returns.
            SayGoodbye(status, reason);
            Flush();
            return;
        }

        // A post keeps the order after earlier sends of this thread.
        bool isTold = Post(static s =>
        {
            (WebSocketSession session, WebSocketStatus status, string reason) =
                ((WebSocketSession, WebSocketStatus, string))s!;
            session.SayGoodbye(status, reason);
        }, (this, status, reason));
        if (!isTold) EndConnection(peerFinished: false);
    }

    /// <summary>
    /// Closes with <see cref="WebSocketStatus.Normal"/> for <see cref="Session.Close()"/> and its other forms, as
    /// <see cref="Close(WebSocketStatus, string)"/> does. A pool callback of this session that blocks in
    /// <see cref="Session.CloseAndWait"/> does not wait for the peer's close frame, because no callback can run
    /// until it returns.
    /// </summary>
    /// <param name="isBlocking">Whether the call is <see cref="Session.CloseAndWait"/>.</param>
    protected sealed override void BeginClose(bool isBlocking)
    {
        if (Volatile.Read(ref _isShaken) != 0)
        {
            base.BeginClose(isBlocking);
            return;
        }

        Close(WebSocketStatus.Normal);
        if (isBlocking && IsOnSessionThread) EndAfterFrame(peerFinished: false);
    }

    /// <summary>
    /// Closes as <see cref="Close(WebSocketStatus, string)"/> does, and completes when the connection has ended: the
    /// peer has answered, or <see cref="WebSocketOptions.CloseTimeout"/> has passed. Any thread. A callback on the loop
    /// must not block on it. A pool callback of this session that blocks on it waits for the whole timeout.
    /// </summary>
    /// <param name="status">Status, as in <see cref="Close(WebSocketStatus, string)"/>.</param>
    /// <param name="reason">Reason text, as there.</param>
    /// <param name="cancellationToken">Cancels the wait: the connection is aborted, and the task is cancelled when it
    /// has ended.</param>
    /// <exception cref="ArgumentOutOfRangeException">The status may not be sent.</exception>
    public ValueTask<CloseReason> CloseAsync(WebSocketStatus status, string reason = "",
        CancellationToken cancellationToken = default)
    {
        Close(status, reason);
        return CloseAsync(cancellationToken);
    }

    /// <summary>Calls <see cref="ShutdownSend(WebSocketStatus, string)"/> with
    /// <see cref="WebSocketStatus.Normal"/>.</summary>
    protected sealed override void BeginShutdownSend() => ShutdownSend(WebSocketStatus.Normal);

    /// <summary>
    /// Sends a close frame after earlier sends of this thread, and continues to receive until the peer sends its own,
    /// or <see cref="Session.Close()"/> is called. Most peers answer a close frame at once, and send nothing more. No
    /// timeout. Any thread.
    /// </summary>
    /// <param name="status">Status, as in <see cref="Close(WebSocketStatus, string)"/>.</param>
    /// <param name="reason">Reason text, as there.</param>
    /// <exception cref="ArgumentOutOfRangeException">The status may not be sent.</exception>
    public void ShutdownSend(WebSocketStatus status, string reason = "")
    {
        Check(status, reason);
        if ((Interlocked.Or(ref _order, SendsNothing) & SendsNothing) != 0) return;
        Post(static s =>
        {
            (WebSocketSession session, WebSocketStatus status, string reason) =
                ((WebSocketSession, WebSocketStatus, string))s!;
            session.SayClose(status, reason);
            if (session._peerHasClosed) session.EndAfterFrame(peerFinished: true);
        }, (this, status, reason));
    }

    /// <summary>Calls <see cref="ShutdownSend(WebSocketStatus, string)"/>, and completes when the kernel has accepted
    /// the frame, or the connection has ended first.</summary>
    internal async ValueTask ShutdownSendAsync(WebSocketStatus status, string reason)
    {
        ShutdownSend(status, reason);
        // Must run after the action that queues the frame. On the pool, sends are queued at the end of a batch.
        do
        {
            if (!await PostAsync(static s => ((WebSocketSession)s!).Flush(), this).ConfigureAwait(false)) return;
        }
        while (!Volatile.Read(ref _isFrameQueued)); // sends of other threads are in progress
        await SentAsync().ConfigureAwait(false);
    }

    internal static void Check(WebSocketStatus status, string reason)
    {
        ArgumentNullException.ThrowIfNull(reason);
        if (status != WebSocketStatus.None && !WebSocketClose.MaySend((int)status))
            throw new ArgumentOutOfRangeException(nameof(status), (int)status, "A close frame has a status of 1000 to "
                + "1003, 1007 to 1014 or 3000 to 4999, or none (WebSocketStatus.None).");
    }

    /// <summary>Called when the peer's close frame has arrived, after this side has sent its own. Sends are not
    /// possible any more; the connection ends when this returns. The session's thread.</summary>
    /// <param name="status">Status of the peer; None if its frame has none.</param>
    /// <param name="reason">Reason text of the peer; empty for none.</param>
    protected virtual void OnClosing(WebSocketStatus status, string reason)
    {
    }

    /// <summary>Closes because the server stops: with <see cref="WebSocketStatus.ServiceRestart"/> if a new process
    /// has taken its sockets (<see cref="ServerOptions.Upgrade"/>), otherwise with
    /// <see cref="WebSocketStatus.GoingAway"/>. For a route with a handler, cancels the handler's token
    /// first.</summary>
    protected override void OnServerStopping()
    {
        if (_inbox is { } inbox && inbox.TryTellHandler()) return;
        if (EndsNow()) SayGoodbye(StoppingStatus, StoppingReason);
    }

    /// <summary>Closes as <see cref="OnServerStopping"/> does, when the handler has returned.</summary>
    internal void CloseBecauseOfStop() => Close(StoppingStatus, StoppingReason);

    private WebSocketStatus StoppingStatus => HasSuccessor ? WebSocketStatus.ServiceRestart : WebSocketStatus.GoingAway;

    // Within a second, because the new process serves already; random, because a window has many sessions in each.
    private string StoppingReason => HasSuccessor
        ? string.Create(System.Globalization.CultureInfo.InvariantCulture,
            $"retry-after-ms={Random.Shared.Next(LongestRetryMs)}")
        : "";

    private bool HasSuccessor => Server?.Options.Upgrade is { IsReplaced: true };

    /// <summary>Called when the peer has sent FIN. Closes without a close frame, as any session.</summary>
    protected override void OnEndOfStream() => EndConnection(peerFinished: false);

    /// <summary>Called when the connection has ended. An override must call this one: it returns memory to the pool,
    /// which otherwise is left to the garbage collector.</summary>
    /// <param name="reason">The first cause. The peer's close status is in <see cref="CloseStatus"/>.</param>
    protected override void OnDisconnected(CloseReason reason)
    {
        EndHeart();
        _closeTimer?.Cancel();
        Interlocked.Or(ref _order, SendsNothing | Ends);
        _message.Release();
        _deflate?.Release();
        _inbox?.Disconnected(_peerHasClosed
            ? null : new WebSocketException($"The WebSocket ended without a close frame of its peer: {reason}."));
    }

    // ------------------------------------------------------------------ closing

    /// <summary>Client to notify that the server caused the end, so that it may reconnect.</summary>
    internal WebSocketClient? ConnectedBy { get; set; }

    // The session's thread.
    private void SayGoodbye(WebSocketStatus status, string reason)
    {
        SayClose(status, reason);
        // The peer's frame, or this timer, ends the connection. Unread messages must not hide that frame.
        _inbox?.StopHolding();
        if (_peerHasClosed) EndAfterFrame(peerFinished: true);
        // A timer of the loop, because a callback that blocks on the end occupies the session's thread.
        else WaitAtMost();
    }

    private void WaitAtMost() => _closeTimer ??= Loop.StartTimer(_options!.CloseTimeout,
        static s => ((WebSocketSession)s!).EndConnection(peerFinished: false), this);

    /// <summary>Ends the connection, because the closing handshake is complete or will never be. Any thread.</summary>
    /// <param name="peerFinished">Whether both ends have sent a close frame.</param>
    private void EndConnection(bool peerFinished)
    {
        Volatile.Write(ref _isShaken, 1);
        if (peerFinished) CloseWithoutLingering();
        else Close();
    }

    /// <summary>Sends the only close frame, as the last frame (<c>WebSocketSession.Order.cs</c>). Returns false if it
    /// was sent before. The session's thread.</summary>
    private bool SayClose(WebSocketStatus status, string reason)
    {
        Interlocked.Or(ref _order, SendsNothing);
        if (_saidClose) return false;
        _saidClose = true;
        if (!_peerHasClosed) SetStatus(status, reason);
        _frame = (status, reason);
        QueueFrame();
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
            // A pulled session may still send: the answer is sent when its own side ends.
            inbox.PeerCloses(status, reason);
            if (_saidClose) EndAfterFrame(peerFinished: true);
            return;
        }

        SayClose(status, "");
        try
        {
            OnClosing(status, reason);
        }
        finally
        {
            EndAfterFrame(peerFinished: true);
        }
    }

    private void NoteTheirEnd()
    {
        if (ConnectedBy is { } client) client.EndWasTheirs = true;
    }

    /// <summary>Sends a close frame, and ends the connection without waiting for the peer's. The session's
    /// thread.</summary>
    private void EndWith(WebSocketStatus status, string reason)
    {
        Interlocked.Or(ref _order, SendsNothing | Ends);
        SayClose(status, reason);
        EndAfterFrame(peerFinished: false);
    }

    /// <summary>Closes with 1011, after earlier sends, because of an exception of an override or a posted
    /// action.</summary>
    /// <param name="exception">The exception.</param>
    protected sealed override void EndAfterException(Exception exception)
    {
        if (_options is null) base.EndAfterException(exception);
        else EndWith(WebSocketStatus.InternalError, "");
    }

    private void Fail(WebSocketRule rule)
    {
        ReportProtocolError(new WebSocketException(WebSocketRules.TextOf(rule)));
        EndWith(WebSocketRules.StatusOf(rule), WebSocketRules.TextOf(rule));
        _inbox?.End(new WebSocketException(
            $"The peer broke a rule, and the WebSocket was closed: {WebSocketRules.TextOf(rule)}."));
    }

    // ------------------------------------------------------------------ the heart-beat

    private bool HasHeart => _options is { } options && options.Heartbeat != Timeout.InfiniteTimeSpan;

    // A session created on the pool has no loop yet during the handshake.
    private void JoinHeart(Loop loop)
    {
        if (!loop.IsCurrent)
        {
            loop.Post(static s =>
            {
                (WebSocketSession session, Loop loop) = ((WebSocketSession, Loop))s!;
                session.JoinHeart(loop);
            }, (this, loop));
            return;
        }

        if (!_heartHasEnded) HeartBeats.Of(loop, _options!.Heartbeat).Join(this);
    }

    private void LeaveHeart()
    {
        if (HeartPlace.IsTaken) HeartBeats.Of(Loop, _options!.Heartbeat).Leave(this);
    }

    private void EndHeart()
    {
        _heartHasEnded = true;
        if (!HasHeart) return;
        if (Loop.IsCurrent) LeaveHeart();
        else Loop.Post(static s => ((WebSocketSession)s!).LeaveHeart(), this);
    }

    /// <summary>Posts a beat. Called on the loop's thread. The session has left the list and joins again in the beat,
    /// so a busy session is not posted twice.</summary>
    internal void BeatIsDue() => Post(static s => ((WebSocketSession)s!).Beat(), this);

    private void Beat()
    {
        // After a close frame no ping may be sent.
        if (_saidClose || _peerHasClosed) return;
        // A peer that reads what it is sent is alive, even if its pong is queued after other data. So is a peer that is
        // not read because this side has paused.
        bool isAlive = _heard || IsReceivingPaused || (_wasPending && BytesSent != _sentThen);
        _heard = false;
        _unanswered = isAlive ? 0 : _unanswered + 1;
        if (_unanswered > DeadAfter)
        {
            NoteTheirEnd();
            Abort();
            return;
        }

        _sentThen = BytesSent;
        _wasPending = BytesPending > 0;
        // While data is unsent a ping proves nothing, and may find no room in the queue.
        if (!isAlive && !_wasPending) SendControl(WebSocketOpcode.Ping, default);
        JoinHeart(Loop);
    }
}
