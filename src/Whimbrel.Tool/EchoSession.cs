namespace Whimbrel.Tool;

/// <summary>
/// Sends back what it receives. That is all: a peer that does not read its echo fills the send queue, and then is not
/// read either (contract 9), so the result of the send needs no look.
/// </summary>
internal sealed class EchoSession : Session
{
    protected override void OnReceived(ReadOnlySpan<byte> data) => Send(data);
}
