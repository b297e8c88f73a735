using System.Collections.Concurrent;

namespace Whimbrel.Conformance;

/// <summary>A server that records its sessions and events.</summary>
public sealed class RecordingServer : Server
{
    private readonly Rig _rig;
    private readonly ConcurrentQueue<RecordingSession> _made;
    private readonly ConcurrentQueue<string> _events = new();
    private readonly ConcurrentQueue<string> _allEvents = new();

    public RecordingServer(Rig rig, ServerOptions options, Action<RecordingSession>? setUp = null)
        : this(rig, options, setUp, new ConcurrentQueue<RecordingSession>())
    {
    }

    /// <summary>With a factory of the test, which is called at the accept.</summary>
    public RecordingServer(Rig rig, ServerOptions options, Func<Session> factory)
        : base(rig.Scheduled(options), factory)
    {
        _rig = rig;
        _made = new ConcurrentQueue<RecordingSession>();
    }

    /// <summary>With a factory of the test, which sees the connection, with TLS after the handshake.</summary>
    public RecordingServer(Rig rig, ServerOptions options, Func<SessionContext, Session> factory)
        : base(rig.Scheduled(options), factory)
    {
        _rig = rig;
        _made = new ConcurrentQueue<RecordingSession>();
    }

    private RecordingServer(Rig rig, ServerOptions options, Action<RecordingSession>? setUp,
        ConcurrentQueue<RecordingSession> made)
        : base(rig.Scheduled(options), () => Make(rig, setUp, made))
    {
        _rig = rig;
        _made = made;
    }

    private static RecordingSession Make(Rig rig, Action<RecordingSession>? setUp,
        ConcurrentQueue<RecordingSession> made)
    {
        RecordingSession session = new(rig);
        setUp?.Invoke(session);
        made.Enqueue(session);
        return session;
    }

    /// <summary>All sessions that its factory created, in order.</summary>
    public IReadOnlyList<RecordingSession> Made => [.. _made];

    /// <summary>The n-th session, when it exists.</summary>
    public RecordingSession Session(int index = 0)
    {
        _rig.Until(() => _made.Count > index, $"session {index} to be made");
        return _made.ElementAt(index);
    }

    /// <summary>The n-th session, when it was connected (it may have ended again).</summary>
    public RecordingSession Connected(int index = 0)
    {
        RecordingSession session = Session(index);
        _rig.Until(() => session.Saw("connected"), $"session {index} to be connected");
        return session;
    }

    /// <summary>Events of the server after the fact, in order.</summary>
    public IReadOnlyList<string> Events => [.. _events];

    /// <summary>Forgets previous sessions and events, for tests with very many.</summary>
    public void Forget()
    {
        _made.Clear();
        _events.Clear();
        _allEvents.Clear();
    }

    /// <summary>All events, including those before the fact.</summary>
    public IReadOnlyList<string> AllEvents => [.. _allEvents];

    /// <summary>Runs inside OnConnecting.</summary>
    public Action<Session>? AtConnecting { get; set; }

    /// <summary>Runs inside each event, after it was recorded.</summary>
    public Action<string>? OnEvent { get; set; }

    protected override void OnStarting() => RecordEarly("starting");

    protected override void OnConnecting(Session session)
    {
        RecordEarly("connecting");
        AtConnecting?.Invoke(session);
    }

    protected override void OnDisconnecting(Session session, CloseReason reason) =>
        RecordEarly($"disconnecting {reason.Cause}");

    protected override void OnStarted() => Record("started");

    protected override void OnStopping() => Record("stopping");

    protected override void OnStopped(StopReport report) =>
        Record($"stopped drained {report.Drained} aborted {report.Aborted}");

    protected override void OnConnected(Session session) => Record("connected");

    protected override void OnDisconnected(Session session, CloseReason reason) =>
        Record($"disconnected {reason.Cause}");

    protected override void OnConnectFailed(SessionContext connection, CloseReason reason)
    {
        ArgumentNullException.ThrowIfNull(connection);
        if (!ReferenceEquals(connection.Server, this))
            throw new InvalidOperationException("the context of another server");
        Record($"connect failed {reason.Cause}");
    }

    protected override void OnError(Exception exception)
    {
        ArgumentNullException.ThrowIfNull(exception);
        Record($"error {exception.GetType().Name}");
    }

    private void RecordEarly(string text)
    {
        _allEvents.Enqueue(text);
        OnEvent?.Invoke(text);
    }

    private void Record(string text)
    {
        _allEvents.Enqueue(text);
        _events.Enqueue(text);
        OnEvent?.Invoke(text);
    }
}
