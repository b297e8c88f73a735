namespace Whimbrel.Tool;

/// <summary>
/// Sends received data back. A peer that does not read its echo fills the send queue, and then is not
/// read either (contract 9), so the result of the send need not be checked.
/// </summary>
internal sealed class EchoSession : Session
{
    protected override void OnReceived(ReadOnlySpan<byte> data) => Send(data);
}
