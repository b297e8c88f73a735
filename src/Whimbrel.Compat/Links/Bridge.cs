namespace Whimbrel.Compat.Links;

/// <summary>Native session of a link whose class overrides neither OnSent nor OnEmpty.</summary>
internal sealed class Bridge(BridgeEnd end) : Session, IBridge
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

    protected override void OnConnecting()
    {
        end.Connecting(this);
        // The user's class is known now. A class without these overrides does not pay for them.
        if (end.WantsTelling) HandOver(new TellingBridge(end));
    }

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
}
