namespace Whimbrel;

/// <summary>
/// The answering side of calls: derive from it and override <see cref="OnCall"/>. An answer may be sent at once or
/// later, on any thread, in any order.
/// </summary>
/// <param name="format">Format of requests and answers in the stream.</param>
/// <param name="openLimit">Maximum number of unanswered calls, 1 to 65,536. At the limit receiving pauses until one is
/// answered; if none is for 10 s, a diagnostic event is reported.</param>
public abstract class CallSession(CallFormat format, int openLimit = 256) : Session, IFrameTaker
{
    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(10);

    private readonly FrameReader _reader = new((format ?? throw new ArgumentNullException(nameof(format))).Frames);
    private readonly int _openLimit = openLimit is >= 1 and <= 65_536
        ? openLimit
        : throw new ArgumentOutOfRangeException(nameof(openLimit), openLimit,
            "openLimit must be between 1 and 65,536.");
    private readonly Lock _gate = new();
    private readonly HashSet<ulong> _open = [];
    private bool _isFull;
    private int _fullTimes; // guarded by the lock, like the others
    private bool _isWatched;

    /// <summary>Format of requests and answers in the stream.</summary>
    public CallFormat Format { get; } = format;

    /// <summary>Number of unanswered calls. Any thread.</summary>
    public int OpenCalls
    {
        get
        {
            lock (_gate) return _open.Count;
        }
    }

    /// <summary>Called for each request: call <see cref="Answer"/>, here or later.</summary>
    /// <param name="id">Id for the answer.</param>
    /// <param name="request">Body of the request. Valid during the call only.</param>
    protected abstract void OnCall(ulong id, ReadOnlySpan<byte> request);

    /// <summary>Called for each message that is not a call. Default: no action.</summary>
    /// <param name="body">Body of the message. Valid during the call only.</param>
    protected virtual void OnPush(ReadOnlySpan<byte> body)
    {
    }

    /// <summary>
    /// Called when the peer's data are not frames, or not frames of this protocol, or when it has used an id twice. The
    /// default resets the connection and reports a diagnostic event of kind <see cref="DiagnosticEventKind.Protocol"/>,
    /// at most once a minute. The reason of the end is then <see cref="CloseCause.ProtocolError"/>, with an exception
    /// that has the details.
    /// </summary>
    protected virtual void OnMalformed()
    {
        NoteMismatch();
        Abort();
    }

    /// <summary>
    /// Answers a call, once. Any thread; result and limits as in <see cref="Session.Send(ReadOnlySpan{byte})"/>. The
    /// call is done only with <c>Queued</c> or <c>Closed</c>.
    /// </summary>
    /// <param name="id">Id passed to <see cref="OnCall"/>.</param>
    /// <param name="answer">Body of the answer. Copied.</param>
    /// <exception cref="InvalidOperationException">No call with this id is open: there was none, or it was
    /// answered.</exception>
    /// <exception cref="ArgumentException">The answer cannot be encoded in this format, or is too long; the call stays
    /// open.</exception>
    public SendResult Answer(ulong id, ReadOnlySpan<byte> answer)
    {
        // Removed before it is sent, because the peer may reuse the id as soon as it has the answer.
        if (!TryEnd(id))
            Diagnostics.Throw.State($"No call with the id {id} is open: it was answered before, or there was none.");
        SendResult result = SendResult.Full;
        try
        {
            result = Format.Send(this, id, answer);
        }
        finally
        {
            if (result is SendResult.Queued or SendResult.Closed) GoOn();
            else Reopen(id);
        }

        return result;
    }

    /// <summary>Sends a message that is not an answer. Any thread. Returns the result of the send.</summary>
    /// <param name="body">Body of the message. Copied.</param>
    /// <exception cref="ArgumentException">The body cannot be encoded in this format, or is too long.</exception>
    public SendResult Push(ReadOnlySpan<byte> body) => Format.Send(this, 0, body);

    /// <summary>Splits unread data into requests.</summary>
    /// <param name="unread">Unconsumed bytes of the previous call, followed by newly received bytes.</param>
    /// <returns>Number of bytes of the complete frames that were processed.</returns>
    protected sealed override int OnData(ReadOnlySpan<byte> unread) => FrameCutter.Cut(this, _reader, unread);

    internal sealed override string ReceivingName => nameof(OnCall);

    internal sealed override int UnfinishedBytes => _reader.Unfinished;

    void IFrameTaker.Take(in Frame frame)
    {
        switch (Format.Read(frame, out ulong id, out ReadOnlySpan<byte> body))
        {
            case CallKind.Numbered:
                if (TryBegin(id)) OnCall(id, body);
                else Reject(new InvalidDataException($"it has called twice with the id {id}"));
                break;
            case CallKind.Push:
                OnPush(body);
                break;
            default:
                Reject(new InvalidDataException("a frame is neither a call nor a push of this format"));
                break;
        }
    }

    void IFrameTaker.Fail(FrameError error, ReadOnlySpan<byte> unread) =>
        Reject(FrameCutter.ExceptionOf(error, Format.Frames, unread));

    private void Reject(Exception error)
    {
        ReportProtocolError(error);
        OnMalformed();
    }

    private bool TryBegin(ulong id)
    {
        lock (_gate)
        {
            if (!_open.Add(id)) return false;
            if (_open.Count < _openLimit) return true;
            // Inside the lock: an answer of another thread that makes space must resume after this pause, not before.
            _isFull = true;
            _fullTimes++;
            PauseReceiving();
            Watch();
            return true;
        }
    }

    // One timer serves the whole session, because a busy session reaches the limit again and again. Inside the lock.
    private void Watch()
    {
        if (_isWatched) return;
        _isWatched = true;
        (CallSession, int) since = (this, _fullTimes);
        Loop.StartTimer(s_patience,
            // tidy: allowed because at most one is made in ten seconds
            static s => (((CallSession, int))s!).Item1.LookAtOpen((((CallSession, int))s).Item2), since);
    }

    private void LookAtOpen(int fullTimes)
    {
        int open;
        lock (_gate)
        {
            _isWatched = false;
            if (!_isFull || !IsConnected) return;
            if (_fullTimes != fullTimes)
            {
                Watch();
                return;
            }

            open = _open.Count;
        }

        NoteOpenCalls(open, s_patience.TotalSeconds);
    }

    private bool TryEnd(ulong id)
    {
        lock (_gate) return _open.Remove(id);
    }

    private void Reopen(ulong id)
    {
        lock (_gate) _open.Add(id);
    }

    private void GoOn()
    {
        lock (_gate)
        {
            if (!_isFull || _open.Count >= _openLimit) return;
            _isFull = false;
        }

        ResumeReceiving();
    }
}
