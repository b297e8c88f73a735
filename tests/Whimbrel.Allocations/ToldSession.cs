namespace Whimbrel.Allocations;

// Echoes, with every optional hook of a session overridden.
internal sealed class ToldSession : Session
{
    internal long Told { get; private set; }

    protected override void OnReceived(ReadOnlySpan<byte> data) => Send(data);

    protected override bool OnSending(long bytes) => bytes > 0;

    protected override void OnSent(long sent, long pending) => Told += sent;

    protected override void OnDrained() => Told++;
}
