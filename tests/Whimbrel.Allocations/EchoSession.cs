namespace Whimbrel.Allocations;

internal sealed class EchoSession : Session
{
    protected override void OnReceived(ReadOnlySpan<byte> data) => Send(data);
}
