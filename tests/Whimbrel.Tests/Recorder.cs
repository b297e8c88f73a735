namespace Whimbrel.Tests;

// A session that records its callbacks and exposes protected members to the test.
internal sealed class Recorder : Session
{
    internal List<string> Calls { get; } = [];

    internal List<byte> Received { get; } = [];

    internal Action<Recorder>? WhenConnecting { get; init; }

    internal Action<Recorder>? WhenConnected { get; init; }

    internal Action<Recorder>? WhenReceived { get; init; }

    internal Action<Recorder>? WhenDisconnected { get; init; }

    internal ValueTask<PipeResult> Pipe(Session target, CancellationToken cancellation) =>
        PipeTo(target, cancellation);

    internal void GiveTo(Session next) => HandOver(next);

    internal LoopTimer After(TimeSpan due, TimeSpan period = default) => StartTimer(due, period);

    internal Span<byte> Room(int count) => Reserve(count);

    internal void Written(int count) => Commit(count);

    internal void Gate(BroadcastGate gate) => BroadcastGate = gate;

    internal void Ask(int count) => SetMinimumBytes(count);

    protected override void OnConnecting()
    {
        Calls.Add("connecting");
        WhenConnecting?.Invoke(this);
    }

    protected override void OnConnected()
    {
        Calls.Add("connected");
        WhenConnected?.Invoke(this);
    }

    protected override void OnReceived(ReadOnlySpan<byte> data)
    {
        Received.AddRange(data);
        WhenReceived?.Invoke(this);
    }

    protected override void OnDisconnected(CloseReason reason)
    {
        Calls.Add($"disconnected {reason.Cause}");
        WhenDisconnected?.Invoke(this);
    }

    protected override void OnTimer(LoopTimer timer) => Calls.Add("timer");

    protected override void OnConnectFailed(CloseReason reason) => Calls.Add($"failed {reason.Cause}");

    protected override void OnError(Exception exception) => Calls.Add($"error {exception.Message}");
}
