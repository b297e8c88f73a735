namespace Whimbrel.Tool;

/// <summary>The client's end: what comes is printed, a line for each datagram. On its loop; the counts for any thread.</summary>
internal sealed class ConsoleDatagrams(LinePrinter lines, Action<string> tell) : DatagramHandler
{
    private long _received;
    private long _lastMs;
    private volatile bool _wasRefused;

    internal long Received => Volatile.Read(ref _received);

    /// <summary>When the last one came, in the time of the loop.</summary>
    internal long LastMs => Volatile.Read(ref _lastMs);

    /// <summary>The peer's system said that nobody receives there, or no way leads there.</summary>
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
        // Each datagram is refused anew, and says the same.
        if (!_wasRefused) tell($"whimbrel: {error.Message}");
        _wasRefused = true;
    }
}
