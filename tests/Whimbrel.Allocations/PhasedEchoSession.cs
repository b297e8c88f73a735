namespace Whimbrel.Allocations;

// Sets a timeout for the next message and for the response to it, as protocols do.
internal sealed class PhasedEchoSession : Session
{
    private static readonly SessionPhase s_answer = new("the answer", TimeSpan.FromSeconds(10));
    private static readonly SessionPhase s_wait = new("the wait", TimeSpan.FromMinutes(2), leastBytesPerSecond: 1);

    protected override void OnReceived(ReadOnlySpan<byte> data)
    {
        BeginPhase(s_answer);
        Send(data);
        BeginPhase(s_wait);
    }
}
