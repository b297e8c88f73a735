namespace Whimbrel.Allocations;

internal sealed class EchoAndCloseSession : Session
{
    protected override void OnReceived(ReadOnlySpan<byte> data)
    {
        Send(data);
        Close();
    }
}
