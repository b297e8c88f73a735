using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

// The closing handshake (RFC 6455, 7) and the heart-beat: one timer, which first beats and then waits for the peer's close frame.
public abstract partial class WebSocketSession
{
    private const int DeadAfter = 2; // pings that were answered by nothing
    private const int MostSendLimitBytes = 1 << 30;

    private LoopTimer? _timer;
    private long _sentThen;
    private long _pendingThen;
    private int _unanswered;
    private bool _heard;
    private bool _peerHasClosed;
    private bool _saidClose;
    private volatile int _closing; // 1: nothing is sent any more but the close frame

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
        ArgumentNullException.ThrowIfNull(reason);
        if (status != WebSocketStatus.None && !WebSocketClose.MaySend((int)status)) throw new ArgumentOutOfRangeException(nameof(status), status, "A close frame cannot say this.");
        if (Interlocked.Exchange(ref _closing, 1) == 1) return;
        // It keeps its place behind what this thread has sent.
        Post(static s =>
        {
            (WebSocketSession session, WebSocketStatus status, string reason) = ((WebSocketSession, WebSocketStatus, string))s!;
            session.BeginClose(status, reason);
        }, (this, status, reason));
    }

    /// <summary>The peer has said that it ends, and was answered. The connection ends behind this call, which may send nothing more. The session's thread.</summary>
    /// <param name="status">None when it said none.</param>
    /// <param name="reason">Its reason; empty for none.</param>
    protected virtual void OnClosing(WebSocketStatus status, string reason)
    {
    }

    /// <summary>The server stops: closes with <see cref="WebSocketStatus.GoingAway"/>.</summary>
    protected override void OnServerStopping() => BeginClose(WebSocketStatus.GoingAway, "");

    /// <summary>The connection has ended. An override calls this one: it gives back memory.</summary>
    /// <param name="reason">The first cause. What the peer has said is in <see cref="CloseStatus"/>.</param>
    protected override void OnDisconnected(CloseReason reason)
    {
        _timer?.Cancel();
        _closing = 1;
        _message.Release();
        _inflated.Release();
        DropInflater();
        lock (_deflating) DropDeflater();
    }

    // ------------------------------------------------------------------ closing

    /// <summary>Whom to tell that the end was the server's: it may dial again.</summary>
    internal WebSocketClient? DialledBy { get; set; }

    private bool IsClosing => _closing != 0;

    private void BeginClose(WebSocketStatus status, string reason)
    {
        if (!SayClose(status, reason)) return;
        // The peer's frame ends it, or this timer.
        BeatIn(_options!.CloseTimeout, Loop);
    }

    /// <summary>One close frame, and nothing behind it. False: there was one.</summary>
    private bool SayClose(WebSocketStatus status, string reason)
    {
        _closing = 1;
        if (_saidClose) return false;
        _saidClose = true;
        CloseStatus = status;
        CloseText = reason;
        Span<byte> payload = stackalloc byte[WebSocketReader.MostControlBytes];
        // Behind a full queue, or one large message, it would be refused, and what waits there lost. Nothing is sent after it.
        SendLimitBytes = MostSendLimitBytes;
        SendSmall(WebSocketOpcode.Close, payload[..WebSocketClose.Write(payload, status, reason)]);
        return true;
    }

    private void PeerCloses(WebSocketStatus status, string reason)
    {
        _peerHasClosed = true;
        if (SayClose(status, ""))
        {
            CloseText = reason;
            NoteTheirEnd();
        }

        try
        {
            OnClosing(status, reason);
        }
        finally
        {
            Close(peerFinished: true);
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
    }

    // ------------------------------------------------------------------ the heart-beat

    private void StartHeart(Loop loop)
    {
        if (_options!.Heartbeat != Timeout.InfiniteTimeSpan) BeatIn(_options.Heartbeat, loop);
    }

    private void BeatIn(TimeSpan due, Loop loop)
    {
        if (_timer is { } timer) timer.Start(due);
        else _timer = loop.StartTimer(due, static s => ((WebSocketSession)s!).Post(static t => ((WebSocketSession)t!).Beat(), s), this);
    }

    private void Beat()
    {
        if (_saidClose)
        {
            if (!_peerHasClosed) base.Close();
            return;
        }

        // A peer that takes what it is sent lives, though its pong waits behind that.
        bool isAlive = _heard || (_pendingThen > 0 && BytesSent != _sentThen);
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
