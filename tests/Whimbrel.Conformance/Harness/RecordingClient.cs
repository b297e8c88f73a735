using System.Collections.Concurrent;

namespace Whimbrel.Conformance;

/// <summary>A client that records its sessions and events.</summary>
public sealed class RecordingClient : Client
{
    private readonly Rig _rig;
    private readonly ConcurrentQueue<RecordingSession> _made;
    private readonly ConcurrentQueue<string> _events = new();
    private readonly ConcurrentQueue<TimeSpan> _delays = new();

    public RecordingClient(Rig rig, ClientOptions options, Action<RecordingSession>? setUp = null)
        : this(rig, options, setUp, new ConcurrentQueue<RecordingSession>())
    {
    }

    private RecordingClient(Rig rig, ClientOptions options, Action<RecordingSession>? setUp,
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

    public IReadOnlyList<RecordingSession> Made => [.. _made];

    /// <summary>The n-th session, when it exists.</summary>
    public RecordingSession Attempt(int index = 0)
    {
        _rig.Until(() => _made.Count > index, $"connect {index} to make its session");
        return _made.ElementAt(index);
    }

    /// <summary>Events of the client, in order.</summary>
    public IReadOnlyList<string> Events => [.. _events];

    /// <summary>All events in one text, for comparison.</summary>
    public string Story => string.Join(", ", Events);

    /// <summary>The delays passed to OnReconnecting.</summary>
    public IReadOnlyList<TimeSpan> Delays => [.. _delays];

    /// <summary>Runs inside each event, after it was recorded.</summary>
    public Action<string>? OnEvent { get; set; }

    public void Until(string text) => _rig.Until(() => _events.Contains(text), $"'{text}' after {Story}");

    /// <summary>The client's decision about an end; null: the policy decides.</summary>
    public Func<CloseReason, bool>? JudgesEnd { get; set; }

    /// <summary>Its connections count only after <see cref="CallNoteOpened"/>.</summary>
    public bool Opens { get; set; }

    public void CallNoteOpened(Session session) => ReportOpened(session);

    /// <summary>Exception that a failed connect throws instead of its own.</summary>
    public Func<NetworkException, Exception>? Explains { get; set; }

    protected override bool HasOpening => Opens;

    protected override Exception FailureOf(NetworkException failure) =>
        Explains?.Invoke(failure) ?? base.FailureOf(failure);

    protected override bool IsFinal(CloseReason reason) => JudgesEnd?.Invoke(reason) ?? base.IsFinal(reason);

    protected override void OnConnected(Session session) => Record("connected");

    protected override void OnDisconnected(Session session, CloseReason reason) =>
        Record($"disconnected {reason.Cause}");

    protected override void OnReconnecting(int attempt, TimeSpan delay, CloseReason reason)
    {
        _delays.Enqueue(delay);
        Record($"reconnecting {attempt}");
    }

    protected override void OnReconnected(Session session, int attempts) => Record($"reconnected {attempts}");

    protected override void OnGaveUp(CloseReason reason) => Record($"gave up {reason.Cause}");

    private void Record(string text)
    {
        _events.Enqueue(text);
        OnEvent?.Invoke(text);
    }
}
