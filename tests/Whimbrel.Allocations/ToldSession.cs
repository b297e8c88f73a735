namespace Whimbrel.Allocations;

// Echoes with every hook overridden that a session can be asked or told by.
internal sealed class ToldSession : Session
{
    internal long Told { get; private set; }

    protected override void OnReceived(ReadOnlySpan<byte> data) => Send(data);

    protected override bool OnSending(long bytes) => bytes > 0;

    protected override void OnSent(long sent, long pending) => Told += sent;

    protected override void OnDrained() => Told++;
}
