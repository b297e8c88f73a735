using Whimbrel.Http.Parsing;
using Whimbrel.Http.WebSockets;

namespace Whimbrel.Http;

// The closing handshake (RFC 6455, 7) and the heart-beat.
public partial class WebSocketSession
{
    private const int DeadAfter = 2; // pings that were answered by nothing
    private const int MostSendLimitBytes = 1 << 30;

    internal HeartBeats.Place HeartPlace; // the loop's thread
    private LoopTimer? _closeTimer;
    private long _sentThen;
    private int _unanswered;
    private volatile bool _heartHasEnded;
    private bool _heard;
    private bool _wasPending;
    private bool _peerHasClosed;
    private bool _saidClose;
    private int _isShaken; // the closing handshake is over, or will never be: a close is the connection's

    /// <summary>Why it was closed: what the first of both ends has said. <see cref="WebSocketStatus.Abnormal"/> before anybody has.</summary>
    public WebSocketStatus CloseStatus { get; private set; } = WebSocketStatus.Abnormal;

    /// <summary>The reason beside <see cref="CloseStatus"/>; empty for none.</summary>
    public string CloseText { get; private set; } = "";

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
        if (!EndsNow()) return;
        if (!_isInline && IsOnSessionThread)
        {
            // The callback may block on the end, and what is posted would run behind it.
            SayGoodbye(status, reason);
            Flush();
            return;
        }

