using System.Collections.Concurrent;

namespace Whimbrel.Conformance;

/// <summary>A client whose sessions and events are recorded.</summary>
public sealed class RecordingClient : Client
{
    private readonly Rig _rig;
    private readonly ConcurrentQueue<RecordingSession> _made;
    private readonly ConcurrentQueue<string> _events = new();

    public RecordingClient(Rig rig, ClientOptions options, Action<RecordingSession>? setUp = null)
        : this(rig, options, setUp, new ConcurrentQueue<RecordingSession>())
    {
    }

    private RecordingClient(Rig rig, ClientOptions options, Action<RecordingSession>? setUp, ConcurrentQueue<RecordingSession> made)
        : base(rig.Scheduled(options), () => Make(rig, setUp, made))
    {
        _rig = rig;
        _made = made;
    }

    private static RecordingSession Make(Rig rig, Action<RecordingSession>? setUp, ConcurrentQueue<RecordingSession> made)
    {
        RecordingSession session = new(rig);
        setUp?.Invoke(session);
        made.Enqueue(session);
        return session;
    }

    public IReadOnlyList<RecordingSession> Made => [.. _made];

    /// <summary>The n-th session, when it is there.</summary>
    public RecordingSession Attempt(int index = 0)
    {
        _rig.Until(() => _made.Count > index, $"dial {index} to make its session");
        return _made.ElementAt(index);
    }

    /// <summary>Events of the client, in order.</summary>
    public IReadOnlyList<string> Events => [.. _events];

    protected override void OnConnected(Session session) => _events.Enqueue("connected");

    protected override void OnDisconnected(Session session, CloseReason reason) => _events.Enqueue($"disconnected {reason.Cause}");
}
