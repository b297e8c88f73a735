namespace Whimbrel.Tool;

/// <summary>Sends received datagrams back, with an optional rate limit per source.</summary>
internal sealed class UdpEcho(int sourceRate) : DatagramHandler
{
    private readonly SourceRateLimit? _limit =
        sourceRate > 0 ? new SourceRateLimit(sourceRate, burst: sourceRate) : null;

    /// <summary>Number of datagrams not answered because of the rate limit. Any thread.</summary>
    internal long Limited => Volatile.Read(ref _limited);

    private long _limited;

    protected override void OnReceived(ReadOnlySpan<byte> datagram, in DatagramPeer peer)
    {
        // An unnamed sender (Unix) cannot be answered. A datagram with this socket's own address would be echoed for
        // ever.
        if (peer.IsNone || IsOwn(peer)) return;
        if (_limit is not null && !_limit.TryTake(peer, Loop.TimeMs)) Volatile.Write(ref _limited, _limited + 1);
        else Send(datagram, peer);
    }

    protected override bool OnReceivedRun(ReadOnlySpan<byte> run, int datagramBytes, in DatagramPeer peer)
    {
        // With a rate each datagram is checked.
        if (_limit is not null) return false;
        if (!peer.IsNone && !IsOwn(peer)) SendRun(run, datagramBytes, peer);
        return true;
    }
}
