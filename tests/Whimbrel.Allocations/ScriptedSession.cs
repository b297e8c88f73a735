namespace Whimbrel.Allocations;

// A session with behaviour given by delegates, which are created before the measurement.
internal sealed class ScriptedSession(ScriptedSession.Unread onData, Action<ScriptedSession>? onConnected = null,
    Action<ScriptedSession>? onTimer = null) : Session
{
    internal delegate int Unread(ScriptedSession session, ReadOnlySpan<byte> unread);

    internal void Periodically(TimeSpan period) => StartTimer(period, period);

    internal void Gate(BroadcastGate gate) => BroadcastGate = gate;

    internal void Pipe(Session target) => _ = PipeTo(target);

    internal BodyStream Begin() => StartBody();

    internal int Offer(ReadOnlySpan<byte> data) => DeliverBody(data);

    protected override void OnConnected() => onConnected?.Invoke(this);

    protected override int OnData(ReadOnlySpan<byte> unread) => onData(this, unread);

    protected override void OnTimer(LoopTimer timer) => onTimer?.Invoke(this);
}
