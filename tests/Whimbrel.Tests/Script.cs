namespace Whimbrel.Tests;

internal delegate void ScriptReceived(Script session, ReadOnlySpan<byte> data);

// A session with callbacks given by the test.
internal sealed class Script : Session
{
    internal List<string> Calls { get; } = [];

    internal List<byte> Got { get; } = [];

    internal Action<Script>? WhenConnecting { get; init; }

    internal Action<Script>? WhenConnected { get; init; }

    internal ScriptReceived? WhenReceived { get; init; }

    internal Action<Script>? WhenEndOfStream { get; init; }

    internal Action<Script, LoopTimer>? WhenTimer { get; init; }

    internal Action<Script, CloseReason>? WhenDisconnected { get; init; }

    internal void After(TimeSpan due) => StartTimer(due);

    internal void Every(TimeSpan period) => StartTimer(period, period);

    internal void GiveTo(Session next) => HandOver(next);

    protected override void OnConnecting() => WhenConnecting?.Invoke(this);

    protected override void OnConnected() => WhenConnected?.Invoke(this);

    protected override void OnConnectFailed(CloseReason reason) => Calls.Add($"failed {reason.Cause}");

    protected override void OnReceived(ReadOnlySpan<byte> data) => WhenReceived?.Invoke(this, data);

    protected override void OnEndOfStream()
    {
        if (WhenEndOfStream is null) base.OnEndOfStream();
        else WhenEndOfStream(this);
    }

    protected override void OnTimer(LoopTimer timer) => WhenTimer?.Invoke(this, timer);

    protected override void OnDisconnected(CloseReason reason) => WhenDisconnected?.Invoke(this, reason);
}
