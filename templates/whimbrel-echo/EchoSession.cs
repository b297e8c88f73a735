using Whimbrel;

/// <summary>One connection. Its callbacks are serialized, on the thread of its loop: they must not block.</summary>
internal sealed class EchoSession : Session
{
    // A peer that does not read its echo is not read from either, so its send queue stays small.
    protected override void OnReceived(ReadOnlySpan<byte> data) => Send(data);
}
