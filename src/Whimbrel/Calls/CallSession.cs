namespace Whimbrel;

/// <summary>
/// The answering side of calls: derive from it and override <see cref="OnCall"/>. An answer may come at once or later, from any thread, in any order.
/// </summary>
/// <param name="format">How requests and answers lie in the stream.</param>
/// <param name="openLimit">Most calls that have not been answered: with so many nothing more is received until one is; if none is for 10 s, a notice says so. 1 to 65,536.</param>
public abstract class CallSession(CallFormat format, int openLimit = 256) : Session, IFrameTaker
{
    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(10);

    private readonly FrameReader _reader = new((format ?? throw new ArgumentNullException(nameof(format))).Frames);
    private readonly int _openLimit = openLimit is >= 1 and <= 65_536 ? openLimit : throw new ArgumentOutOfRangeException(nameof(openLimit), openLimit, "openLimit must be between 1 and 65,536.");
    private readonly Lock _gate = new();
    private readonly HashSet<ulong> _open = [];
    private bool _isFull;
    private int _fullTimes; // guarded by the gate, as the others
    private bool _isWatched;

    /// <summary>How requests and answers lie in the stream.</summary>
    public CallFormat Format { get; } = format;

    /// <summary>Calls that have not been answered. Any thread.</summary>
    public int OpenCalls
    {
        get
        {
            lock (_gate) return _open.Count;
        }
    }

    /// <summary>A request arrived: <see cref="Answer"/> it, here or later.</summary>
    /// <param name="id">What the answer belongs to.</param>
    /// <param name="request">Valid during the call only.</param>
    protected abstract void OnCall(ulong id, ReadOnlySpan<byte> request);

    /// <summary>A message arrived that is no call. Default: nothing.</summary>
    /// <param name="body">Valid during the call only.</param>
    protected virtual void OnPush(ReadOnlySpan<byte> body)
    {
    }

    /// <summary>
    /// The peer's bytes are no frames, or frames that do not belong to this protocol, or it has called twice with one
    /// id. The default resets the connection and gives a notice of kind <see cref="DiagnosticEventKind.Protocol"/>, at most once a
    /// minute. The reason of the end is then <see cref="CloseCause.ProtocolError"/>, whose exception says which.
    /// </summary>
    protected virtual void OnMalformed()
    {
        NoteMismatch();
        Abort();
    }

    /// <summary>Answers a call, once. Any thread; the result and the limits are those of <see cref="Session.Send(ReadOnlySpan{byte})"/>: only with <c>Queued</c> or <c>Closed</c> is it done.</summary>
    /// <param name="id">What <see cref="OnCall"/> was given.</param>
    /// <param name="answer">The body. Copied.</param>
    /// <exception cref="InvalidOperationException">No call with this id is open: there was none, or it was answered.</exception>
    /// <exception cref="ArgumentException">It cannot be said in this format, or is too long; the call stays open.</exception>
    public SendResult Answer(ulong id, ReadOnlySpan<byte> answer)
    {
        // Out of the set before it is sent: the peer may use the id again when it has the answer.
        if (!TryEnd(id)) Diagnostics.Throw.State($"No call with the id {id} is open: it was answered before, or there was none.");
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

    /// <summary>Sends a message that is no answer. Any thread; the result is that of a send.</summary>
    /// <param name="body">The body. Copied.</param>
    /// <exception cref="ArgumentException">It cannot be said in this format, or is too long.</exception>
    public SendResult Push(ReadOnlySpan<byte> body) => Format.Send(this, 0, body);

    /// <summary>Cuts what is unread into requests.</summary>
    /// <param name="unread">What was left the last time and what has arrived since.</param>
    /// <returns>The bytes of the whole frames that were given.</returns>
    protected sealed override int OnData(ReadOnlySpan<byte> unread) => FrameCutter.Cut(this, _reader, unread);

    internal sealed override string ReceivingName => nameof(OnCall);

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

    void IFrameTaker.Fail(FrameError error, ReadOnlySpan<byte> unread) => Reject(FrameCutter.ExceptionOf(error, Format.Frames, unread));

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
            // Inside the gate: an answer of another thread that makes room resumes behind this, and not before.
            _isFull = true;
            _fullTimes++;
            PauseReceiving();
            Watch();
            return true;
        }
    }

    // Because a busy session is full again and again, one timer serves all of it. Inside the gate.
    private void Watch()
    {
        if (_isWatched) return;
        _isWatched = true;
        (CallSession, int) since = (this, _fullTimes);
        // tidy: allowed because at most one is made in ten seconds
        Loop.StartTimer(s_patience, static s => (((CallSession, int))s!).Item1.LookAtOpen((((CallSession, int))s).Item2), since);
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