        // It keeps its place behind what this thread has sent.
        bool isTold = Post(static s =>
        {
            (WebSocketSession session, WebSocketStatus status, string reason) = ((WebSocketSession, WebSocketStatus, string))s!;
            session.SayGoodbye(status, reason);
        }, (this, status, reason));
        if (!isTold) EndConnection(peerFinished: false);
    }

    /// <summary>
    /// <see cref="Session.Close()"/> and its other forms close with <see cref="WebSocketStatus.Normal"/>, as <see cref="Close(WebSocketStatus, string)"/> does. Where a callback of this session on the
    /// pool blocks in <see cref="Session.Close(TimeSpan)"/>, the close frame is sent and the peer's is not waited for: nothing of this session runs until the callback has returned.
    /// </summary>
    /// <param name="isBlocking">By <see cref="Session.Close(TimeSpan)"/>.</param>
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
    /// As <see cref="Close(WebSocketStatus, string)"/>, and completes when the connection has ended: the peer has answered, or was waited for as long as
    /// <see cref="WebSocketOptions.CloseTimeout"/>. <see cref="CloseStatus"/> says then what the first of both has said. Any thread; a callback on the loop must not block on it, and one of this session on the pool
    /// that does waits out that limit.
    /// </summary>
    /// <param name="status">As there.</param>
    /// <param name="reason">As there.</param>
    /// <param name="cancellationToken">Ends the patience: the connection is aborted, and the task is cancelled when it has ended.</param>
    /// <exception cref="ArgumentOutOfRangeException">The status may not be sent.</exception>
    public ValueTask<CloseReason> CloseAsync(WebSocketStatus status, string reason = "", CancellationToken cancellationToken = default)
    {
        Close(status, reason);
        return CloseAsync(cancellationToken);
    }

    /// <summary>As <see cref="FinishSending(WebSocketStatus, string)"/> with <see cref="WebSocketStatus.Normal"/>.</summary>
    protected sealed override void BeginFinishing() => FinishSending(WebSocketStatus.Normal);

    /// <summary>
    /// Says why, behind what this thread has sent, and goes on receiving until the peer has said so too, or <see cref="Session.Close()"/> is called. Who
    /// answers a close frame at once, as most do, sends nothing more. Without a limit in time. Any thread.
    /// </summary>
    /// <param name="status">As in <see cref="Close(WebSocketStatus, string)"/>.</param>
    /// <param name="reason">As there.</param>
    /// <exception cref="ArgumentOutOfRangeException">The status may not be sent.</exception>
    public void FinishSending(WebSocketStatus status, string reason = "")
    {
        Check(status, reason);
        if ((Interlocked.Or(ref _order, SendsNothing) & SendsNothing) != 0) return;
        Post(static s =>
        {
            (WebSocketSession session, WebSocketStatus status, string reason) = ((WebSocketSession, WebSocketStatus, string))s!;
            session.SayClose(status, reason);
            if (session._peerHasClosed) session.EndAfterFrame(peerFinished: true);
        }, (this, status, reason));
    }

    /// <summary>As <see cref="FinishSending(WebSocketStatus, string)"/>, and completes when the system has taken the frame, or the connection has ended first.</summary>
    internal async ValueTask FinishSendingAsync(WebSocketStatus status, string reason)
    {
        FinishSending(status, reason);
        // Behind the action that queues the frame; on the pool what was queued waits for the end of a batch.
        do
        {
            if (!await PostAsync(static s => ((WebSocketSession)s!).Flush(), this).ConfigureAwait(false)) return;
        }
        while (!Volatile.Read(ref _isFrameQueued)); // other threads are in the middle of a send
        await SentAsync().ConfigureAwait(false);
    }

    internal static void Check(WebSocketStatus status, string reason)
    {
        ArgumentNullException.ThrowIfNull(reason);
        if (status != WebSocketStatus.None && !WebSocketClose.MaySend((int)status))
            throw new ArgumentOutOfRangeException(nameof(status), (int)status, "A close frame has a status of 1000 to 1003, 1007 to 1014 or 3000 to 4999, or none (WebSocketStatus.None).");
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
        if (EndsNow()) SayGoodbye(WebSocketStatus.GoingAway, "");
    }

    /// <summary>The peer has ended the connection: nobody is there for a close frame. The default closes, as for any session.</summary>
    protected override void OnPeerFinished() => EndConnection(peerFinished: false);

    /// <summary>The connection has ended. An override calls this one: it gives back memory at once, which else the collector does later.</summary>
    /// <param name="reason">The first cause. What the peer has said is in <see cref="CloseStatus"/>.</param>
    protected override void OnDisconnected(CloseReason reason)
    {
        EndHeart();
        _closeTimer?.Cancel();
        Interlocked.Or(ref _order, SendsNothing | Ends);
        _message.Release();
        _deflate?.Release();
        _inbox?.Disconnected(_peerHasClosed ? null : new WebSocketException($"The WebSocket ended without a close frame of its peer: {reason}."));
    }

    // ------------------------------------------------------------------ closing

    /// <summary>Whom to tell that the end was the server's: it may dial again.</summary>
    internal WebSocketClient? DialledBy { get; set; }

    // The session's thread.
    private void SayGoodbye(WebSocketStatus status, string reason)
    {
        SayClose(status, reason);
        // The peer's frame ends it, or this timer. Behind messages that nobody will read it must be seen.
        _inbox?.StopHolding();
        if (_peerHasClosed) EndAfterFrame(peerFinished: true);
        // On the loop and not on the session's thread: a callback that blocks on the end is in its way there.
        else WaitAtMost();
    }

    private void WaitAtMost() => _closeTimer ??= Loop.StartTimer(_options!.CloseTimeout, static s => ((WebSocketSession)s!).EndConnection(peerFinished: false), this);

    /// <summary>The handshake is over, or will never be. Any thread.</summary>
    /// <param name="peerFinished">Both have said that they end.</param>
    private void EndConnection(bool peerFinished)
    {
        Volatile.Write(ref _isShaken, 1);
        Close(peerFinished);
    }

    /// <summary>One close frame, and nothing behind it (<c>WebSocketSession.Order.cs</c>). False: there was one. The session's thread.</summary>
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
            // Who pulls may still send: the answer waits for his own end.
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
        if (DialledBy is { } client) client.EndWasTheirs = true;
    }

    /// <summary>Says why, and waits for no answer. The session's thread.</summary>
    private void EndWith(WebSocketStatus status, string reason)
    {
        Interlocked.Or(ref _order, SendsNothing | Ends);
        SayClose(status, reason);
        EndAfterFrame(peerFinished: false);
    }

    /// <summary>An exception of an override, or of a posted action: the peer is told 1011, behind what was sent before it.</summary>
    /// <param name="exception">What was thrown.</param>
    protected sealed override void EndAfterException(Exception exception)
    {
        if (_options is null) base.EndAfterException(exception);
        else EndWith(WebSocketStatus.InternalError, "");
    }

    private void Fail(WebSocketRule rule)
    {
        NoteProtocolError(new WebSocketException(WebSocketRules.TextOf(rule)));
        EndWith(WebSocketRules.StatusOf(rule), WebSocketRules.TextOf(rule));
        _inbox?.End(new WebSocketException($"The peer broke a rule, and the WebSocket was closed: {WebSocketRules.TextOf(rule)}."));
    }

    // ------------------------------------------------------------------ the heart-beat

    private bool HasHeart => _options is { } options && options.Heartbeat != Timeout.InfiniteTimeSpan;

    // Of a handshake on the pool the session knows no loop yet.
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

    /// <summary>The loop's thread. It has left, and is back when the session's thread has done what a beat asks: one that is busy is not asked twice.</summary>
    internal void BeatIsDue() => Post(static s => ((WebSocketSession)s!).Beat(), this);

    private void Beat()
    {
        // Half closed there is nothing to ask a peer by.
        if (_saidClose || _peerHasClosed) return;
        // A peer that takes what it is sent lives, though its pong waits behind that; so does one that is not read because nobody here asks for more.
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
        // Behind what a peer does not take a ping asks nothing, and may find no room.
        if (!isAlive && !_wasPending) SendControl(WebSocketOpcode.Ping, default);
        JoinHeart(Loop);
    }
}
