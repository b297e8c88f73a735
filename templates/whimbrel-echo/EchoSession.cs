using Whimbrel;

/// <summary>One connection. Its callbacks come one after the other, on the thread of its loop: they must not block.</summary>
internal sealed class EchoSession : Session
{
    // A peer that does not read its echo is not read either, so its queue stays small.
    protected override void OnReceived(ReadOnlySpan<byte> data) => Send(data);
}
