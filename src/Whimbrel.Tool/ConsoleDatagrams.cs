namespace Whimbrel.Tool;

/// <summary>Prints received datagrams, one per line. Runs on its loop; the counts are for any thread.</summary>
internal sealed class ConsoleDatagrams(LinePrinter lines, Action<string> tell) : DatagramHandler
{
    private long _received;
    private long _lastMs;
    private volatile bool _wasRefused;

    internal long Received => Volatile.Read(ref _received);

    /// <summary>Time of the last datagram, on the loop's clock.</summary>
    internal long LastMs => Volatile.Read(ref _lastMs);

    /// <summary>Whether the network reported that there is no receiver at the address, or no route to it.</summary>
    internal bool WasRefused => _wasRefused;

    protected override void OnReceived(ReadOnlySpan<byte> datagram, in DatagramPeer peer)
    {
        lines.Add(DatagramText.DescribeLine(datagram));
        Volatile.Write(ref _lastMs, Loop.TimeMs);
        Volatile.Write(ref _received, _received + 1);
    }

    protected override void OnPeerError(in DatagramFault fault) => Refuse(fault.Error);

    protected override void OnSendFailed(in DatagramFault fault) => Refuse(fault.Error);

    private void Refuse(NetworkError error)
    {
        // Each datagram is rejected with the same error.
        if (!_wasRefused) tell($"whimbrel: {error.Message}");
        _wasRefused = true;
    }
}
