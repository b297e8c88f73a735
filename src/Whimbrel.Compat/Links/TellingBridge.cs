namespace Whimbrel.Compat.Links;

/// <summary>
/// Native session for classes that override OnSent or OnEmpty, because overriding the native callbacks costs CPU. A
/// client uses it from the start. A server's connection hands over to it from a <see cref="Bridge"/>, when user code
/// has created its session.
/// </summary>
internal sealed class TellingBridge(BridgeEnd end) : Session, IBridge
{
    public BridgeEnd End => end;

    protected override string DiagnosticName => end.OwnerName;

    public void SetReceiveBuffer(byte[] buffer) => ReceiveBuffer = buffer;

    public bool TryHoldBroadcasts(bool holds)
    {
        if (!IsOnSessionThread) return false;
        BroadcastGate = holds ? BroadcastGate.Held : BroadcastGate.Open;
        return true;
    }

    protected override void OnConnecting() => end.Connecting(this);

    protected override void OnTlsHandshakeStarting() => end.Handshaking(this);

    protected override void OnConnected() => end.Connected(this);

    protected override void OnReceived(ReadOnlySpan<byte> data) => end.Received(this, data);

    protected override void OnDisconnecting(CloseReason reason) => end.Disconnecting(this, reason);

    protected override void OnDisconnected(CloseReason reason) => end.Disconnected(this, reason);

    protected override void OnConnectFailed(CloseReason reason) => end.Disconnected(this, reason);

    protected override void OnError(Exception exception)
    {
        base.OnError(exception); // logs and counts the exception
        end.Threw();
    }

    protected override void OnSent(long sent, long pending) => end.Sent(sent, pending);

    protected override void OnDrained() => end.Drained();
}
